"""Group commit: one sync covers many appends; appends continue during a sync, and their answers wait.

Role.   With `flush.messages=1` an answer waits until its batch survives a power cut. A sync per batch would allow a few
        thousand answers a second, so the next sync covers every batch appended during the current one.
Flow.   The broker appends, then awaits `durable(offset)` before it answers. Background flushes (`flush.ms`, a
        rolled segment) call `flush`.
Rules.  * At most one sync of a log runs at a time, on a thread; the next begins when it ends, if a caller waits.
        * A failed sync takes the log offline: every current and later waiter gets an error. A sync that could not begin costs its
          own waiters one.
"""

import asyncio

from semel.errors import LogError
from semel.log.flush_job import FlushJob
from semel.log.partition_log import PartitionLog
from semel.runtime.clock import Clock
from semel.runtime.tasks import Tasks


class GroupCommit:
    """The syncs of one log."""

    def __init__(self, log: PartitionLog, tasks: Tasks, clock: Clock) -> None:
        self._log = log
        self._tasks = tasks
        self._clock = clock
        self._running: asyncio.Task[None] | None = None
        self.syncs = 0

    async def durable(self, end_offset: int) -> None:
        """Return once the records below `end_offset` survive a power cut; raises `LogError` if they never will."""
        log = self._log
        truncations = log.truncations
        while log.recovery_point < end_offset:
            if log.offline is not None:
                raise LogError(f"{log.topic_partition} is offline: {log.offline}")
            await self.flush()
            if log.truncations != truncations:  # These offsets may hold other batches now.
                raise LogError(
                    f"{log.topic_partition} was truncated before offset {end_offset - 1} was synced"
                )

    async def flush(self) -> None:
        """Wait for the running sync, or for a new one; raises `LogError` if the log is offline."""
        if self._log.offline is not None:
            raise LogError(f"{self._log.topic_partition} is offline: {self._log.offline}")
        if self._running is None:
            name = f"sync {self._log.topic_partition}"
            self._running = self._tasks.spawn(self._sync(), name=name)
        await asyncio.shield(self._running)

    async def _sync(self) -> None:
        try:
            job = self._begin()
            self.syncs += 1
            try:
                await self._tasks.in_thread(job.run, order=self._log.directory)
            except OSError as error:
                self._log.flush_failed(error)
            else:
                self._log.finish_flush(job, self._clock.now_ms())
        finally:
            self._running = None

    def _begin(self) -> FlushJob:
        try:
            return self._log.begin_flush()
        except OSError as error:  # Nothing was synced, and nothing is lost: the next sync tries again.
            raise LogError(
                f"{self._log.topic_partition}: its indexes could not be written before a sync: {error}"
            ) from error

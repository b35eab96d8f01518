"""One sync for many acknowledgements: appends go on while the disk works, and answers wait for it.

Role.   With `flush.messages=1` an answer must not leave before its batch survives a power cut. A sync per batch
        would give a few thousand answers a second; here every batch that was appended while one sync ran is covered
        by the next.
Flow.   The broker appends, then awaits `durable(offset)` before it answers. Background flushes (`flush.ms`, a
        rolled segment) call `flush`.
Rules.  * At most one sync of a log runs at a time, on a thread; the next begins when it ends, if anyone waits.
        * A sync that fails takes the log offline: every waiter, and every later one, gets an error, never an answer.
"""

import asyncio

from semel.errors import LogError
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
        """Return once everything below `end_offset` survives a power cut; raises `LogError` if it never will."""
        log = self._log
        truncations = log.truncations
        while log.recovery_point < end_offset:
            if log.offline is not None:
                raise LogError(f"{log.topic_partition} is offline: {log.offline}")
            await self.flush()
            if log.truncations != truncations:  # Other batches may stand at these offsets by now.
                raise LogError(
                    f"{log.topic_partition} was truncated before offset {end_offset - 1} was synced"
                )

    async def flush(self) -> None:
        """Wait for the sync that runs, or for a new one; raises `LogError` if the log is offline."""
        if self._log.offline is not None:
            raise LogError(f"{self._log.topic_partition} is offline: {self._log.offline}")
        if self._running is None:
            name = f"sync {self._log.topic_partition}"
            self._running = self._tasks.spawn(self._sync(), name=name)
        await asyncio.shield(self._running)

    async def _sync(self) -> None:
        job = self._log.begin_flush()
        self.syncs += 1
        try:
            await self._tasks.in_thread(job.run, order=self._log.directory)
        except OSError as error:
            self._log.flush_failed(error)
        else:
            self._log.finish_flush(job, self._clock.now_ms())
        finally:
            self._running = None

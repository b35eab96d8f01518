"""The worker pool for asyncio: `await consumer.process(work, workers=8)` of `semel.aio.Consumer`.

Role.   The asyncio twin of `workers`, with its options, guarantees and limits: tasks of the running loop process
        records, and the pool commits the finished prefix of each partition.
Flow.   `run` polls, offers records to a `PoolState` and commits; tasks take records from it and report their outcomes.
Rules.  * `work` is an `async def`, or a function that returns an awaitable or a concurrent future; a plain function
          runs on the loop and blocks it.
        * `consumer.wakeup()`, `until`, or a permanent failure of work end the pool: running work is finished and
          committed. A cancelled pool cancels its work and commits nothing more.
"""

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from concurrent.futures import Future
from typing import Any, Final, Protocol

from semel.exceptions import CommitFailedException, RebalanceInProgressException, WakeupException
from semel.once.rules.pool import NO_RETRY, DeadLetter, End, Order, Outcome, PoolOptions, PoolState, Task
from semel.once.rules.retries import RetryPolicy
from semel.once.workers import POLL_MS, Work, check_commits, check_work
from semel.types import TopicPartition

_log = logging.getLogger(__name__)


class AsyncCommittingConsumer(Protocol):
    """The consumer methods the pool uses."""

    def subscribe(self, topics: Any, *, listener: Any = ...) -> None: ...
    def poll(self, timeout_ms: Any = ...) -> Awaitable[Iterable[Any]]: ...
    def assignment(self) -> Collection[TopicPartition]: ...
    def pause(self, partitions: Any) -> None: ...
    def resume(self, partitions: Any) -> None: ...
    def commit(self, offsets: Any) -> Awaitable[Any]: ...


class AsyncWorkerPool:
    """The workers of one consumer, and its rebalance listener."""

    def __init__(self, consumer: AsyncCommittingConsumer, work: Work, options: PoolOptions) -> None:
        self._consumer: Final = consumer
        self._work: Final = work
        self._options: Final = options
        self._state: Final = PoolState(options)
        self._running: Final[set[asyncio.Task[None]]] = set()
        self._changed = asyncio.Event()
        self._is_cancelled = False
        self._commit_at = 0.0

    async def run(self, until: Callable[[], bool]) -> int:
        """Poll and commit until `until`, a wakeup, or a permanent failure of work; returns the number of finished
        records."""
        try:
            while not until() and self._state.failure is None:
                self._state.offer(list(await self._consumer.poll(timeout_ms=POLL_MS)), self._owned())
                self._fill()
                self._hold_back()
                await self._commit_now_and_then()
        except WakeupException:
            _log.debug("the pool ends after a wakeup")
        except asyncio.CancelledError:
            self._is_cancelled = True
            for task in self._running:
                task.cancel()
            raise
        finally:
            self._state.stopping = True
            self._notify()
            if self._running:
                await asyncio.wait(self._running)
        await self._commit()
        self._state.raise_failure()
        return self._state.finished

    # ---- records

    def _owned(self) -> frozenset[TopicPartition]:
        return frozenset(TopicPartition(*partition) for partition in self._consumer.assignment())

    def _fill(self) -> None:
        """Start tasks up to the number of workers."""
        while len(self._running) < self._options.workers and (task := self._state.take()) is not None:
            self._running.add(asyncio.get_running_loop().create_task(self._serve(task)))

    async def _serve(self, task: Task) -> None:
        outcome: Outcome = End.LEFT
        try:
            outcome = await self._attempt(task)
        finally:
            serving = asyncio.current_task()
            if serving is not None:
                self._running.discard(serving)
            self._state.ended(task, outcome)
            self._notify()
            self._fill()

    async def _attempt(self, task: Task) -> Outcome:
        """Do the work, with retries by the policy."""
        attempt = 0
        while True:
            attempt += 1
            try:
                await _settled(self._work(task.record))
            except (Exception, asyncio.CancelledError) as error:
                if self._is_cancelled:
                    raise
                wait_ms = self._options.retries.wait_ms(attempt)
                if wait_ms is None or not isinstance(error, Exception):
                    return await self._put_aside(task, error)
            else:
                return End.FINISHED
            if await self._until(lambda: self._state.stopping or not task.home.ours, wait_ms):
                return End.LEFT

    async def _put_aside(self, task: Task, error: BaseException) -> Outcome:
        if self._options.dead_letter is None:
            return error
        try:
            await _settled(self._options.dead_letter(task.record, error))
        except Exception as second:
            second.__cause__ = error
            return second
        return End.FINISHED

    # ---- bounds and commits

    def _hold_back(self) -> None:
        pause, resume = self._state.held_back(self._owned())
        if pause:
            self._consumer.pause(list(pause))
        if resume:
            self._consumer.resume(list(resume))

    async def _commit_now_and_then(self) -> None:
        now = time.monotonic()
        if now >= self._commit_at:
            await self._commit()
            self._commit_at = now + self._options.commit_interval_ms / 1000

    async def _commit(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        commit = self._state.to_commit(partitions)
        if not commit.offsets:
            return
        try:
            await self._consumer.commit(commit.offsets)
        except (CommitFailedException, RebalanceInProgressException) as error:
            # The group has rebalanced. No record is lost: the new owner of the partitions repeats this work.
            _log.warning("offsets of %s partitions could not be committed: %s", len(commit.offsets), error)
        else:
            commit.done()

    # ---- the group

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Do nothing: a `Home` is made with the first records."""

    async def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Start no more work, wait for running work, commit."""
        going = [TopicPartition(*partition) for partition in partitions]
        homes = self._state.leaving(going)
        self._notify()
        await self._until(lambda: not any(home.running for home in homes), self._options.drain_ms)
        try:
            await self._commit(going)
        finally:  # After this call, this member may not commit the partitions, stored or not.
            self._drop(going)

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        """Another member owns the partitions already: nothing can be committed."""
        self._drop([TopicPartition(*partition) for partition in partitions])

    def _drop(self, partitions: Collection[TopicPartition]) -> None:
        self._state.drop(partitions)
        self._notify()

    # ---- waiting

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _until(self, condition: Callable[[], bool], timeout_ms: int) -> bool:
        """Wait for the condition; whether it became true in time."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while not condition():
                    await self._changed.wait()
        except TimeoutError:
            return condition()
        return True


async def process(
    consumer: AsyncCommittingConsumer,
    work: Work,
    *,
    workers: int = 1,
    order: Order = "key",
    topics: Collection[str] | None = None,
    until: Callable[[], bool] = lambda: False,
    in_flight_max: int | None = None,
    commit_interval_ms: int = 1_000,
    drain_ms: int = 30_000,
    retries: RetryPolicy | None = None,
    dead_letter: DeadLetter | None = None,
) -> int:
    """Pass every record to `work`, `workers` at a time, and commit finished ones; returns their number. As
    `workers.process`."""
    options = PoolOptions(
        workers=workers,
        order=order,
        in_flight_max=in_flight_max,
        commit_interval_ms=commit_interval_ms,
        drain_ms=drain_ms,
        retries=retries or NO_RETRY,
        dead_letter=dead_letter,
    )
    check_work(work)
    check_commits(consumer)
    pool = AsyncWorkerPool(consumer, work, options)
    if topics is not None:
        consumer.subscribe(list(topics), listener=pool)
    return await pool.run(until)


async def _settled(result: object) -> None:
    """Wait for work that returned an awaitable or a future."""
    if isinstance(result, Future):
        await asyncio.wrap_future(result)
    elif inspect.isawaitable(result):
        await result

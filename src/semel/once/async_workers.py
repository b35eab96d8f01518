"""The worker pool for asyncio: `await consumer.process(work, workers=8)` of `semel.aio.Consumer`.

Role.   The twin of `workers`, with its options, guarantees and limits: records are worked on in tasks of the running loop, and what
        is committed is the finished prefix of each partition.
Flow.   `run` polls, offers records to `Lanes` and commits; tasks take from the lanes and note what is done.
Rules.  * `work` is an `async def`, or a function that returns an awaitable or a concurrent future; a plain function runs on the loop
          and holds it up.
        * `consumer.wakeup()`, `until`, or work that fails for good end it: what runs is finished, and committed. A cancelled pool
          cancels its work and commits nothing more.
"""

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable
from concurrent.futures import Future
from typing import Any, Final, Protocol

from semel.exceptions import CommitFailedException, RebalanceInProgressException, WakeupException
from semel.once.rules.lanes import Lanes
from semel.once.rules.retries import RetryPolicy
from semel.once.workers import (
    NO_RETRY,
    POLL_MS,
    DeadLetter,
    End,
    Home,
    Order,
    PoolOptions,
    Task,
    Work,
    check_commits,
    failed_for_good,
    lane_of,
)
from semel.types import TopicPartition

_log = logging.getLogger(__name__)


class AsyncCommittingConsumer(Protocol):
    """What the pool needs of a consumer."""

    def subscribe(self, topics: Any, *, listener: Any = ...) -> None: ...
    def poll(self, timeout_ms: Any = ...) -> Awaitable[Iterable[Any]]: ...
    def assignment(self) -> Collection[TopicPartition]: ...
    def pause(self, partitions: Any) -> None: ...
    def resume(self, partitions: Any) -> None: ...
    def commit(self, offsets: Any) -> Awaitable[Any]: ...


class AsyncWorkerPool:
    """The workers of one consumer; a rebalance listener as well."""

    def __init__(self, consumer: AsyncCommittingConsumer, work: Work, options: PoolOptions) -> None:
        self._consumer: Final = consumer
        self._work: Final = work
        self._options: Final = options
        self._lanes: Final[Lanes[Task]] = Lanes()
        self._homes: Final[dict[TopicPartition, Home]] = {}
        self._running: Final[set[asyncio.Task[None]]] = set()
        self._changed = asyncio.Event()
        self._unfinished = 0
        self._finished = 0
        self._stopping = False
        self._is_cancelled = False
        self._failure: tuple[Any, BaseException] | None = None
        self._paused: frozenset[TopicPartition] = frozenset()
        self._commit_at = 0.0

    async def run(self, until: Callable[[], bool]) -> int:
        """Poll and commit until told to stop, woken up, or until work fails for good; how many records were finished."""
        try:
            while not until() and self._failure is None:
                self._offer(list(await self._consumer.poll(timeout_ms=POLL_MS)))
                self._hold_back()
                await self._commit_now_and_then()
        except WakeupException:
            _log.debug("the pool was woken up: it ends")
        except asyncio.CancelledError:
            self._is_cancelled = True
            for task in self._running:
                task.cancel()
            raise
        finally:
            self._stopping = True
            self._notify()
            if self._running:
                await asyncio.wait(self._running)
        await self._commit(self._homes)
        if self._failure is not None:
            raise failed_for_good(*self._failure, self._options)
        return self._finished

    # ---- records

    def _offer(self, records: Collection[Any]) -> None:
        owned = {TopicPartition(*partition) for partition in self._consumer.assignment()}
        for partition in self._homes.keys() - owned:  # Taken from a consumer that was subscribed without us.
            self._homes.pop(partition).ours = False
        for record in records:
            partition = TopicPartition(record.topic, record.partition)
            home = self._homes.setdefault(partition, Home())
            if (
                record.offset <= home.prefix.last
            ):  # It went and came back inside one poll, or somebody sought.
                home.ours = False
                home = self._homes[partition] = Home()
            home.prefix.started(record.offset)
            self._unfinished += 1
            self._lanes.offer(Task(record, home), lane_of(self._options.order, home, record))
        self._fill()

    def _fill(self) -> None:
        """Have as many at work as may be."""
        while not self._stopping and len(self._running) < self._options.workers:
            taken = self._lanes.take()
            if taken is None:
                return
            lane, task = taken
            if not task.home.ours:  # Its partition is gone: the new owner does it.
                self._unfinished -= 1
                self._lanes.done(lane)
                continue
            task.home.running += 1
            serving = asyncio.get_running_loop().create_task(self._serve(lane, task))
            self._running.add(serving)

    async def _serve(self, lane: Hashable, task: Task) -> None:
        outcome: BaseException | End = End.LEFT
        try:
            outcome = await self._attempt(task)
        finally:
            serving = asyncio.current_task()
            if serving is not None:
                self._running.discard(serving)
            task.home.running -= 1
            self._unfinished -= 1
            self._lanes.done(lane)
            if outcome is End.FINISHED:
                task.home.prefix.finished(task.record.offset)
                self._finished += 1
            elif isinstance(outcome, BaseException) and self._failure is None:
                self._failure = (task.record, outcome)
                self._stopping = True
            self._notify()
            self._fill()

    async def _attempt(self, task: Task) -> BaseException | End:
        """Do the work, as often as the policy says."""
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
            if await self._until(lambda: self._stopping or not task.home.ours, wait_ms):
                return End.LEFT

    async def _put_aside(self, task: Task, error: BaseException) -> BaseException | End:
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
        """Pause above the bound, resume at half of it."""
        owned = frozenset(TopicPartition(*partition) for partition in self._consumer.assignment())
        limit = self._options.unfinished_max
        if self._unfinished >= limit or (self._paused and self._unfinished > limit // 2):
            if self._paused != owned:
                self._consumer.pause(list(owned))
                self._paused = owned
        elif self._paused:
            self._consumer.resume(list(self._paused & owned))
            self._paused = frozenset()

    async def _commit_now_and_then(self) -> None:
        now = time.monotonic()
        if now >= self._commit_at:
            await self._commit(self._homes)
            self._commit_at = now + self._options.commit_interval_ms / 1000

    async def _commit(self, partitions: Iterable[TopicPartition]) -> None:
        homes = {where: home for where in partitions if (home := self._homes.get(where)) is not None}
        offsets = {
            where: home.prefix.position
            for where, home in homes.items()
            if home.prefix.position is not None and home.prefix.position != home.committed
        }
        if not offsets:
            return
        try:
            await self._consumer.commit(offsets)
        except (CommitFailedException, RebalanceInProgressException) as error:
            # The group has moved on. Nothing is lost: whoever has the partitions now does this work again.
            _log.warning("%s partitions could not be committed: %s", len(offsets), error)
            return
        for where, position in offsets.items():
            homes[where].committed = position

    # ---- the group

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Homes are made when records come."""

    async def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Let what runs finish, start nothing more, commit."""
        going = [TopicPartition(*partition) for partition in partitions]
        homes = [self._homes[where] for where in going if where in self._homes]
        for home in homes:
            home.ours = False
        await self._until(lambda: not any(home.running for home in homes), self._options.drain_ms)
        await self._commit(going)
        self._drop(going)

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        """Another one has them already: there is nothing to commit."""
        self._drop([TopicPartition(*partition) for partition in partitions])

    def _drop(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            home = self._homes.pop(partition, None)
            if home is not None:
                home.ours = False
        self._paused -= set(partitions)
        self._notify()

    # ---- waiting

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _until(self, condition: Callable[[], bool], timeout_ms: int) -> bool:
        """Wait for it; whether it came true in time."""
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
    """Give every record to `work`, `workers` at a time, and commit what is finished; how many were. As `workers.process`."""
    options = PoolOptions(
        workers=workers,
        order=order,
        in_flight_max=in_flight_max,
        commit_interval_ms=commit_interval_ms,
        drain_ms=drain_ms,
        retries=retries or NO_RETRY,
        dead_letter=dead_letter,
    )
    check_commits(consumer)
    pool = AsyncWorkerPool(consumer, work, options)
    if topics is not None:
        consumer.subscribe(list(topics), listener=pool)
    return await pool.run(until)


async def _settled(result: object) -> None:
    """Work that goes on elsewhere is finished when it is finished there."""
    if isinstance(result, Future):
        await asyncio.wrap_future(result)
    elif inspect.isawaitable(result):
        await result

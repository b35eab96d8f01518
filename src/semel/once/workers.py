"""A pool of workers for one consumer, which commits only finished records: `consumer.process(work, workers=8)`.

Role.   Records go to threads and finish in any order. The pool commits the finished prefix of each partition, so no
        crash loses an unfinished record.

            consumer.subscribe(["orders"])
            consumer.process(charge, workers=8)               # charge(record); or `async def charge(record)`

Flow.   The caller's thread polls, offers records to a `PoolState` and commits. Workers take records from it and report
        their outcomes.
Rules.  * Work is finished when it returns; if it returns a future or an awaitable, when that has a result.
        * `order`: "key" keeps records of one key in order (not records without a key), "partition" records of one
          partition, "none" no order.
        * At most about `in_flight_max` records are unfinished: above it partitions are paused, and polling continues,
          so that the member stays in the group.
        * A revoked partition is drained for at most `drain_ms` and committed; work still running then finishes without
          a commit, and the new owner repeats it.
        * Failed work is retried (`retries`), then passed to `dead_letter`. Without one the pool stops and has committed
          every earlier record.
        * `until`, or `consumer.wakeup()` from another thread, ends the pool: running work is finished and committed.
        * A consumer with `enable.auto.commit` is refused, because it would commit unfinished records. Limits. At least
once: finished but uncommitted records are repeated after a crash. Make the work idempotent, or use `Deduplicator` or
`exactly_once_sink` inside it.
"""

import asyncio
import inspect
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, Final, Protocol

from semel.errors import ConfigError
from semel.exceptions import CommitFailedException, RebalanceInProgressException, WakeupException
from semel.once.rules.pool import NO_RETRY, DeadLetter, End, Order, Outcome, PoolOptions, PoolState, Task
from semel.once.rules.retries import RetryPolicy
from semel.types import TopicPartition
from semel.words import kind, shown

Work = Callable[[Any], object]
POLL_MS: Final = 100
_log = logging.getLogger(__name__)


class CommittingConsumer(Protocol):
    """The consumer methods the pool uses."""

    def subscribe(self, topics: Any, *, listener: Any = ...) -> None: ...
    def poll(self, timeout_ms: Any = ...) -> Iterable[Any]: ...
    def assignment(self) -> Collection[TopicPartition]: ...
    def pause(self, partitions: Any) -> None: ...
    def resume(self, partitions: Any) -> None: ...
    def commit(self, offsets: Any) -> Any: ...


class WorkerPool:
    """The workers of one consumer. `process` makes, runs and ends a pool, which is also the rebalance listener."""

    def __init__(self, consumer: CommittingConsumer, work: Work, options: PoolOptions) -> None:
        self._consumer: Final = consumer
        self._work: Final = work
        self._options: Final = options
        self._changed: Final = threading.Condition()  # Guards `_state` and `_loop`.
        self._state: Final = PoolState(options)
        self._threads: list[threading.Thread] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._commit_at = 0.0

    def run(self, until: Callable[[], bool]) -> int:
        """Poll and commit until `until`, a wakeup, or a permanent failure of work; returns the number of finished
        records."""
        self._start()
        try:
            while not until() and self._state.failure is None:
                self._offer(list(self._consumer.poll(timeout_ms=POLL_MS)))
                self._hold_back()
                self._commit_now_and_then()
        except WakeupException:
            _log.debug("the pool ends after a wakeup")
        finally:
            self._stop()
        self._commit()
        self._state.raise_failure()
        return self._state.finished

    # ---- the caller's thread

    def _owned(self) -> frozenset[TopicPartition]:
        return frozenset(TopicPartition(*partition) for partition in self._consumer.assignment())

    def _offer(self, records: Collection[Any]) -> None:
        owned = self._owned()
        with self._changed:
            self._state.offer(records, owned)
            self._changed.notify_all()

    def _hold_back(self) -> None:
        owned = self._owned()
        with self._changed:
            pause, resume = self._state.held_back(owned)
        if pause:
            self._consumer.pause(list(pause))
        if resume:
            self._consumer.resume(list(resume))

    def _commit_now_and_then(self) -> None:
        now = time.monotonic()
        if now >= self._commit_at:
            self._commit()
            self._commit_at = now + self._options.commit_interval_ms / 1000

    def _commit(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        with self._changed:
            commit = self._state.to_commit(partitions)
        if not commit.offsets:
            return
        try:
            self._consumer.commit(commit.offsets)
        except (CommitFailedException, RebalanceInProgressException) as error:
            # The group has rebalanced. No record is lost: the new owner of the partitions repeats this work.
            _log.warning("offsets of %s partitions could not be committed: %s", len(commit.offsets), error)
        else:
            commit.done()

    # ---- the group

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Do nothing: a `Home` is made with the first records."""

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Start no more work, wait for running work, commit."""
        going = [TopicPartition(*partition) for partition in partitions]
        with self._changed:
            homes = self._state.leaving(going)
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: not any(home.running for home in homes), timeout=self._options.drain_ms / 1000
            )
        try:
            self._commit(going)
        finally:  # After this call, this member may not commit the partitions, stored or not.
            self._drop(going)

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        """Another member owns the partitions already: nothing can be committed."""
        self._drop([TopicPartition(*partition) for partition in partitions])

    def _drop(self, partitions: Collection[TopicPartition]) -> None:
        with self._changed:
            self._state.drop(partitions)
            self._changed.notify_all()

    # ---- the workers

    def _start(self) -> None:
        for number in range(self._options.workers):
            thread = threading.Thread(target=self._serve, name=f"semel-worker-{number}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def _stop(self) -> None:
        """Hand out no more records; wait for running work."""
        with self._changed:
            self._state.stopping = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)

    def _serve(self) -> None:
        while (task := self._next()) is not None:
            outcome = self._attempt(task)
            with self._changed:
                self._state.ended(task, outcome)
                self._changed.notify_all()

    def _next(self) -> Task | None:
        """The next task; None when the pool stops."""
        with self._changed:
            while not self._state.stopping:
                task = self._state.take()
                if task is not None:
                    return task
                self._changed.wait()
            return None

    def _attempt(self, task: Task) -> Outcome:
        """Do the work, with retries by the policy. Returns `End.FINISHED`, `End.LEFT` if the pool stops, or the last
        error."""
        attempt = 0
        while True:
            attempt += 1
            try:
                self._settle(self._work(task.record))
            except BaseException as error:  # `run` raises any error of a worker thread.
                wait_ms = self._options.retries.wait_ms(attempt)
                if wait_ms is None or not isinstance(error, Exception):
                    return self._put_aside(task, error)
            else:
                return End.FINISHED
            with self._changed:
                if self._changed.wait_for(
                    lambda: self._state.stopping or not task.home.ours, timeout=wait_ms / 1000
                ):
                    return End.LEFT

    def _put_aside(self, task: Task, error: BaseException) -> Outcome:
        if self._options.dead_letter is None:
            return error
        try:
            self._settle(self._options.dead_letter(task.record, error))
        except BaseException as second:
            second.__cause__ = error
            return second
        return End.FINISHED

    def _settle(self, result: object) -> None:
        """Wait for work that returned an awaitable or a future."""
        if isinstance(result, Future):
            result.result()
        elif inspect.isawaitable(result):
            asyncio.run_coroutine_threadsafe(_awaited(result), self._running_loop()).result()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._changed:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(
                    target=_run_loop, args=(self._loop,), name="semel-workers-loop", daemon=True
                ).start()
            return self._loop


def process(
    consumer: CommittingConsumer,
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
    """Pass every record to `work`, `workers` at a time, and commit finished ones; returns their number.

    With `topics` the pool subscribes itself, and drains and commits revoked partitions. For a consumer subscribed
    before, the new owner repeats work that finishes while its partition moves.
    """
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
    pool = WorkerPool(consumer, work, options)
    if topics is not None:
        consumer.subscribe(list(topics), listener=pool)
    return pool.run(until)


def check_work(work: object) -> None:
    """Refuse what cannot be called: every record would fail by it."""
    if not callable(work):
        raise ConfigError(f"work={shown(work)} is {kind(work)}: it must be a callable of a record")


def check_commits(consumer: object) -> None:
    """Refuse `enable.auto.commit`, which commits polled records, finished or not."""
    config: Mapping[str, object] = getattr(consumer, "config", {})
    if config.get("enable.auto.commit") is True and config.get("group.id") is not None:
        raise ConfigError(
            "enable.auto.commit is true: the consumer would commit records whose work is not finished, and a crash would lose "
            "them. Set it to false; the pool commits what is finished"
        )


async def _awaited(awaitable: Any) -> object:
    return await awaitable


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()

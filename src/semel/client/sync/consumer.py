"""The blocking consumer: Kafka's consumer for scripts, notebooks and threads.

Role.   `semel.Consumer`. The same engine as `semel.aio.Consumer`, on a loop's thread of its own.
Flow.   `subscribe` or `assign` -> `poll`, `poll_arrow` or `for record in consumer` -> `commit` -> `close`, or `with`.
Rules.  * One thread uses a consumer at a time; another one is refused, except with `wakeup`.
        * Listeners and callbacks run in the caller's thread, inside `poll`, `commit`, `unsubscribe` and `close`, and may use
          the consumer. Heartbeats, fetches and commits go on beside it all.
        * Records that an interrupt (Ctrl-C) keeps from the caller were not handed out: the next call finds them where they were.
        * Methods Java has are here under Java's names too.
"""

import re
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from semel.client.consumer import arguments
from semel.client.consumer.consumer import DEFAULT_CLOSE_MS, DEFAULT_POLL_MS
from semel.client.consumer.engine import Engine
from semel.client.consumer.hand import Hand
from semel.client.consumer.questions import Questions
from semel.client.consumer.records import ConsumerRecords, Unreadable, readable, to_arrow
from semel.client.consumer.telling import Call, tell
from semel.client.metrics import MetricValues
from semel.client.settings import ConsumerConfig
from semel.client.sync.shell import Shell
from semel.client.values.consuming import (
    CommitCallback,
    ConsumerGroupMetadata,
    ConsumerRecord,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    PartitionInfo,
    SubscriptionPattern,
    Told,
)
from semel.core.client.fetched import Piece
from semel.core.client.reset import EARLIEST, LATEST
from semel.errors import SemelError
from semel.exceptions import ConcurrentModificationException, KafkaException
from semel.runtime.loop_thread import LoopClosedError
from semel.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")


class _OneThread:
    """Lets one thread in, as often as it likes; another one is refused."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise ConcurrentModificationException(
                "KafkaConsumer is not safe for multi-threaded access: another thread is using this consumer; "
                "use one consumer per thread, or wakeup() to interrupt it"
            )

    def __exit__(self, *_exc: object) -> None:
        self._lock.release()


class Consumer(Shell):
    """A consumer. Settings are Kafka's, as a mapping of dotted keys or as keywords."""

    KIND: ClassVar[str] = "consumer"
    CLOSED: ClassVar[str] = "This consumer has already been closed: make a new one."

    def __init__(
        self, settings: Mapping[str, Any] | ConsumerConfig | None = None, /, **keywords: Any
    ) -> None:
        config = settings if isinstance(settings, ConsumerConfig) else ConsumerConfig.of(settings, **keywords)
        self._config = config
        super().__init__()
        self._alone = _OneThread()
        self._hand: Hand | None = None
        self._handing: Call | list[Piece] | None = None
        """The result of a step, until the caller has it. Of the loop's thread, but for a caller that has it."""
        self._is_interrupted = False
        try:
            self._engine = Engine(self._runtime, config)
        except BaseException:
            self._abandon()
            raise
        self._questions = Questions(self._engine)

    @property
    def config(self) -> dict[str, Any]:
        """Every setting, as it holds."""
        return self._engine.config.effective()

    def __repr__(self) -> str:
        return f"<semel.Consumer {self._config.client_id} of {','.join(map(str, self._config.bootstrap_servers))}>"

    # What to read

    def subscribe(
        self,
        topics: Iterable[str] | re.Pattern[str] | SubscriptionPattern | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: Any = None,
        on_assign: Told | None = None,
        on_revoke: Told | None = None,
        on_lost: Told | None = None,
    ) -> None:
        """Read these topics, or those whose whole name matches the pattern, together with the group."""
        wanted = arguments.subscription(topics, pattern)
        told = arguments.listener(listener, on_assign, on_revoke, on_lost)
        self._at_once(self._engine.subscribe, wanted, told)

    def unsubscribe(self) -> None:
        """Leave the group, and read nothing."""
        with self._alone:
            self._settle()
            self._leave(DEFAULT_CLOSE_MS)
            self._at_once(self._engine.unsubscribed)

    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Read exactly these partitions, without a group's help."""
        self._at_once(self._engine.assign, arguments.partitions(partitions))

    def assignment(self) -> set[TopicPartition]:
        """The partitions this consumer has."""
        return set(self._at_once(lambda: list(self._engine.subscription.partitions)))

    def subscription(self) -> set[str]:
        """The topics it is subscribed to."""
        return set(self._at_once(lambda: self._engine.subscription.topics))

    # Records

    def poll(self, timeout_ms: int = DEFAULT_POLL_MS, max_records: int | None = None) -> ConsumerRecords:
        """Records, as soon as there are some; none if none come in time. At most `max.poll.records`."""
        with self._alone:
            self._settle()
            count_max = self._config.max_poll_records if max_records is None else max_records
            return self._readable(self._pieces(timeout_ms, count_max))

    def poll_arrow(
        self, timeout_ms: int = DEFAULT_POLL_MS, max_records: int | None = None
    ) -> "pa.RecordBatch":
        """All that has come, as columns: topic, partition, offset, timestamp, key, value, headers. Not deserialized."""
        with self._alone:
            self._settle()
            return to_arrow(self._pieces(timeout_ms, max_records))

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Every record, for ever; a loop that is left can be entered again."""
        while True:
            with self._alone:
                self._settle()
                pieces = self._pieces(DEFAULT_POLL_MS, self._config.max_poll_records)
                if not pieces:
                    continue
                hand = self._hand = Hand(self._readable(pieces), pieces)
            for record in hand.records:
                hand.given += 1
                yield record
                if hand.is_over:
                    break

    def _readable(self, pieces: list[Piece]) -> ConsumerRecords:
        try:
            return readable(pieces, self._config.key_deserializer, self._config.value_deserializer)
        except Unreadable as unreadable:
            self._on_loop(self._engine.give_back, unreadable.rest)
            if unreadable.before:
                return unreadable.before
            raise unreadable.error from unreadable.error.__cause__

    def _pieces(self, timeout_ms: int, count_max: int | None) -> list[Piece]:
        deadline_ms = self._runtime.clock.monotonic_ms() + arguments.wait_ms(timeout_ms)
        arguments.count_or_none(count_max, "max_records")
        while True:
            try:
                step = self._run(self._step(deadline_ms, count_max))
            except BaseException:
                self._is_interrupted = True
                raise
            self._handing = None
            if isinstance(step, list):
                return step
            self._make(step)

    async def _step(self, deadline_ms: int, count_max: int | None) -> Call | list[Piece]:
        self._handing = await self._engine.step(deadline_ms, count_max)
        return self._handing

    def _take_back(self) -> None:
        """On the loop: the caller did not get what came of its last step, if anything did."""
        handing, self._handing = self._handing, None
        if handing is not None:
            self._engine.take_back(handing)

    def _make(self, call: Call) -> None:
        try:
            tell(self._engine.listener, call)
        except SemelError:
            raise
        except Exception as error:
            raise KafkaException("User rebalance callback throws an error") from error
        finally:
            self._run(self._engine.called(call))

    def _settle(self, *, without_last: bool = False) -> None:
        """Somebody calls the consumer: records a loop over it still has in hand are put back."""
        if self._is_interrupted:
            self._is_interrupted = False
            self._on_loop(self._take_back)
        if self._hand is not None:
            hand, self._hand = self._hand, None
            if not hand.is_over:
                self._on_loop(self._engine.give_back, hand.rest(without_last=without_last))

    # Positions

    def seek(self, partition: tuple[str, int], offset: int | OffsetAndMetadata) -> None:
        """Go on at this offset."""
        self._at_once(self._questions.seek, arguments.partition(partition), arguments.target(offset))

    def seek_to_beginning(self, partitions: Iterable[tuple[str, int]] = ()) -> None:
        """Go on at the first record there is; of all partitions without an argument."""
        self._at_once(self._questions.reset, arguments.partitions(partitions), EARLIEST)

    def seek_to_end(self, partitions: Iterable[tuple[str, int]] = ()) -> None:
        """Go on with what comes next; read_committed: at the last stable offset."""
        self._at_once(self._questions.reset, arguments.partitions(partitions), LATEST)

    def seek_to_committed(self, partitions: Iterable[tuple[str, int]] = ()) -> None:
        """Go on where the group has committed, as after an aborted transaction; of all partitions without an argument."""
        chosen = arguments.partitions(partitions)
        self._at_once(lambda: self._questions.reset(chosen, None))

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The positions behind the records handed out, for a transaction to store."""
        return self._at_once(self._engine.committing.handed_out)

    def read_committed(self) -> None:
        """From now on hand out only what is committed, whatever `isolation.level` was."""
        self._at_once(self._engine.read_committed)

    def position(self, partition: tuple[str, int], timeout_ms: int | None = None) -> int:
        """The offset of the next record."""
        return self._wait_for(self._engine.position(arguments.partition(partition), timeout_ms))

    def pause(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Hand out nothing of these until `resume`."""
        chosen = arguments.partitions(partitions)
        self._at_once(lambda: self._questions.pause(chosen, paused=True))

    def resume(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Go on with these."""
        chosen = arguments.partitions(partitions)
        self._at_once(lambda: self._questions.pause(chosen, paused=False))

    def paused(self) -> set[TopicPartition]:
        """The paused partitions: they wait for `resume`."""
        return self._at_once(self._questions.paused)

    # Commits

    def commit(
        self, offsets: Mapping[Any, int | OffsetAndMetadata] | None = None, timeout_ms: int | None = None
    ) -> None:
        """Store these positions, or those of everything handed out; returns once they are stored."""
        with self._alone:
            self._settle()
            self._run(self._questions.commit(arguments.offsets(offsets), timeout_ms))
            while (call := self._on_loop(self._engine.committing.next_call)) is not None:
                self._make(call)

    commit_sync = commit

    def commit_async(
        self,
        offsets: Mapping[Any, int | OffsetAndMetadata] | None = None,
        callback: CommitCallback | None = None,
    ) -> None:
        """Store positions beside everything else; `callback(offsets, exception)` is called inside a later poll, commit or close."""
        self._at_once(
            self._questions.commit_async, arguments.offsets(offsets), arguments.told_of_commits(callback)
        )

    def committed(
        self, partitions: Iterable[tuple[str, int]], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The committed offsets of these partitions, None where there is none."""
        return self._wait_for(self._questions.committed(arguments.partitions(partitions), timeout_ms))

    def group_metadata(self) -> ConsumerGroupMetadata:
        """This consumer's identity in its group: for `send_offsets_to_transaction`."""
        return self._at_once(self._questions.group_metadata)

    def enforce_rebalance(self, reason: str | None = None) -> None:
        """Have the group divide its partitions anew, with the next poll."""
        self._at_once(self._questions.enforce_rebalance, arguments.reason(reason))

    # Questions

    def beginning_offsets(
        self, partitions: Iterable[tuple[str, int]], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset there is of each."""
        chosen = arguments.partitions(partitions)
        return self._wait_for(self._questions.offsets_at(chosen, EARLIEST, timeout_ms))

    def end_offsets(
        self, partitions: Iterable[tuple[str, int]], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """Where each ends: the high watermark, or for read_committed the last stable offset."""
        chosen = arguments.partitions(partitions)
        return self._wait_for(self._questions.offsets_at(chosen, LATEST, timeout_ms))

    def offsets_for_times(
        self, timestamps: Mapping[Any, int | datetime], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after a time, None if there is none. Milliseconds since 1970, or a `datetime`: without a zone UTC."""
        asked = arguments.times(timestamps)
        return self._wait_for(self._questions.offsets_for_times(asked, timeout_ms))

    def partitions_for(self, topic: str, timeout_ms: int | None = None) -> list[PartitionInfo]:
        """The partitions of a topic."""
        return self._wait_for(self._questions.partitions_for(arguments.topic(topic), timeout_ms))

    def list_topics(self, timeout_ms: int | None = None) -> dict[str, list[PartitionInfo]]:
        """Every topic this client may see."""
        return self._wait_for(self._questions.list_topics(timeout_ms))

    def current_lag(self, partition: tuple[str, int]) -> int | None:
        """How far a partition's position is from its end, as last heard; None if that is not known."""
        return self._at_once(self._questions.current_lag, arguments.partition(partition))

    def metrics(self) -> MetricValues:
        """The metrics of this consumer, by Java's names."""
        return self._at_once(self._engine.metrics.registry.snapshot)

    def process(self, work: Callable[..., Any], *, workers: int = 1, **options: Any) -> int:
        """Give every record to `work`, `workers` at a time; commits only what is finished, in order. See `semel.once.workers`."""
        from semel.once.workers import process

        return process(self, work, workers=workers, **options)

    # The end

    def wakeup(self) -> None:
        """From any thread: end what is waited for, or the next that will be, with a `WakeupException`. Late is harmless."""
        if not self._thread.is_ours:
            self._check()
        with suppress(LoopClosedError):
            self._thread.call_soon(self._engine.waiting.wakeup)

    def close(self, timeout_ms: int = DEFAULT_CLOSE_MS) -> None:
        """Commit if that is automatic, leave the group, and end. Closing twice is harmless."""
        timeout_ms = arguments.wait_ms(timeout_ms)
        if self._is_closed or not self._thread.is_ours:
            self._shut(self._engine.close())
            return
        with self._alone:
            self._settle()
            try:
                self._leave(timeout_ms)
            finally:
                self._shut(self._engine.close())

    def _last_work(self, _timeout: float | None, when: str, /) -> Coroutine[Any, Any, None] | None:
        engine: Engine | None = getattr(self, "_engine", None)
        return None if engine is None or not engine.is_in_group else _now(engine.leave_unclosed, when)

    def _give_up(self) -> None:
        """Nobody closed it: its connections end, and the group notices by itself."""
        engine: Engine | None = getattr(self, "_engine", None)
        if engine is not None:
            engine.give_up()

    def _leave(self, timeout_ms: int) -> None:
        deadline_ms = self._runtime.clock.monotonic_ms() + timeout_ms
        failure: KafkaException | None = None
        while (call := self._run(self._engine.leaving_step(deadline_ms))) is not None:
            try:
                self._make(call)
            except KafkaException as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def __exit__(
        self,
        kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        if kind is not None and not self._is_closed and self._thread.is_ours:
            self._settle(without_last=True)
        self.close()

    # The loop

    def _at_once(self, function: Callable[..., T], *args: Any) -> T:
        """Look at or change the consumer's state, where it lives."""
        with self._alone:
            self._settle()
            return self._on_loop(function, *args)

    def _wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            with self._alone:
                self._settle()
                return self._run(work)
        finally:
            work.close()  # It was never begun if another thread was refused.

    def _on_loop(self, function: Callable[..., T], *args: Any) -> T:
        return self._run(_now(function, *args))

    # Java's names

    seekToBeginning = seek_to_beginning  # noqa: N815 - Java's.
    seekToEnd = seek_to_end  # noqa: N815
    commitSync = commit  # noqa: N815
    commitAsync = commit_async  # noqa: N815
    groupMetadata = group_metadata  # noqa: N815
    enforceRebalance = enforce_rebalance  # noqa: N815
    beginningOffsets = beginning_offsets  # noqa: N815
    endOffsets = end_offsets  # noqa: N815
    offsetsForTimes = offsets_for_times  # noqa: N815
    partitionsFor = partitions_for  # noqa: N815
    listTopics = list_topics  # noqa: N815
    currentLag = current_lag  # noqa: N815


async def _now(function: Callable[..., T], *args: Any) -> T:
    return function(*args)

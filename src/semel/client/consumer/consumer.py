"""The asynchronous consumer: Kafka's consumer with `await`, for users with an event loop of their own.

Role.   `AsyncConsumer` is `semel.aio.Consumer`. A method that waits is a coroutine; a method that only changes or shows the
        consumer's state (subscribe, assign, seek, pause, assignment) is not.
Flow.   `subscribe` or `assign` -> `poll`, `poll_arrow` or `async for` -> `commit` -> `close`, or `async with`.
Rules.  * Listeners and callbacks run inside `poll`, `commit` and `close`; they may be coroutines and may use the consumer.
        * Methods Java has are here under Java's names too.
Elsewhere. What happens: `engine`. The blocking twin: `semel.client.sync.consumer`.
"""

import re
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from semel.client.consumer import arguments
from semel.client.consumer.engine import Engine
from semel.client.consumer.hand import Hand
from semel.client.consumer.questions import Questions
from semel.client.consumer.records import ConsumerRecords, Unreadable, readable, to_arrow
from semel.client.consumer.telling import Call, told
from semel.client.metrics import MetricValues
from semel.client.settings import ConsumerConfig
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
from semel.exceptions import KafkaException, as_exception
from semel.runtime.bundle import Runtime, real_runtime
from semel.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
DEFAULT_POLL_MS: Final = 500
DEFAULT_CLOSE_MS: Final = 30_000


class AsyncConsumer:
    """A consumer on the running event loop. Settings are Kafka's, as a mapping of dotted keys or as keywords."""

    def __init__(
        self,
        settings: Mapping[str, Any] | ConsumerConfig | None = None,
        /,
        *,
        runtime: Runtime | None = None,
        **keywords: Any,
    ) -> None:
        config = settings if isinstance(settings, ConsumerConfig) else ConsumerConfig.of(settings, **keywords)
        self._config = config
        self._owns_runtime = runtime is None
        self._runtime = real_runtime(threads_max=1) if runtime is None else runtime
        self._engine = Engine(self._runtime, config)
        self._questions = Questions(self._engine)
        self._hand: Hand | None = None
        self._is_closed = False

    @property
    def config(self) -> dict[str, Any]:
        """Every setting, as it holds."""
        return self._engine.config.effective()

    def __repr__(self) -> str:
        return f"<semel.aio.Consumer {self._config.client_id} of {','.join(map(str, self._config.bootstrap_servers))}>"

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
        self._settle()
        wanted = arguments.subscription(topics, pattern)
        self._engine.subscribe(wanted, arguments.listener(listener, on_assign, on_revoke, on_lost))

    async def unsubscribe(self) -> None:
        """Leave the group, and read nothing."""
        self._settle()
        await self._leave(DEFAULT_CLOSE_MS)
        self._engine.unsubscribed()

    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Read exactly these partitions, without a group's help."""
        self._settle()
        self._engine.assign(arguments.partitions(partitions))

    def assignment(self) -> set[TopicPartition]:
        """The partitions this consumer has."""
        return set(self._engine.subscription.partitions)

    def subscription(self) -> set[str]:
        """The topics it is subscribed to."""
        return set(self._engine.subscription.topics)

    # Records

    async def poll(
        self, timeout_ms: int = DEFAULT_POLL_MS, max_records: int | None = None
    ) -> ConsumerRecords:
        """Records, as soon as there are some; none if none come in time. At most `max.poll.records`."""
        self._settle()
        return await self._records(timeout_ms, max_records)

    async def poll_arrow(
        self, timeout_ms: int = DEFAULT_POLL_MS, max_records: int | None = None
    ) -> "pa.RecordBatch":
        """All that has come, as columns: topic, partition, offset, timestamp, key, value, headers. Not deserialized."""
        self._settle()
        return to_arrow(await self._pieces(timeout_ms, max_records))

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        self._settle()
        while True:
            pieces = await self._pieces(DEFAULT_POLL_MS, self._config.max_poll_records)
            if not pieces:
                continue
            hand = self._hand = Hand(self._readable(pieces), pieces)
            for record in hand.records:
                hand.given += 1
                yield record
                if hand.is_over:
                    break

    async def _records(self, timeout_ms: int, max_records: int | None) -> ConsumerRecords:
        count_max = self._config.max_poll_records if max_records is None else max_records
        return self._readable(await self._pieces(timeout_ms, count_max))

    def _readable(self, pieces: list[Piece]) -> ConsumerRecords:
        try:
            return readable(pieces, self._config.key_deserializer, self._config.value_deserializer)
        except Unreadable as unreadable:
            self._engine.give_back(unreadable.rest)
            if unreadable.before:
                return unreadable.before
            raise unreadable.error from unreadable.error.__cause__

    async def _pieces(self, timeout_ms: int, count_max: int | None) -> list[Piece]:
        deadline_ms = self._runtime.clock.monotonic_ms() + arguments.wait_ms(timeout_ms)
        arguments.count_or_none(count_max, "max_records")
        while True:
            step = await self._engine.step(deadline_ms, count_max)
            if isinstance(step, list):
                return step
            await self._make(step)

    async def _make(self, call: Call) -> None:
        try:
            await told(self._engine.listener, call)
        except SemelError:
            raise
        except Exception as error:
            raise KafkaException("User rebalance callback throws an error") from error
        finally:
            await self._engine.called(call)

    def _settle(self, *, without_last: bool = False) -> None:
        """Somebody calls the consumer: records a loop over it still has in hand are put back."""
        if self._hand is not None:
            hand, self._hand = self._hand, None
            if not hand.is_over:
                self._engine.give_back(hand.rest(without_last=without_last))

    # Positions

    def seek(self, partition: tuple[str, int], offset: int | OffsetAndMetadata) -> None:
        """Go on at this offset."""
        self._settle()
        self._questions.seek(arguments.partition(partition), arguments.target(offset))

    def seek_to_beginning(self, partitions: Iterable[tuple[str, int]] = ()) -> None:
        """Go on at the first record there is; of all partitions without an argument."""
        self._settle()
        self._questions.reset(arguments.partitions(partitions), EARLIEST)

    def seek_to_end(self, partitions: Iterable[tuple[str, int]] = ()) -> None:
        """Go on with what comes next; read_committed: at the last stable offset."""
        self._settle()
        self._questions.reset(arguments.partitions(partitions), LATEST)

    def seek_to_committed(self, partitions: Iterable[tuple[str, int]] = ()) -> None:
        """Go on where the group has committed, as after an aborted transaction; of all partitions without an argument."""
        self._settle()
        self._questions.reset(arguments.partitions(partitions), None)

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The positions behind the records handed out, for a transaction to store."""
        self._settle()
        return self._engine.committing.handed_out()

    def read_committed(self) -> None:
        """From now on hand out only what is committed, whatever `isolation.level` was."""
        self._settle()
        self._engine.read_committed()

    async def position(self, partition: tuple[str, int], timeout_ms: int | None = None) -> int:
        """The offset of the next record."""
        self._settle()
        return await self._engine.position(arguments.partition(partition), timeout_ms)

    def pause(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Hand out nothing of these until `resume`."""
        self._settle()
        self._questions.pause(arguments.partitions(partitions), paused=True)

    def resume(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Go on with these."""
        self._questions.pause(arguments.partitions(partitions), paused=False)

    def paused(self) -> set[TopicPartition]:
        """The paused partitions: they wait for `resume`."""
        return self._questions.paused()

    # Commits

    async def commit(
        self, offsets: Mapping[Any, int | OffsetAndMetadata] | None = None, timeout_ms: int | None = None
    ) -> None:
        """Store these positions, or those of everything handed out; returns once they are stored."""
        self._settle()
        await self._public(self._questions.commit(arguments.offsets(offsets), timeout_ms))
        await self._make_commit_calls()

    commit_sync = commit

    def commit_async(
        self,
        offsets: Mapping[Any, int | OffsetAndMetadata] | None = None,
        callback: CommitCallback | None = None,
    ) -> None:
        """Store positions beside everything else; `callback(offsets, exception)` is called inside a later poll, commit or close."""
        self._settle()
        self._questions.commit_async(arguments.offsets(offsets), arguments.told_of_commits(callback))

    async def committed(
        self, partitions: Iterable[tuple[str, int]], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The committed offsets of these partitions, None where there is none."""
        return await self._public(self._questions.committed(arguments.partitions(partitions), timeout_ms))

    async def _make_commit_calls(self) -> None:
        while (call := self._engine.committing.next_call()) is not None:
            await self._make(call)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """This consumer's identity in its group: for `send_offsets_to_transaction`."""
        return self._questions.group_metadata()

    def enforce_rebalance(self, reason: str | None = None) -> None:
        """Have the group divide its partitions anew, with the next poll."""
        self._questions.enforce_rebalance(arguments.reason(reason))

    # Questions

    async def beginning_offsets(
        self, partitions: Iterable[tuple[str, int]], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset there is of each."""
        return await self._public(
            self._questions.offsets_at(arguments.partitions(partitions), EARLIEST, timeout_ms)
        )

    async def end_offsets(
        self, partitions: Iterable[tuple[str, int]], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """Where each ends: the high watermark, or for read_committed the last stable offset."""
        return await self._public(
            self._questions.offsets_at(arguments.partitions(partitions), LATEST, timeout_ms)
        )

    async def offsets_for_times(
        self, timestamps: Mapping[Any, int | datetime], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after a time, None if there is none. Milliseconds since 1970, or a `datetime`: without a zone UTC."""
        asked = arguments.times(timestamps)
        return await self._public(self._questions.offsets_for_times(asked, timeout_ms))

    async def partitions_for(self, topic: str, timeout_ms: int | None = None) -> list[PartitionInfo]:
        """The partitions of a topic."""
        return await self._public(self._questions.partitions_for(arguments.topic(topic), timeout_ms))

    async def list_topics(self, timeout_ms: int | None = None) -> dict[str, list[PartitionInfo]]:
        """Every topic this client may see."""
        return await self._public(self._questions.list_topics(timeout_ms))

    def current_lag(self, partition: tuple[str, int]) -> int | None:
        """How far a partition's position is from its end, as last heard; None if that is not known."""
        return self._questions.current_lag(arguments.partition(partition))

    async def _public(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return await work
        except SemelError as error:
            public = as_exception(error)
            if public is error:
                raise
            raise public from error

    def metrics(self) -> MetricValues:
        """The metrics of this consumer, by Java's names."""
        return self._engine.metrics.registry.snapshot()

    async def process(self, work: Callable[..., Any], *, workers: int = 1, **options: Any) -> int:
        """Give every record to `work`, `workers` at a time; commits only what is finished, in order. See `semel.once.async_workers`."""
        from semel.once.async_workers import process

        return await process(self, work, workers=workers, **options)

    # The end

    def wakeup(self) -> None:
        """End what is waited for, or the next that will be, with a `WakeupException`. On the consumer's loop."""
        self._engine.waiting.wakeup()

    async def close(self, timeout_ms: int = DEFAULT_CLOSE_MS) -> None:
        """Commit if that is automatic, leave the group, and end. Closing twice is harmless."""
        timeout_ms = arguments.wait_ms(timeout_ms)
        if self._is_closed:
            return
        self._settle()
        self._is_closed = True
        try:
            await self._leave(timeout_ms)
        finally:
            await self._engine.close()
            if self._owns_runtime:
                await self._runtime.tasks.close()

    async def _leave(self, timeout_ms: int) -> None:
        deadline_ms = self._runtime.clock.monotonic_ms() + timeout_ms
        failure: KafkaException | None = None
        while (call := await self._engine.leaving_step(deadline_ms)) is not None:
            try:
                await self._make(call)
            except KafkaException as error:
                failure = failure or error
        if failure is not None:
            raise failure

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._settle(without_last=kind is not None)
        await self.close()

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

"""Fetch (1), versions 4-18: slices of logs, at once or when enough has come.

    4-12  topics by name; 13+ by id
    7+    incremental sessions
    9+    the client's leader epoch is checked
    12+   a fetcher that names its last epoch is told where its log parts from ours

Records are places in files; the connection sends them from there. The first batch of the first partition that has one
is sent whole, however large. read_committed stops at the last stable offset and lists aborted transactions; for
read_uncommitted the list is null. A slice ends early where it would need more than `ABORTED_MAX` of them.

A fetch of many partitions pauses between them, and no later request of its connection begins meanwhile. A long poll ends
with its connection.
"""

from collections.abc import Awaitable, Generator, Mapping
from typing import Final, NamedTuple, TypeAlias

from semel.broker.context import BrokerContext, RequestContext
from semel.broker.fetch_sessions import (
    NO_SESSION,
    Fetched,
    FullFetch,
    IncrementalFetch,
    PartitionKey,
    asked,
)
from semel.broker.partitions import Partition
from semel.broker.turns import Turns
from semel.broker.waiting import Waiting
from semel.core.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from semel.errors import ErrorCode, OffsetOutOfRangeError
from semel.log import reading
from semel.log.leader_epochs import NO_EPOCH_END
from semel.net.reply import Exclusive, FileSlice

_BY_ID_SINCE: Final = 13
_READ_COMMITTED: Final = 1
_ZSTD: Final = 4
_ZSTD_SINCE: Final = 10
PARTITIONS_AT_ONCE: Final = 250
"""Partitions that are looked at in one turn: a few milliseconds."""
ABORTED_MAX: Final = 2000
"""Aborted transactions that are listed for a partition, but for those that are still open where the slice ends."""


class _Read(NamedTuple):
    """One pass over the wanted partitions."""

    answers: dict[PartitionKey, PartitionData]
    bytes_found: int
    at_once: bool
    """An error or a diverging log: nothing to wait for."""
    sizes: list[tuple[Partition, int]]
    """Of what was found, for those who count it once it is sent."""


_Looking: TypeAlias = Generator[None, None, _Read]
"""A pass with pauses: one after each `PARTITIONS_AT_ONCE`."""


def handle(
    broker: BrokerContext, request: FetchRequest, context: RequestContext
) -> FetchResponse | Awaitable[FetchResponse] | Exclusive[FetchResponse]:
    """Answer now if there is enough, else when there is or the client's patience ends."""
    if sum(len(topic.partitions) for topic in request.topics) > PARTITIONS_AT_ONCE:
        return Exclusive(_plan_and_fetch_many(broker, request, context))
    plan = broker.sessions.plan(request, context.version, broker.runtime.clock.now_ms())
    if isinstance(plan, ErrorCode):
        return FetchResponse(error_code=plan)
    wanted = _wanted(plan)
    if len(wanted) > PARTITIONS_AT_ONCE:
        turns = Turns(broker.runtime, context.connection.peer)
        return Exclusive(_fetch_many(broker, request, context, plan, turns))
    found = _at_once(_read(broker, request, context.version, wanted))
    if _is_enough(found, request, wanted):
        return _respond(found, plan, wanted)
    # Here, not in the task that waits: records that come before it begins to run must not be missed.
    waiting = _waiting(broker, context, wanted)
    return _wait(broker, request, context, plan, wanted, waiting)


def _wanted(plan: FullFetch | IncrementalFetch) -> Mapping[PartitionKey, Fetched]:
    return plan.partitions if isinstance(plan, FullFetch) else plan.session.partitions


def _is_enough(found: _Read, request: FetchRequest, wanted: Mapping[PartitionKey, Fetched]) -> bool:
    return found.at_once or found.bytes_found >= request.min_bytes or request.max_wait_ms <= 0 or not wanted


def _at_once(looking: _Looking) -> _Read:
    """A pass without its pauses."""
    while True:
        try:
            next(looking)
        except StopIteration as done:
            result: _Read = done.value
            return result


async def _paused(looking: _Looking, turns: Turns) -> _Read:
    while True:
        try:
            next(looking)
        except StopIteration as done:
            result: _Read = done.value
            return result
        await turns.breathe()


def _waiting(
    broker: BrokerContext, context: RequestContext, wanted: Mapping[PartitionKey, Fetched]
) -> Waiting:
    found = (_find(broker, key, context.version) for key in wanted)
    return Waiting((one.waiters for one in found if isinstance(one, Partition)), context.connection)


async def _wait(
    broker: BrokerContext,
    request: FetchRequest,
    context: RequestContext,
    plan: FullFetch | IncrementalFetch,
    wanted: Mapping[PartitionKey, Fetched],
    waiting: Waiting,
) -> FetchResponse:
    clock = broker.runtime.clock
    deadline = clock.monotonic() + request.max_wait_ms / 1000
    while True:
        woken = await waiting.woken(max(0.0, deadline - clock.monotonic()))
        if context.connection.is_lost:
            return FetchResponse()  # Nobody reads it.
        read = _at_once(_read(broker, request, context.version, wanted))
        if not woken or read.at_once or read.bytes_found >= request.min_bytes or context.connection.is_ending:
            return _respond(read, plan, wanted)
        waiting = _waiting(broker, context, wanted)


async def _plan_and_fetch_many(
    broker: BrokerContext, request: FetchRequest, context: RequestContext
) -> FetchResponse:
    turns = Turns(broker.runtime, context.connection.peer)
    partitions = await turns.heavy(asked, request)
    plan = broker.sessions.plan(request, context.version, broker.runtime.clock.now_ms(), partitions)
    if isinstance(plan, ErrorCode):
        return FetchResponse(error_code=plan)
    return await _fetch_many(broker, request, context, plan, turns)


async def _fetch_many(
    broker: BrokerContext,
    request: FetchRequest,
    context: RequestContext,
    plan: FullFetch | IncrementalFetch,
    turns: Turns,
) -> FetchResponse:
    """As `handle`, with pauses. Records that come in one of them wake the next look, so the waiting begins before it."""
    clock = broker.runtime.clock
    deadline = clock.monotonic() + request.max_wait_ms / 1000
    wanted = dict(_wanted(plan))  # A session's own may be changed in a pause, by another connection.
    while True:
        waiting = _waiting(broker, context, wanted)
        try:
            found = await _paused(_read(broker, request, context.version, wanted), turns)
            if _is_enough(found, request, wanted) or clock.monotonic() >= deadline:
                return _respond(found, plan, wanted)
            await waiting.woken(max(0.0, deadline - clock.monotonic()))
        finally:
            waiting.end()
        if context.connection.is_ending:
            return FetchResponse()  # Nobody reads it.


def _read(
    broker: BrokerContext, request: FetchRequest, version: int, wanted: Mapping[PartitionKey, Fetched]
) -> _Looking:
    left = min(request.max_bytes, broker.config.fetch_max_bytes)
    committed = request.isolation_level == _READ_COMMITTED
    answers: dict[PartitionKey, PartitionData] = {}
    bytes_found = 0
    at_once = False
    sizes: list[tuple[Partition, int]] = []
    for key, fetched in wanted.items():
        if len(answers) % PARTITIONS_AT_ONCE == PARTITIONS_AT_ONCE - 1:
            yield
        partition = _find(broker, key, version)
        if isinstance(partition, ErrorCode):
            answer = _error(key, partition)
        else:
            answer = _read_partition(
                partition,
                key,
                fetched,
                version,
                left,
                committed=committed,
                whole_first_batch=bytes_found == 0,
            )
        size = 0 if answer.records is None else len(answer.records)
        if size and isinstance(partition, Partition):
            left = max(0, left - size)
            bytes_found += size
            sizes.append((partition, size))
        at_once = at_once or answer.error_code != 0 or answer.diverging_epoch is not None
        answers[key] = answer
    return _Read(answers, bytes_found, at_once, sizes)


def _find(broker: BrokerContext, key: PartitionKey, version: int) -> Partition | ErrorCode:
    if version >= _BY_ID_SINCE:
        return broker.partitions.get_by_id(key.topic_id, key.partition)
    return broker.partitions.get(key.topic, key.partition) or broker.partitions.missing(
        key.topic, key.partition
    )


def _read_partition(
    partition: Partition,
    key: PartitionKey,
    fetched: Fetched,
    version: int,
    left: int,
    *,
    committed: bool,
    whole_first_batch: bool,
) -> PartitionData:
    log = partition.log
    code = partition.check_leader_epoch(fetched.leader_epoch)
    if not code and log.config.compression_type == _ZSTD and version < _ZSTD_SINCE:
        code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    if code:
        return _unreadable(key, code)
    last_stable_offset = log.last_stable_offset
    answer = PartitionData(
        partition_index=key.partition,
        high_watermark=log.high_watermark,
        last_stable_offset=last_stable_offset,
        log_start_offset=log.log_start_offset,
        aborted_transactions=[] if committed else None,
        records=b"",
    )
    if fetched.last_fetched_epoch >= 0:
        end = partition.epoch_end(fetched.last_fetched_epoch)
        if end == NO_EPOCH_END:
            return _unreadable(key, ErrorCode.OFFSET_OUT_OF_RANGE)  # An epoch this leader has not heard of.
        if end.epoch < fetched.last_fetched_epoch or end.end_offset < fetched.fetch_offset:
            answer.diverging_epoch = EpochEndOffset(epoch=end.epoch, end_offset=end.end_offset)
            return answer
    offset, max_bytes = fetched.fetch_offset, min(fetched.max_bytes, left)
    upper_bound = last_stable_offset if committed else log.high_watermark
    try:
        piece = reading.read(
            log, offset, max_bytes=max_bytes, upper_bound=upper_bound, whole_first_batch=whole_first_batch
        )
        if piece is not None and committed:
            bound = reading.committed_bound(log, offset, piece.end_offset, ABORTED_MAX)
            if bound < piece.end_offset:
                piece = reading.read(
                    log, offset, max_bytes=max_bytes, upper_bound=bound, whole_first_batch=whole_first_batch
                )
    except OffsetOutOfRangeError:
        return _unreadable(key, ErrorCode.OFFSET_OUT_OF_RANGE)
    if piece is None:
        return answer
    answer.records = FileSlice(piece.file, piece.position, piece.size_bytes)  # type: ignore[assignment]  # has a length
    if committed:
        answer.aborted_transactions = [
            AbortedTransaction(producer_id=entry.producer_id, first_offset=entry.first_offset)
            for entry in reading.aborted_transactions(log, offset, piece.end_offset)
        ]
    return answer


def _error(key: PartitionKey, code: ErrorCode) -> PartitionData:
    return PartitionData(partition_index=key.partition, error_code=code, high_watermark=-1, records=b"")


def _unreadable(key: PartitionKey, code: ErrorCode) -> PartitionData:
    """An error of a partition that is here: Kafka's answer then has no list of aborted transactions, not an empty one."""
    answer = _error(key, code)
    answer.aborted_transactions = None
    return answer


def _respond(
    read: _Read, plan: FullFetch | IncrementalFetch, wanted: Mapping[PartitionKey, Fetched]
) -> FetchResponse:
    session, incremental = plan.session, isinstance(plan, IncrementalFetch)
    topics: dict[tuple[str, object], FetchableTopicResponse] = {}
    for key, answer in read.answers.items():
        has_records = bool(answer.records is not None and len(answer.records))
        if session is not None:
            is_news = wanted[key].is_news(answer, has_records)
            if incremental and has_records:
                session.to_the_end(key)
            if incremental and not is_news:
                continue
        topic = topics.get((key.topic, key.topic_id))
        if topic is None:
            topic = topics[key.topic, key.topic_id] = FetchableTopicResponse(
                topic=key.topic, topic_id=key.topic_id
            )
        topic.partitions.append(answer)
    for partition, size in read.sizes:
        partition.counts.bytes_out += size
    session_id = NO_SESSION if session is None else session.session_id
    return FetchResponse(session_id=session_id, responses=list(topics.values()))

"""Fetch (1), versions 4-18: slices of logs, at once or when enough has come.

    4-12  topics by name; 13+ by id
    7+    incremental sessions
    9+    the client's leader epoch is checked
    11+   a consumer may ask a follower, and is answered up to the high watermark that it knows (KIP-392)
    12+   a fetcher that names its last epoch is told where its log parts from ours
    15+   a replica says which life of its broker it is of
    16+   whoever asks a broker that is not the leader, or believes in an older leader epoch, is told the leader

Records are places in files; the connection sends them from there. The first batch of the first partition that has one
is sent whole, however large. read_committed stops at the last stable offset and lists aborted transactions; for
read_uncommitted the list is null. A slice ends early where it would need more than `ABORTED_MAX` of them.

A replica reads up to the log's end, and by that shows what it has. A consumer reads up to the high watermark. A replica that is not
assigned is refused, as in Kafka with an error that lets it try again.

A fetch of many partitions pauses between them, and no later request of its connection begins meanwhile. A long poll ends
with its connection.
"""

from collections.abc import Awaitable, Generator, Mapping
from typing import Final, NamedTuple, TypeAlias

from semel.broker.context import RequestContext
from semel.broker.fetch_sessions import (
    NO_SESSION,
    Fetched,
    FullFetch,
    IncrementalFetch,
    PartitionKey,
    asked,
)
from semel.broker.parts import ReadPath
from semel.broker.replicas.followed_partition import FollowedPartition
from semel.broker.replicas.led_partition import LedPartition
from semel.broker.turns import Turns
from semel.broker.waiting import Waiting
from semel.core.replication.epochs import NO_EPOCH_END
from semel.core.replication.progress import UNKNOWN_BROKER_EPOCH
from semel.core.replication.readers import fetches_to_the_end, is_follower
from semel.core.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from semel.core.wire.primitives import ZERO_UUID
from semel.errors import ErrorCode, OffsetOutOfRangeError
from semel.log import reading
from semel.net.reply import Exclusive, FileSlice
from semel.types import TopicPartition

_BY_ID_SINCE: Final = 13
_FROM_FOLLOWERS_SINCE: Final = 11
_STATE_SINCE: Final = 15
_LEADER_SINCE: Final = 16
_LEADER_TOLD: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
_READ_COMMITTED: Final = 1
_ZSTD: Final = 4
_ZSTD_SINCE: Final = 10
PARTITIONS_AT_ONCE: Final = 250
"""Partitions that are looked at in one turn: a few milliseconds."""
ABORTED_MAX: Final = 2000
"""Aborted transactions that are listed for a partition, but for those that are still open where the slice ends."""


_Readable: TypeAlias = LedPartition | FollowedPartition


class _Read(NamedTuple):
    """One pass over the wanted partitions."""

    answers: dict[PartitionKey, PartitionData]
    bytes_found: int
    at_once: bool
    """An error or a diverging log: nothing to wait for."""
    sizes: list[tuple[_Readable, int]]
    """Of what was found, for those who count it once it is sent."""
    endpoints: dict[int, NodeEndpoint]
    """Where the leaders are that the answers name."""


class _Reader(NamedTuple):
    """Whoever fetches."""

    replica_id: int
    broker_epoch: int
    committed: bool

    @classmethod
    def of(cls, request: FetchRequest, version: int) -> "_Reader":
        replica_id, broker_epoch = request.replica_id, UNKNOWN_BROKER_EPOCH
        if version >= _STATE_SINCE and (state := request.replica_state) is not None:
            replica_id, broker_epoch = state.replica_id, state.replica_epoch
        committed = request.isolation_level == _READ_COMMITTED and not fetches_to_the_end(replica_id)
        return cls(replica_id, broker_epoch, committed)


_Looking: TypeAlias = Generator[None, None, _Read]
"""A pass with pauses: one after each `PARTITIONS_AT_ONCE`."""


def handle(
    broker: ReadPath, request: FetchRequest, context: RequestContext
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
    found = _at_once(_read(broker, request, context, wanted, is_first=True))
    if _is_enough(found, request, wanted):
        return _respond(found, plan, wanted)
    # Here, not in the task that waits: records that come before it begins to run must not be missed.
    waiting = _waiting(broker, request, context, wanted)
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
    broker: ReadPath, request: FetchRequest, context: RequestContext, wanted: Mapping[PartitionKey, Fetched]
) -> Waiting:
    reader = _Reader.of(request, context.version)
    found = [_find(broker, key, context.version, reader) for key in wanted]
    if fetches_to_the_end(reader.replica_id):
        led = [one for one in found if isinstance(one, LedPartition)]
        return Waiting((one.end_waiters for one in led), context.connection)
    return Waiting((one.waiters for one in found if not isinstance(one, ErrorCode)), context.connection)


async def _wait(
    broker: ReadPath,
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
        read = _at_once(_read(broker, request, context, wanted))
        if not woken or read.at_once or read.bytes_found >= request.min_bytes or context.connection.is_ending:
            return _respond(read, plan, wanted)
        waiting = _waiting(broker, request, context, wanted)


async def _plan_and_fetch_many(
    broker: ReadPath, request: FetchRequest, context: RequestContext
) -> FetchResponse:
    turns = Turns(broker.runtime, context.connection.peer)
    partitions = await turns.heavy(asked, request)
    plan = broker.sessions.plan(request, context.version, broker.runtime.clock.now_ms(), partitions)
    if isinstance(plan, ErrorCode):
        return FetchResponse(error_code=plan)
    return await _fetch_many(broker, request, context, plan, turns)


async def _fetch_many(
    broker: ReadPath,
    request: FetchRequest,
    context: RequestContext,
    plan: FullFetch | IncrementalFetch,
    turns: Turns,
) -> FetchResponse:
    """As `handle`, with pauses. Records that come in one of them wake the next look, so the waiting begins before it."""
    clock = broker.runtime.clock
    deadline = clock.monotonic() + request.max_wait_ms / 1000
    wanted = dict(_wanted(plan))  # A session's own may be changed in a pause, by another connection.
    is_first = True
    while True:
        waiting = _waiting(broker, request, context, wanted)
        try:
            looking = _read(broker, request, context, wanted, is_first=is_first)
            found = await _paused(looking, turns)
            is_first = False
            if _is_enough(found, request, wanted) or clock.monotonic() >= deadline:
                return _respond(found, plan, wanted)
            await waiting.woken(max(0.0, deadline - clock.monotonic()))
        finally:
            waiting.end()
        if context.connection.is_ending:
            return FetchResponse()  # Nobody reads it.


def _read(
    broker: ReadPath,
    request: FetchRequest,
    context: RequestContext,
    wanted: Mapping[PartitionKey, Fetched],
    *,
    is_first: bool = False,
) -> _Looking:
    """Look at every partition. Only the first look of a request shows what a follower has: it was sent then."""
    left = min(request.max_bytes, broker.settings.current.fetch_max_bytes)
    version = context.version
    reader = _Reader.of(request, version)
    endpoints: dict[int, NodeEndpoint] = {}
    answers: dict[PartitionKey, PartitionData] = {}
    bytes_found = 0
    at_once = False
    sizes: list[tuple[_Readable, int]] = []
    for key, fetched in wanted.items():
        if len(answers) % PARTITIONS_AT_ONCE == PARTITIONS_AT_ONCE - 1:
            yield
        partition = _find(broker, key, version, reader)
        if isinstance(partition, ErrorCode):
            answer = _error(key, partition)
        else:
            answer = _read_partition(
                partition,
                key,
                fetched,
                version,
                left,
                reader,
                whole_first_batch=bytes_found == 0,
            )
            if is_first and is_follower(reader.replica_id) and isinstance(partition, LedPartition):
                answer = _noted(partition, key, fetched, reader, answer)
        if version >= _LEADER_SINCE and answer.error_code in _LEADER_TOLD:
            told = None if is_follower(reader.replica_id) else endpoints
            _name_leader(broker, key, answer, context.listener.name, told)
        size = 0 if answer.records is None else len(answer.records)
        if size and not isinstance(partition, ErrorCode):
            left = max(0, left - size)
            bytes_found += size
            sizes.append((partition, size))
        at_once = at_once or answer.error_code != 0 or answer.diverging_epoch is not None
        answers[key] = answer
    return _Read(answers, bytes_found, at_once, sizes, endpoints)


def _name_leader(
    broker: ReadPath,
    key: PartitionKey,
    answer: PartitionData,
    listener: str,
    endpoints: dict[int, NodeEndpoint] | None,
) -> None:
    """Say who leads, and to consumers also where, on the listener they came through: a replica knows the brokers."""
    row = broker.image.topic_by_id(key.topic_id) if key.topic_id != ZERO_UUID else None
    state = broker.image.partition(TopicPartition(key.topic if row is None else row.name, key.partition))
    if state is None:
        return
    answer.current_leader = LeaderIdAndEpoch(leader_id=state.leader, leader_epoch=state.leader_epoch)
    leader = broker.image.brokers.get(state.leader)
    endpoint = None if leader is None else leader.on(listener)
    if leader is not None and endpoint is not None and endpoints is not None:
        host, port = endpoint
        endpoints[state.leader] = NodeEndpoint(node_id=state.leader, host=host, port=port, rack=leader.rack)


def _find(broker: ReadPath, key: PartitionKey, version: int, reader: _Reader) -> _Readable | ErrorCode:
    topic_id = key.topic_id if version >= _BY_ID_SINCE else None
    if version < _FROM_FOLLOWERS_SINCE or is_follower(reader.replica_id):
        return broker.partitions.find(key.topic, topic_id, key.partition)
    return broker.partitions.find_to_read(key.topic, topic_id, key.partition)


def _read_partition(
    partition: _Readable,
    key: PartitionKey,
    fetched: Fetched,
    version: int,
    left: int,
    reader: _Reader,
    *,
    whole_first_batch: bool,
) -> PartitionData:
    log, committed = partition.log, reader.committed
    code = partition.check_leader_epoch(fetched.leader_epoch)
    if not code and is_follower(reader.replica_id) and isinstance(partition, LedPartition):
        code = partition.leading.check_replica(reader.replica_id, knows_epoch=fetched.leader_epoch >= 0)
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
        if fetched.fetch_offset < log.log_start_offset:
            return _unreadable(key, ErrorCode.OFFSET_OUT_OF_RANGE)  # Whether the logs diverge or not.
        if end.epoch < fetched.last_fetched_epoch or end.end_offset < fetched.fetch_offset:
            answer.diverging_epoch = EpochEndOffset(epoch=end.epoch, end_offset=end.end_offset)
            return answer
    offset, max_bytes = fetched.fetch_offset, min(fetched.max_bytes, left)
    if fetches_to_the_end(reader.replica_id):
        upper_bound = log.log_end_offset
    else:
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


def _noted(
    partition: LedPartition,
    key: PartitionKey,
    fetched: Fetched,
    reader: _Reader,
    answer: PartitionData,
) -> PartitionData:
    """The answer to a follower, after what it has is noted; not where it has something else than its leader."""
    if answer.error_code or answer.diverging_epoch is not None:
        return answer
    code = partition.fetched(
        reader.replica_id,
        fetched.fetch_offset,
        log_start_offset=fetched.replica_start_offset,
        broker_epoch=reader.broker_epoch,
    )
    return _unreadable(key, code) if code else answer


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
    endpoints = list(read.endpoints.values())
    return FetchResponse(session_id=session_id, responses=list(topics.values()), node_endpoints=endpoints)

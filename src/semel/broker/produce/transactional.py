"""A transactional producer's write: its coordinator agrees before the first one reaches a partition.

Role.   The branch of Produce for requests with a transactional id; others never come here.
Flow.   `admitted` asks each partition whether this write opens a transaction there. If so the coordinator is asked: under
        transactions v2 (Produce 12+) the partition joins the transaction, under v1 it must have joined. Then
        everything is appended, and the log lets an opening write pass only with the token it gave before the question.
Rules.  * A batch that goes on with a transaction costs no question, unless the transaction is in doubt: this leader has just
          begun, or somebody else owns what its producer prepared (two-phase commit). Then the coordinator is asked again.
        * A marker that arrives between question and append takes the token away: the batch is refused, and nothing hangs.
        * Where the coordinator answers at once, so does this: no task, and no other request in between. Where it does
          not, no later request of the connection begins meanwhile: batches stay in the order of their sequences.
        * v2 waits a little for the transaction before to complete: its markers may still be on their way.
        * Refusals are Kafka's: PRODUCER_FENCED is INVALID_PRODUCER_EPOCH here, a coordinator that cannot be asked is
          NOT_ENOUGH_REPLICAS, which every client tries again, and TRANSACTION_ABORTABLE is for those who know it.
Elsewhere. Tokens: `core.idempotence.verification`. The decisions: `core.transactions.coordinator.partitions`.
"""

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeAlias

from semel.broker.context import RequestContext
from semel.broker.parts import ProducePath
from semel.broker.replicas.led_partition import LedPartition
from semel.core.records.batch import HEADER_SIZE, MAGIC, BatchHeader, read_header
from semel.core.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from semel.core.wire.produce_shape import BY_ID_SINCE
from semel.errors import ErrorCode, Refuse
from semel.net.reply import Exclusive
from semel.types import TopicPartition

V2_SINCE: Final = 12
_ABORTABLE_SINCE: Final = 11
_UNREACHABLE: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)

Place: TypeAlias = tuple[str, bytes, int]
Admission: TypeAlias = dict[Place, int | Refuse]
"""For the partitions that were asked about: the token to append with, or why not."""
Answer: TypeAlias = (
    ProduceResponse | Awaitable[ProduceResponse | None] | Exclusive[ProduceResponse | None] | None
)
AppendAll: TypeAlias = Callable[[ProducePath, ProduceRequest, RequestContext, Admission], Answer]


class _Opening(NamedTuple):
    """A batch that would open a transaction on its partition."""

    place: Place
    partition: TopicPartition
    token: int


def place(topic: TopicProduceData, data: PartitionProduceData) -> Place:
    """Where in the request."""
    return topic.name, bytes(topic.topic_id), data.index


def admitted(
    broker: ProducePath, request: ProduceRequest, context: RequestContext, append_all: AppendAll
) -> Answer:
    """Append what the coordinator agrees to."""
    admission: Admission = {}
    openings: list[_Opening] = []
    producers: dict[tuple[int, int], None] = {}
    for topic in request.topic_data:
        for data in topic.partition_data:
            header = _transactional(data)
            if header is None:
                continue
            producers[header.producer_id, header.producer_epoch] = None
            topic_id = topic.topic_id if context.version >= BY_ID_SINCE else None
            found = broker.partitions.find(topic.name, topic_id, data.index)
            if not isinstance(found, ErrorCode):
                _open(broker, found, header, place(topic, data), context.version, admission, openings)
    if len(producers) > 1:
        refused = Refuse(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "")
        everywhere: Admission = {
            place(topic, data): refused for topic in request.topic_data for data in topic.partition_data
        }
        return append_all(broker, request, context, everywhere)
    if not openings:
        return append_all(broker, request, context, admission)
    ((producer_id, producer_epoch),) = producers
    codes = broker.transactions.admit(
        request.transactional_id or "",
        producer_id,
        producer_epoch,
        [opening.partition for opening in openings],
        add=context.version >= V2_SINCE,
    )
    if isinstance(codes, list) and not _is_worth_waiting(codes, context.version):
        _admit(openings, codes, context.version, admission)
        return append_all(broker, request, context, admission)
    return Exclusive(
        _later(
            broker, request, context, append_all, admission, openings, (producer_id, producer_epoch), codes
        )
    )


async def _later(
    broker: ProducePath,
    request: ProduceRequest,
    context: RequestContext,
    append_all: AppendAll,
    admission: Admission,
    openings: list[_Opening],
    producer: tuple[int, int],
    asked: list[ErrorCode] | Awaitable[list[ErrorCode]],
) -> ProduceResponse | None:
    """Wait for the coordinator, and under v2 for the transaction before."""
    clock, config = broker.runtime.clock, broker.settings.current
    backoff_ms, limit_ms = (
        config.value("add.partitions.to.txn.retry.backoff.ms"),
        config.value("add.partitions.to.txn.retry.backoff.max.ms"),
    )
    if not isinstance(backoff_ms, int) or not isinstance(limit_ms, int):
        raise TypeError(f"{backoff_ms!r} and {limit_ms!r} are no times")
    until_ms = clock.monotonic_ms() + limit_ms
    codes = asked if isinstance(asked, list) else await asked
    while _is_worth_waiting(codes, context.version) and clock.monotonic_ms() < until_ms:
        await broker.runtime.tasks.sleep(backoff_ms / 1000)
        again = broker.transactions.admit(
            request.transactional_id or "",
            *producer,
            [opening.partition for opening in openings],
            add=True,
        )
        codes = again if isinstance(again, list) else await again
    _admit(openings, codes, context.version, admission)
    answer = append_all(broker, request, context, admission)
    if isinstance(answer, Exclusive):
        answer = answer.answer
    return await answer if isinstance(answer, Awaitable) else answer


def _is_worth_waiting(codes: list[ErrorCode], version: int) -> bool:
    return version >= V2_SINCE and ErrorCode.CONCURRENT_TRANSACTIONS in codes


def _transactional(data: PartitionProduceData) -> BatchHeader | None:
    """The header of a transactional batch; the log says what is wrong with what is none."""
    records = data.records
    if records is None or len(records) < HEADER_SIZE:
        return None
    header = read_header(records)
    if header.magic != MAGIC or not header.is_transactional or header.producer_id < 0:
        return None
    return header


def _open(
    broker: ProducePath,
    partition: LedPartition,
    header: BatchHeader,
    where: Place,
    version: int,
    admission: Admission,
    openings: list[_Opening],
) -> None:
    """Ask the partition whether the batch would open a transaction."""
    producers = partition.log.producers
    if version < V2_SINCE and not producers.verification_required:
        return
    token = producers.start_verification(
        header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        supports_epoch_bump=version >= V2_SINCE,
        now_ms=broker.runtime.clock.now_ms(),
    )
    if isinstance(token, Refuse):
        admission[where] = Refuse(token.code, "")
    elif token is not None:
        openings.append(_Opening(where, partition.log.topic_partition, token))


def _admit(openings: list[_Opening], codes: list[ErrorCode], version: int, admission: Admission) -> None:
    for opening, code in zip(openings, codes, strict=True):
        admission[opening.place] = opening.token if code is ErrorCode.NONE else _refusal(code, version)


def _refusal(code: ErrorCode, version: int) -> Refuse:
    if code is ErrorCode.PRODUCER_FENCED:
        return Refuse(ErrorCode.INVALID_PRODUCER_EPOCH, "")
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < _ABORTABLE_SINCE:
        code = ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.INVALID_TXN_STATE:
        return Refuse(code, "Partition was not added to the transaction")
    if code in _UNREACHABLE or (code is ErrorCode.CONCURRENT_TRANSACTIONS and version < V2_SINCE):
        return Refuse(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"Unable to verify the partition has been added to the transaction. Underlying error: {code.name}",
        )
    return Refuse(code, "")

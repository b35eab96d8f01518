"""Produce (0), versions 3-13: append a batch to each partition, once.

    3-12 topics by name; 13 by id
    7+   zstd is allowed
    8+   the reason for a refusal is part of the answer, and which records are to blame
    12+  transactions v2: partitions join a transaction with the first write, and a transactional producer without state
         must start at sequence 0

With acks=all the answer waits until the records are as durable as the topic asks and on every replica in sync, for `timeout_ms` at
most; then it is REQUEST_TIMED_OUT, and the records stay. With acks=1 and 0 nothing is waited for.

A duplicate is a success with the offset it got the first time, and counted as DUPLICATE_SEQUENCE_NUMBER.
With acks=0 there is no answer; a refusal closes the connection, which is all a client can notice.

A batch that is much work to look at is inspected on a thread, and a request of many batches pauses between them: other
clients are served meanwhile, and no later request of this connection begins.
"""

from collections.abc import Awaitable
from typing import Final, NamedTuple, TypeAlias

from semel.broker.context import RequestContext
from semel.broker.metrics.counts import Gap
from semel.broker.parts import ProducePath
from semel.broker.produce import transactional
from semel.broker.produce.transactional import Admission
from semel.broker.replicas.led_partition import ACKS_ALL, LedPartition
from semel.broker.turns import Heavy, Steps, Turn, in_turns
from semel.core.idempotence.producer_window import Duplicate
from semel.core.metadata.topic_names import INTERNAL
from semel.core.records.batch import (
    ATTRIBUTES_POSITION,
    COMPRESSION_MASK,
    HEADER_SIZE,
    MAGIC,
    TRANSACTIONAL_BIT,
    read_header,
)
from semel.core.records.effort import is_heavy
from semel.core.records.validation import Inspection, inspect
from semel.core.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from semel.core.wire.produce_shape import BY_ID_SINCE
from semel.errors import ErrorCode, LogError, Refuse
from semel.net.reply import Exclusive
from semel.types import UNKNOWN_OFFSET

_ACKS: Final = (ACKS_ALL, 0, 1)
_ADMIN_CLIENT_ID: Final = (
    "__admin_client"  # Kafka's tools may write to internal topics under this name, in Kafka too.
)
_ZSTD: Final = 4
_ZSTD_SINCE: Final = 7
# Refusals that carry no log start, as in Kafka: its clients take any other one for the partition's.
_WITHOUT_LOG_START: Final = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


Answer: TypeAlias = (
    ProduceResponse | Awaitable[ProduceResponse | None] | Exclusive[ProduceResponse | None] | None
)


class _Produced(NamedTuple):
    """The answers to a request so far."""

    responses: list[TopicProduceResponse]
    waiting: list[tuple[LedPartition, int, PartitionProduceResponse]]
    """Answers to batches that are not visible yet, and the offset each waits for."""


def handle(broker: ProducePath, request: ProduceRequest, context: RequestContext) -> Answer:
    """Append everything; a transactional producer's first write to a partition once its coordinator agrees."""
    if broker.on_first_produce is not None:
        begin, broker.on_first_produce = broker.on_first_produce, None
        begin()
    if request.transactional_id is not None:
        return transactional.admitted(broker, request, context, _append_all)
    return _append_all(broker, request, context)


def _append_all(
    broker: ProducePath,
    request: ProduceRequest,
    context: RequestContext,
    admission: Admission | None = None,
) -> Answer:
    """Append everything now; answer now, or with acks=all when it is visible."""
    steps = _append_each(broker, request, context, admission)
    produced = in_turns(steps, broker.runtime, context.connection.peer)
    if isinstance(produced, Exclusive):
        return Exclusive(_answer_later(broker, request, context, produced.answer))
    return _answer(broker, request, context, produced)


async def _answer_later(
    broker: ProducePath, request: ProduceRequest, context: RequestContext, appended: Awaitable[_Produced]
) -> ProduceResponse | None:
    answer = _answer(broker, request, context, await appended)
    return await answer if isinstance(answer, Awaitable) else answer


def _append_each(
    broker: ProducePath, request: ProduceRequest, context: RequestContext, admission: Admission | None
) -> Steps[_Produced]:
    """Append one batch after the other."""
    produced = _Produced([], [])
    turn = Turn(broker.runtime.clock)
    is_first = True
    for topic in request.topic_data:
        answers: list[PartitionProduceResponse] = []
        produced.responses.append(
            TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)
        )
        for data in topic.partition_data:
            if not is_first and turn.is_over:
                yield None
                turn.begin()
            is_first = False
            target = _target(broker, request, context, topic, data)
            inspection = None
            if isinstance(target, LedPartition):
                records, rules = _records(data), target.log.rules
                if len(records) <= rules.max_message_bytes and is_heavy(records, rules.compression_type):
                    now_ms = broker.runtime.clock.now_ms()
                    inspection = Inspection(rules, (yield Heavy(inspect, (records, rules, now_ms))))
                    turn.begin()
                    target = _target(broker, request, context, topic, data)  # It may be gone.
            if isinstance(target, PartitionProduceResponse):
                answers.append(target)
                continue
            answer = _append(broker, request, context, topic, data, target, admission, inspection)
            answers.append(answer)
            if not answer.error_code and not target.settled:
                produced.waiting.append((target, target.log.log_end_offset, answer))
    return produced


def _answer(
    broker: ProducePath, request: ProduceRequest, context: RequestContext, produced: _Produced
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    """Everything is appended: answer, or wait until it is visible."""
    response = ProduceResponse(responses=produced.responses)
    if produced.waiting and request.acks == ACKS_ALL:
        return _acknowledged(broker, request, produced.waiting, response)
    if request.acks == 0:
        codes = [answer.error_code for topic in produced.responses for answer in topic.partition_responses]
        for code in codes:
            broker.metrics.codes_of("Produce")[code] += 1  # No answer, so nobody counts it later.
        if any(codes):
            context.connection.end()
        return None
    return response


def _target(
    broker: ProducePath,
    request: ProduceRequest,
    context: RequestContext,
    topic: TopicProduceData,
    data: PartitionProduceData,
) -> LedPartition | PartitionProduceResponse:
    """The partition a batch is for, or why it is refused whatever it holds."""
    topic_id = topic.topic_id if context.version >= BY_ID_SINCE else None
    found = broker.partitions.find(topic.name, topic_id, data.index)
    if isinstance(found, ErrorCode):
        return _refused(data.index, found, None)
    name = found.log.topic_partition.topic
    if name in INTERNAL and context.client_id != _ADMIN_CLIENT_ID:
        found.counts.weak_acks += request.acks != ACKS_ALL
        reason = f"Cannot append to internal topic {name}"
        return _refused(data.index, ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
    return found


def _records(data: PartitionProduceData) -> bytearray | memoryview:
    records = data.records
    return records if isinstance(records, bytearray | memoryview) else bytearray(records or b"")


def _append(
    broker: ProducePath,
    request: ProduceRequest,
    context: RequestContext,
    topic: TopicProduceData,
    data: PartitionProduceData,
    found: LedPartition,
    admission: Admission | None,
    inspection: Inspection | None,
) -> PartitionProduceResponse:
    if request.acks != ACKS_ALL:
        found.counts.weak_acks += 1
    refused = _unfit(request, context, data)
    if refused is not None:
        return _refused(data.index, refused.code, refused.reason)
    records = _records(data)
    if admission is None:
        result = found.append(records, acks=request.acks, inspection=inspection)
    else:
        admitted = admission.get(transactional.place(topic, data))
        if isinstance(admitted, Refuse):
            _count_refusal(broker, found, admitted.code, records)
            return _refused(data.index, admitted.code, admitted.reason or None)
        result = found.append(
            records,
            acks=request.acks,
            transactions_v2=context.version >= transactional.V2_SINCE,
            verification_token=admitted,
            inspection=inspection,
        )
    if isinstance(result, Refuse):
        _count_refusal(broker, found, result.code, records)
        answer = _refused(data.index, result.code, result.reason)
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=reason)
            for index, reason in result.record_errors
        ]
        if result.code not in _WITHOUT_LOG_START and _is_one_batch(records):
            answer.log_start_offset = found.log.log_start_offset
        return answer
    if isinstance(result, Duplicate):
        broker.metrics.codes_of("Produce")[ErrorCode.DUPLICATE_SEQUENCE_NUMBER] += 1
        stamp = result.timestamp_ms
    else:
        stamp = result.log_append_time_ms
    return PartitionProduceResponse(
        index=data.index,
        base_offset=result.base_offset,
        log_append_time_ms=stamp,
        log_start_offset=found.log.log_start_offset,
    )


def _count_refusal(
    broker: ProducePath, partition: LedPartition, code: ErrorCode, records: bytearray | memoryview
) -> None:
    """Count a batch that was not stored; of one that is out of order, also remember whose it is and what was expected."""
    counts = partition.counts
    counts.refused += 1
    if code is ErrorCode.INVALID_PRODUCER_EPOCH:
        counts.fenced += 1
    elif code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
        counts.out_of_order += 1
        header = read_header(records)
        topic, index = partition.log.topic_partition
        broker.metrics.gaps.append(
            Gap(
                topic,
                index,
                header.producer_id,
                header.producer_epoch,
                partition.log.producers.next_sequence(header.producer_id, header.producer_epoch),
                header.base_sequence,
                broker.runtime.clock.now_ms(),
            )
        )


def _unfit(request: ProduceRequest, context: RequestContext, data: PartitionProduceData) -> Refuse | None:
    """A refusal for the request itself, for any partition."""
    if request.acks not in _ACKS:
        return Refuse(ErrorCode.INVALID_REQUIRED_ACKS, f"acks {request.acks}: only -1 (all), 0 and 1 exist")
    records = data.records
    if records is None or len(records) < HEADER_SIZE:
        return None  # The log says what is wrong with it.
    attributes = records[ATTRIBUTES_POSITION + 1]
    if attributes & COMPRESSION_MASK == _ZSTD and context.version < _ZSTD_SINCE:
        return Refuse(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"zstd needs Produce 7 or newer, this is {context.version}",
        )
    if attributes & TRANSACTIONAL_BIT and request.transactional_id is None:
        return Refuse(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "a transactional batch in a request without transactional id",
        )
    return None


def _is_one_batch(records: bytearray | memoryview) -> bool:
    """Whether Kafka would have looked for the partition's log before it refused."""
    if len(records) < HEADER_SIZE:
        return False
    header = read_header(records)
    return header.magic == MAGIC and header.size_bytes == len(records)


def _refused(index: int, code: ErrorCode, reason: str | None) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index, error_code=code, base_offset=UNKNOWN_OFFSET, log_append_time_ms=-1, error_message=reason
    )


async def _acknowledged(
    broker: ProducePath,
    request: ProduceRequest,
    waiting: list[tuple[LedPartition, int, PartitionProduceResponse]],
    response: ProduceResponse,
) -> ProduceResponse:
    """Wait for all partitions, together for as long as the request says."""
    monotonic = broker.runtime.clock.monotonic
    until = monotonic() + request.timeout_ms / 1000
    for partition, end_offset, answer in waiting:
        try:
            answer.error_code = await partition.acknowledged(end_offset, until - monotonic())
        except LogError as error:
            answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            answer.base_offset = UNKNOWN_OFFSET
            answer.error_message = str(error)
    return response

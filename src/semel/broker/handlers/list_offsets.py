"""ListOffsets (2), versions 1-11: from a time, or a name for a time, to an offset.

    -1 latest (the last stable offset for read_committed)   -2 earliest
    -3 the record with the largest timestamp (7+)           -4 earliest on local disk (8+)
    -5 latest in remote storage (9+)                        -6 earliest waiting for upload (11+)

There is no remote storage here: -5 and -6 are unknown, as in Kafka without it.
"""

from typing import Final

from semel.broker.context import BrokerContext, RequestContext
from semel.broker.partitions import Partition
from semel.broker.turns import Heavy, Steps, Turn, in_turns
from semel.core.records.effort import is_heavy
from semel.core.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from semel.errors import ErrorCode
from semel.log import reading
from semel.net.reply import Exclusive
from semel.types import NO_TIMESTAMP, UNKNOWN_OFFSET

_LATEST: Final = -1
_EARLIEST: Final = -2
_MAX_TIMESTAMP: Final = -3
_EARLIEST_LOCAL: Final = -4
_LATEST_TIERED: Final = -5
_EARLIEST_PENDING_UPLOAD: Final = -6
_SINCE: Final = {_MAX_TIMESTAMP: 7, _EARLIEST_LOCAL: 8, _LATEST_TIERED: 9, _EARLIEST_PENDING_UPLOAD: 11}
_READ_COMMITTED: Final = 1
_LEADER_EPOCH_SINCE: Final = 4


def handle(
    broker: BrokerContext, request: ListOffsetsRequest, context: RequestContext
) -> ListOffsetsResponse | Exclusive[ListOffsetsResponse]:
    """Answer every partition that was named."""
    return in_turns(_answer_all(broker, request, context), broker.runtime, context.connection.peer)


def _answer_all(
    broker: BrokerContext, request: ListOffsetsRequest, context: RequestContext
) -> Steps[ListOffsetsResponse]:
    committed = request.isolation_level == _READ_COMMITTED
    turn = Turn(broker.runtime.clock)
    topics: list[ListOffsetsTopicResponse] = []
    for topic in request.topics:
        answers: list[ListOffsetsPartitionResponse] = []
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
        for asked in topic.partitions:
            found = broker.partitions.get(topic.name, asked.partition_index)
            if found is None:
                code = broker.partitions.missing(topic.name, asked.partition_index)
                answers.append(_error(asked, code))
                continue
            answer = yield from _answer(found, asked, context.version, committed, turn)
            if broker.partitions.get(topic.name, asked.partition_index) is not found:
                # It was deleted in a pause: its files may be closed, and its offsets mean nothing any more.
                answer = _error(asked, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            answers.append(_at_version(answer, context.version))
    return ListOffsetsResponse(topics=topics)


def _at_version(answer: ListOffsetsPartitionResponse, version: int) -> ListOffsetsPartitionResponse:
    if version < _LEADER_EPOCH_SINCE:
        answer.leader_epoch = -1  # Older answers have no place for it.
    return answer


def _answer(
    partition: Partition, asked: ListOffsetsPartition, version: int, committed: bool, turn: Turn
) -> Steps[ListOffsetsPartitionResponse]:
    code = partition.check_leader_epoch(asked.current_leader_epoch)
    if code:
        return _error(asked, code)
    if asked.timestamp < _EARLIEST and version < _SINCE.get(asked.timestamp, 1 << 15):
        return _error(asked, ErrorCode.UNSUPPORTED_VERSION)
    log = partition.log
    visible = log.last_stable_offset if committed else log.high_watermark
    match asked.timestamp:
        case -1:
            return _found(asked, NO_TIMESTAMP, visible, partition.leader_epoch)
        case -2 | -4:
            return _found(
                asked, NO_TIMESTAMP, log.log_start_offset, partition.epoch_for(log.log_start_offset)
            )
        case -5 | -6:
            return _found(asked, NO_TIMESTAMP, UNKNOWN_OFFSET, -1)
        case -3:
            found = yield from _search(partition, reading.offset_of_max_timestamp(log), turn)
        case timestamp:
            found = yield from _search(partition, reading.offset_for_timestamp(log, timestamp), turn)
    if found is None or found.offset >= visible:
        return _found(asked, NO_TIMESTAMP, UNKNOWN_OFFSET, -1)
    return _found(asked, found.timestamp_ms, found.offset, found.leader_epoch)


def _search(
    partition: Partition, search: reading.TimeSearch, turn: Turn
) -> Steps[reading.TimestampOffset | None]:
    """Look for a record by its time: in a large batch on a thread, and in few batches at a time."""
    found: tuple[int, int] | None = None
    while True:
        if turn.is_over:
            yield None
            turn.begin()
            if partition.log.is_released:
                return None
        try:
            wanted = search.send(found)
        except StopIteration as done:
            result: reading.TimestampOffset | None = done.value
            return result
        if wanted is None:
            found = None
        elif is_heavy(wanted.batch):
            found = yield Heavy(wanted.find, ())
            turn.begin()
            if partition.log.is_released:
                return None
        else:
            found = wanted.find()


def _found(
    asked: ListOffsetsPartition, timestamp: int, offset: int, epoch: int
) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index, timestamp=timestamp, offset=offset, leader_epoch=epoch
    )


def _error(asked: ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=code)

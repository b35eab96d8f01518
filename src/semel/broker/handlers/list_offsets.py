"""ListOffsets (2), versions 1-11: from a time, or a name for a time, to an offset.

    -1 latest (the high watermark; the last stable offset for read_committed; the log's end for replicas)   -2 earliest
    -3 the record with the largest timestamp (7+)           -4 earliest on local disk (8+)
    -5 latest in remote storage (9+)                        -6 earliest waiting for upload (11+)

A new leader may not know yet what an older one has shown. Consumers are told OFFSET_NOT_AVAILABLE then, not an offset they have
passed already (LEADER_NOT_AVAILABLE before version 5).

There is no remote storage here: -5 and -6 are unknown, as in Kafka without it.
"""

from typing import Final

from semel.broker.context import RequestContext
from semel.broker.parts import ReadPath
from semel.broker.replicas.led_partition import LedPartition
from semel.broker.turns import Heavy, Steps, Turn, in_turns
from semel.core.records.effort import is_heavy
from semel.core.replication.readers import lists_to_the_end
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
_NOT_AVAILABLE_SINCE: Final = 5


def handle(
    broker: ReadPath, request: ListOffsetsRequest, context: RequestContext
) -> ListOffsetsResponse | Exclusive[ListOffsetsResponse]:
    """Answer every partition that was named."""
    return in_turns(_answer_all(broker, request, context), broker.runtime, context.connection.peer)


def _answer_all(
    broker: ReadPath, request: ListOffsetsRequest, context: RequestContext
) -> Steps[ListOffsetsResponse]:
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
            answer = yield from _answer(found, asked, context.version, request, turn)
            if broker.partitions.get(topic.name, asked.partition_index) is not found:
                # It was deleted in a pause, or is led elsewhere: its files may be closed, and its offsets mean nothing any more.
                answer = _error(asked, broker.partitions.missing(topic.name, asked.partition_index))
            answers.append(_at_version(answer, context.version))
    return ListOffsetsResponse(topics=topics)


def _at_version(answer: ListOffsetsPartitionResponse, version: int) -> ListOffsetsPartitionResponse:
    if version < _LEADER_EPOCH_SINCE:
        answer.leader_epoch = -1  # Older answers have no place for it.
    return answer


def _answer(
    partition: LedPartition,
    asked: ListOffsetsPartition,
    version: int,
    request: ListOffsetsRequest,
    turn: Turn,
) -> Steps[ListOffsetsPartitionResponse]:
    code = partition.check_leader_epoch(asked.current_leader_epoch)
    if code:
        return _error(asked, code)
    if asked.timestamp < _EARLIEST and version < _SINCE.get(asked.timestamp, 1 << 15):
        return _error(asked, ErrorCode.UNSUPPORTED_VERSION)
    log = partition.log
    if lists_to_the_end(request.replica_id):
        visible, is_known = log.log_end_offset, True
    else:
        committed = request.isolation_level == _READ_COMMITTED
        visible = log.last_stable_offset if committed else log.high_watermark
        is_known = log.high_watermark >= partition.leading.epoch_start_offset
    unknown = (
        ErrorCode.OFFSET_NOT_AVAILABLE if version >= _NOT_AVAILABLE_SINCE else ErrorCode.LEADER_NOT_AVAILABLE
    )
    match asked.timestamp:
        case -1:
            if not is_known:
                return _error(asked, unknown)
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
        if not is_known:
            return _error(asked, unknown)
        return _found(asked, NO_TIMESTAMP, UNKNOWN_OFFSET, -1)
    return _found(asked, found.timestamp_ms, found.offset, found.leader_epoch)


def _search(
    partition: LedPartition, search: reading.TimeSearch, turn: Turn
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

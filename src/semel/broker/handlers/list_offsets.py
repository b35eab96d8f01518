"""ListOffsets (2), versions 1-11: from a time, or a name for a time, to an offset.

    -1 latest (the last stable offset for read_committed)   -2 earliest
    -3 the record with the largest timestamp (7+)           -4 earliest on local disk (8+)
    -5 latest in remote storage (9+)                        -6 earliest waiting for upload (11+)

There is no remote storage here: -5 and -6 are unknown, as in Kafka without it.
"""

from typing import Final

from semel.broker.context import BrokerContext, RequestContext
from semel.broker.partitions import Partition
from semel.core.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from semel.errors import ErrorCode
from semel.log import reading
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
) -> ListOffsetsResponse:
    """Answer every partition that was named."""
    committed = request.isolation_level == _READ_COMMITTED
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    _at_version(
                        _answer(
                            broker.partitions.get(topic.name, asked.partition_index)
                            or broker.partitions.missing(topic.name, asked.partition_index),
                            asked,
                            context.version,
                            committed,
                        ),
                        context.version,
                    )
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _at_version(answer: ListOffsetsPartitionResponse, version: int) -> ListOffsetsPartitionResponse:
    if version < _LEADER_EPOCH_SINCE:
        answer.leader_epoch = -1  # Older answers have no place for it.
    return answer


def _answer(
    partition: Partition | ErrorCode, asked: ListOffsetsPartition, version: int, committed: bool
) -> ListOffsetsPartitionResponse:
    if isinstance(partition, ErrorCode):
        return _error(asked, partition)
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
            found = reading.offset_of_max_timestamp(log)
        case timestamp:
            found = reading.offset_for_timestamp(log, timestamp)
    if found is None or found.offset >= visible:
        return _found(asked, NO_TIMESTAMP, UNKNOWN_OFFSET, -1)
    return _found(asked, found.timestamp_ms, found.offset, found.leader_epoch)


def _found(
    asked: ListOffsetsPartition, timestamp: int, offset: int, epoch: int
) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index, timestamp=timestamp, offset=offset, leader_epoch=epoch
    )


def _error(asked: ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=code)

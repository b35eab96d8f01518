"""DeleteRecords (21), versions 0-2: a partition's log begins at a later offset from now on.

Offset -1 is the high watermark. The answer is the log's new start, which is on disk by then; an offset below it
changes nothing. A topic that is only compacted keeps its records.

Where there are other replicas, the answer waits until the logs of all that are alive begin there, for as long as the request says.
"""

from typing import Final

from semel.broker.context import RequestContext
from semel.broker.parts import ReadPath
from semel.broker.replicas.led_partition import LedPartition
from semel.core.metadata import topic_names
from semel.core.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from semel.errors import ErrorCode, LogError
from semel.types import UNKNOWN_OFFSET

_HIGH_WATERMARK: Final = -1


async def handle(
    broker: ReadPath, request: DeleteRecordsRequest, context: RequestContext
) -> DeleteRecordsResponse:
    """Move each partition's start; the last offset given for a partition counts."""
    wanted: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        wanted.setdefault(topic.name, {}).update(
            (one.partition_index, one.offset) for one in topic.partitions
        )
    deadline = broker.runtime.clock.monotonic() + request.timeout_ms / 1000
    begun = {
        name: {index: await _delete(broker, name, index, offset) for index, offset in offsets.items()}
        for name, offsets in wanted.items()
    }
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=name,
                partitions=[await _everywhere(broker, index, one, deadline) for index, one in ones.items()],
            )
            for name, ones in begun.items()
        ]
    )


async def _delete(
    broker: ReadPath, topic: str, index: int, offset: int
) -> tuple[LedPartition, int] | ErrorCode:
    """Have a partition begin at this offset here; then the partition and the offset."""
    partition = broker.partitions.get(topic, index)
    if partition is None:
        return broker.partitions.missing(topic, index)
    if topic in topic_names.INTERNAL:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    log = partition.log
    if log.config.cleanup_compact and not log.config.cleanup_delete:
        return ErrorCode.POLICY_VIOLATION
    if offset == _HIGH_WATERMARK:
        offset = log.high_watermark
    if not 0 <= offset <= log.high_watermark:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    if offset > log.log_start_offset:
        try:
            await partition.commits.durable(offset)
            is_here = broker.partitions.get(topic, index) is partition
            if not is_here or not await broker.partitions.delete_records(log, offset):
                return broker.partitions.missing(topic, index)  # Deleted meanwhile, or led elsewhere.
        except (LogError, OSError):
            return ErrorCode.KAFKA_STORAGE_ERROR
    return partition, offset


async def _everywhere(
    broker: ReadPath, index: int, begun: tuple[LedPartition, int] | ErrorCode, deadline: float
) -> DeleteRecordsPartitionResult:
    """The answer, once every living replica begins there, or the time is over."""
    if isinstance(begun, ErrorCode):
        return DeleteRecordsPartitionResult(
            partition_index=index, low_watermark=UNKNOWN_OFFSET, error_code=begun
        )
    partition, offset = begun
    code = await partition.deleted(offset, max(0.0, deadline - broker.runtime.clock.monotonic()))
    return DeleteRecordsPartitionResult(
        partition_index=index, low_watermark=partition.low_watermark, error_code=code
    )

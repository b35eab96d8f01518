"""OffsetForLeaderEpoch (23), versions 2-4: where a leader epoch ended in this log.

    2+  the client's own leader epoch is checked
    3+  a replica says which one it is; the answer is the same for everybody

A consumer asks it after a leader changed, to learn whether what it read is still there.
"""

from semel.broker.context import RequestContext
from semel.broker.parts import ReadPath
from semel.broker.replicas.led_partition import LedPartition
from semel.core.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from semel.errors import ErrorCode


def handle(
    broker: ReadPath, request: OffsetForLeaderEpochRequest, context: RequestContext
) -> OffsetForLeaderEpochResponse:
    """Answer every partition that was named."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    _answer(_found(broker, topic.topic, asked.partition), asked) for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _found(broker: ReadPath, topic: str, index: int) -> LedPartition | ErrorCode:
    return broker.partitions.find(topic, None, index)


def _answer(partition: LedPartition | ErrorCode, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    if isinstance(partition, ErrorCode):
        return EpochEndOffset(partition=asked.partition, error_code=partition)
    code = partition.check_leader_epoch(asked.current_leader_epoch)
    if code:
        return EpochEndOffset(partition=asked.partition, error_code=code)
    end = partition.epoch_end(asked.leader_epoch)
    return EpochEndOffset(partition=asked.partition, leader_epoch=end.epoch, end_offset=end.end_offset)

"""The rows of __consumer_offsets: their kinds, and committed offsets.

Role.   The host reads and writes `OFFSETS_TOPIC` in the format `GROUP_ROWS`; `offset_row` and `committed` convert a
        commit to its row and back.
Rules.  * Kafka's versions: 1 where the client set its own retention, 4 where the topic's id is known, else 3.
        * In a cluster with Kafka 3.9 nothing newer than 3 is written (`MEMBER_GROUP_ROWS`): its loader knows no more.
"""

from typing import Final, NamedTuple

from semel.core.coordination.outcome import LogRow
from semel.core.coordination.row_format import RowFormat
from semel.core.coordination.row_times import RowTimes
from semel.core.wire.messages.group_rows import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from semel.core.wire.primitives import ZERO_UUID

OFFSETS_TOPIC: Final = "__consumer_offsets"
GROUP_ROWS: Final = RowFormat(
    OFFSETS_TOPIC,
    {
        0: (OffsetCommitKey, OffsetCommitValue),
        1: (OffsetCommitKey, OffsetCommitValue),
        2: (GroupMetadataKey, GroupMetadataValue),
        3: (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
        4: (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
        5: (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
        6: (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
        7: (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
        8: (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
        16: (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
    },
)
MEMBER_GROUP_ROWS: Final = GROUP_ROWS.up_to({OffsetCommitValue: 3, GroupMetadataValue: 3})
"""As Kafka 3.9 writes them."""
GROUP_ROW_TIMES: Final[RowTimes] = {
    OffsetCommitValue: ("commit_timestamp", "expire_timestamp"),
    GroupMetadataValue: ("current_state_timestamp",),
    ConsumerGroupTargetAssignmentMetadataValue: ("assignment_timestamp",),
    ConsumerGroupRegularExpressionValue: ("timestamp",),
}
NO_EXPIRY: Final = -1
_WITH_EXPIRY: Final = 1
_WITH_LEADER_EPOCH: Final = 3
_WITH_TOPIC_ID: Final = 4


class CommittedOffset(NamedTuple):
    """A group's committed offset of a partition."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NO_EXPIRY
    """The expiry time, if an old client set one."""
    topic_id: bytes = ZERO_UUID
    """Id of the committed topic; zero in rows of older brokers."""
    row_offset: int = -1
    """Offset of its row: of two commits the later wins."""


def offset_row(group_id: str, topic: str, partition: int, committed: CommittedOffset) -> LogRow:
    """The row that stores a commit."""
    if committed.expire_timestamp_ms != NO_EXPIRY:
        version = _WITH_EXPIRY
    elif committed.topic_id != ZERO_UUID:
        version = _WITH_TOPIC_ID
    else:
        version = _WITH_LEADER_EPOCH
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp_ms,
        expire_timestamp=committed.expire_timestamp_ms,
        topic_id=committed.topic_id,
    )
    return LogRow(OffsetCommitKey(group=group_id, topic=topic, partition=partition), value, version)


def offset_tombstone(group_id: str, topic: str, partition: int) -> LogRow:
    """The row that forgets a commit."""
    return LogRow(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)


def committed(value: OffsetCommitValue, row_offset: int) -> CommittedOffset:
    """The commit in a row."""
    return CommittedOffset(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        value.expire_timestamp,
        value.topic_id,
        row_offset,
    )

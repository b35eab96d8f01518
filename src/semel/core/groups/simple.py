"""A group with offsets but without members: consumers that assign partitions to themselves.

Role.   Created by an offset commit for an unknown group. Kafka reports it as an empty classic group.
Rules.  * The first member that joins turns it into a group of the member's kind: replace the entry in `Groups.by_id`.
          It has no rows but its offsets.
        * It is removed, with a classic group's tombstone, after its last offset.
"""

from dataclasses import dataclass

from semel.core.coordination.outcome import LogRow
from semel.core.groups.group import CommitFrom, GroupType, OffsetExpiry
from semel.core.wire.messages.describe_groups import DescribedGroup
from semel.core.wire.messages.group_rows import GroupMetadataKey
from semel.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class SimpleGroup:
    """A group without members. Implements `group.Group`."""

    group_id: str
    type: GroupType = GroupType.CLASSIC
    state: str = "Empty"
    protocol_type: str = ""
    is_empty: bool = True

    def check_commit(self, commit: CommitFrom) -> ErrorCode:
        return ErrorCode.NONE if commit.generation_or_epoch < 0 else ErrorCode.UNKNOWN_MEMBER_ID

    def commit_heard(self, member_id: str, now_ms: int) -> None:
        """Do nothing: there are no sessions."""

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:  # noqa: ARG002  # Open to all.
        return ErrorCode.NONE

    def check_delete_offsets(self) -> ErrorCode:
        return ErrorCode.NONE

    def check_delete(self) -> ErrorCode:
        return ErrorCode.NONE

    def is_subscribed_to(self, topic: str) -> bool:  # noqa: ARG002  # No members.
        return False

    def offset_expiry(self) -> OffsetExpiry | None:
        return OffsetExpiry(since_ms=None)

    def describe(self) -> DescribedGroup | None:
        return DescribedGroup(group_id=self.group_id, group_state=self.state)

    def tombstones(self) -> list[LogRow]:
        return [LogRow(GroupMetadataKey(group=self.group_id), None)]

"""A group that has offsets and never had members: consumers that assign partitions to themselves.

Role.   Made when an offset is committed for a group nobody knows. Kafka tells it as a classic group that is empty.
Rules.  * The first member that joins, of whichever kind, turns it into a group of that kind: replace the entry in
          `Groups.by_id`; nothing was written of it but offsets.
        * It goes, with a classic group's tombstone, once its last offset has.
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
        """Nobody is counted here."""

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:  # noqa: ARG002  # Anybody may.
        return ErrorCode.NONE

    def check_delete_offsets(self) -> ErrorCode:
        return ErrorCode.NONE

    def check_delete(self) -> ErrorCode:
        return ErrorCode.NONE

    def is_subscribed_to(self, topic: str) -> bool:  # noqa: ARG002  # To none.
        return False

    def offset_expiry(self) -> OffsetExpiry | None:
        return OffsetExpiry(since_ms=None)

    def describe(self) -> DescribedGroup | None:
        return DescribedGroup(group_id=self.group_id, group_state=self.state)

    def tombstones(self) -> list[LogRow]:
        return [LogRow(GroupMetadataKey(group=self.group_id), None)]

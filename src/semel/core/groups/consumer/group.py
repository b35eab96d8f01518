"""A KIP-848 group: its members, their target, and the current holder of each partition.

Role.   `ConsumerGroup` is the sum of its rows; only the `apply_*` methods change it.
Flow.   `coordinator` applies rows and decides; `core.groups` calls the methods every group has (commits, deletion).
Rules.  * A partition has an epoch while a member holds it. A member that was asked to revoke it still holds it, and so
          does a static member that is away (-2). No other member gets the partition before.
        * `epoch` grows with every change of membership, subscriptions or topics; the target follows it.
        * Compaction may leave rows in any order: applying never fails, and a dangling reference is skipped.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from semel.core.coordination.outcome import LogRow
from semel.core.groups.assignors.java_order import string_hash
from semel.core.groups.consumer.assignor_spec import Assigned
from semel.core.groups.consumer.java_order import in_table_order
from semel.core.groups.consumer.member import Member, Owned
from semel.core.groups.consumer.states import GroupState
from semel.core.groups.group import CommitFrom, GroupType, OffsetExpiry
from semel.core.wire.message import Row
from semel.core.wire.messages.describe_groups import DescribedGroup
from semel.core.wire.messages.group_rows import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
)
from semel.errors import ErrorCode

CONSUMER_PROTOCOL: Final = "consumer"
INITIAL_EPOCH: Final = 1
"""The target of a group without target rows: empty."""
_EPOCHS_IN_COMMITS_SINCE: Final = 9


class ResolvedRegex(NamedTuple):
    """The topics a regular expression matched, and when."""

    topics: tuple[str, ...]
    timestamp_ms: int


@dataclass(slots=True)
class ConsumerGroup:
    """One group. Implements `core.groups.group.Group`."""

    group_id: str
    epoch: int = INITIAL_EPOCH
    metadata_hash: int = 0
    assignment_epoch: int = INITIAL_EPOCH
    assignment_timestamp_ms: int = 0
    members: dict[str, Member] = field(default_factory=dict)
    instances: dict[str, str] = field(default_factory=dict)
    """Instance id -> member id."""
    target: dict[str, Assigned] = field(default_factory=dict)
    owners: dict[bytes, dict[int, str]] = field(default_factory=dict)
    """The owner of each partition in the target: `target` inverted."""
    partition_epochs: dict[bytes, dict[int, int]] = field(default_factory=dict)
    """The epoch of the current holder of each partition."""
    regexes: dict[str, ResolvedRegex] = field(default_factory=dict)
    name_counts: Counter[str] = field(default_factory=Counter)
    """Number of members that subscribe to each topic by name."""
    regex_counts: Counter[str] = field(default_factory=Counter)
    assignor_counts: Counter[str] = field(default_factory=Counter)
    has_partition_metadata: bool = False
    """Whether a broker before 4.1 left a row that the hash replaces."""

    # Methods of every group

    @property
    def type(self) -> GroupType:
        return GroupType.CONSUMER

    @property
    def protocol_type(self) -> str:
        return CONSUMER_PROTOCOL

    @property
    def state(self) -> str:
        if not self.members:
            return GroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return GroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return GroupState.STABLE
        return GroupState.RECONCILING

    @property
    def is_empty(self) -> bool:
        return not self.members

    def check_commit(self, commit: CommitFrom) -> ErrorCode:
        if commit.generation_or_epoch < 0 and not self.members:
            return ErrorCode.NONE
        nobody = (
            commit.generation_or_epoch == -1 and not commit.member_id and commit.group_instance_id is None
        )
        if commit.transactional and nobody:
            return ErrorCode.NONE
        member = self.members.get(commit.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not commit.transactional and member.classic is None and commit.version < _EPOCHS_IN_COMMITS_SINCE:
            return ErrorCode.UNSUPPORTED_VERSION
        return _stale(member) if commit.generation_or_epoch > member.member_epoch else ErrorCode.NONE

    def check_commit_of(self, commit: CommitFrom, topic_id: bytes, partition: int) -> ErrorCode:
        """Whether an admitted commit may store an offset of this partition.

        A commit from an older epoch may, if the member has held the partition since that epoch or before.
        """
        member = self.members.get(commit.member_id)
        if member is None or commit.generation_or_epoch == member.member_epoch:
            return ErrorCode.NONE
        since = member.owned_since(topic_id, partition)
        return _stale(member) if since is None or commit.generation_or_epoch < since else ErrorCode.NONE

    def commit_heard(self, member_id: str, now_ms: int) -> None:
        """Do nothing: only heartbeats extend a session."""

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        if member_id is None and member_epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if member_epoch == member.member_epoch else _stale(member)

    def check_delete_offsets(self) -> ErrorCode:
        return ErrorCode.NONE

    def check_delete(self) -> ErrorCode:
        return ErrorCode.NONE if self.is_empty else ErrorCode.NON_EMPTY_GROUP

    def is_subscribed_to(self, topic: str) -> bool:
        return self.name_counts[topic] > 0 or any(topic in regex.topics for regex in self.regexes.values())

    def offset_expiry(self) -> OffsetExpiry | None:
        return OffsetExpiry(since_ms=None)

    def describe(self) -> DescribedGroup | None:
        """None: DescribeGroups does not support this kind."""
        return None

    def tombstones(self) -> list[LogRow]:
        group_id = self.group_id
        rows = [
            _gone(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=m))
            for m in self.members
        ]
        rows += [
            _gone(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=m))
            for m in self.members
        ]
        rows.append(_gone(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id)))
        rows += [_gone(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=m)) for m in self.members]
        rows += [regex_row(group_id, regex, None) for regex in self.regexes]
        rows.append(_gone(ConsumerGroupPartitionMetadataKey(group_id=group_id)))
        rows.append(_gone(ConsumerGroupMetadataKey(group_id=group_id)))
        return rows

    # Queries of its coordinator

    def static_member(self, instance_id: str) -> Member | None:
        """The current holder of an instance id."""
        member_id = self.instances.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target_of(self, member_id: str, instance_id: str | None) -> Assigned:
        """A member's target; a member that takes an instance over gets that instance's target."""
        if instance_id is not None:
            member_id = self.instances.get(instance_id, member_id)
        return self.target.get(member_id, {})

    def partition_epoch(self, topic_id: bytes, partition: int) -> int | None:
        """The epoch of the partition's holder; None if it is free."""
        return self.partition_epochs.get(topic_id, {}).get(partition)

    def preferred_assignor(self, counts: Mapping[str, int] | None = None) -> str | None:
        """The assignor most members prefer."""
        counted = self.assignor_counts if counts is None else counts
        wanted = in_table_order([name for name, count in counted.items() if count > 0], string_hash)
        return max(wanted, key=counted.__getitem__, default=None)

    def all_classic_except(self, member_ids: Iterable[str]) -> bool:
        """Whether all other members are classic."""
        excepted = set(member_ids)
        return all(
            m.classic is not None for member_id, m in self.members.items() if member_id not in excepted
        )

    # Rows

    def apply_epoch(self, value: ConsumerGroupMetadataValue) -> None:
        self.epoch = value.epoch
        self.metadata_hash = value.metadata_hash

    def apply_target_epoch(self, value: ConsumerGroupTargetAssignmentMetadataValue | None) -> None:
        self.assignment_epoch = INITIAL_EPOCH if value is None else value.assignment_epoch
        self.assignment_timestamp_ms = 0 if value is None else value.assignment_timestamp

    def apply_target(self, member_id: str, value: ConsumerGroupTargetAssignmentMemberValue | None) -> None:
        for topic_id, partitions in self.target.pop(member_id, {}).items():
            owners = self.owners.get(topic_id, {})
            for partition in partitions:
                if owners.get(partition) == member_id:  # Else another member has it already.
                    del owners[partition]
            if not owners:
                self.owners.pop(topic_id, None)
        if value is not None:
            assigned = {one.topic_id: tuple(sorted(one.partitions)) for one in value.topic_partitions}
            self.target[member_id] = assigned
            for topic_id, partitions in assigned.items():
                self.owners.setdefault(topic_id, {}).update(dict.fromkeys(partitions, member_id))

    def apply_regex(self, regex: str, value: ConsumerGroupRegularExpressionValue | None) -> None:
        if value is None:
            self.regexes.pop(regex, None)
        else:
            self.regexes[regex] = ResolvedRegex(tuple(value.topics), value.timestamp)

    def apply_member(self, member: Member) -> None:
        """Add a member, or replace the one with its id."""
        before = self.members.get(member.member_id)
        if before is not None:
            self._count(before, -1)
            self._forget_partitions(before)
        self.members[member.member_id] = member
        self._count(member, 1)
        for owned in (member.assigned, member.pending_revocation):
            for topic_id, partitions in owned.items():
                epochs = self.partition_epochs.setdefault(topic_id, {})
                epochs.update(dict.fromkeys(partitions, member.member_epoch))
        if member.instance_id is not None:
            self.instances[member.instance_id] = member.member_id

    def remove_member(self, member_id: str) -> None:
        """Forget a member."""
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._count(member, -1)
        self._forget_partitions(member)
        if member.instance_id is not None and self.instances.get(member.instance_id) == member_id:
            del self.instances[member.instance_id]

    def _count(self, member: Member, by: int) -> None:
        recount(self.name_counts, member.subscribed_topic_names, by)
        recount(
            self.regex_counts, [member.subscribed_topic_regex] if member.subscribed_topic_regex else [], by
        )
        recount(self.assignor_counts, [member.server_assignor] if member.server_assignor else [], by)

    def _forget_partitions(self, member: Member) -> None:
        for owned in (member.assigned, member.pending_revocation):
            self._forget(owned, member.member_epoch)

    def _forget(self, owned: Owned, member_epoch: int) -> None:
        for topic_id, partitions in owned.items():
            epochs = self.partition_epochs.get(topic_id, {})
            for partition in partitions:
                if epochs.get(partition) == member_epoch:  # Else another member's row came later.
                    del epochs[partition]
            if not epochs:
                self.partition_epochs.pop(topic_id, None)


def recount(counts: Counter[str], names: Iterable[str], by: int) -> None:
    """Add `by` to the count of each name; drop names at zero."""
    for name in names:
        counts[name] += by
        if counts[name] <= 0:
            del counts[name]


def _stale(member: Member) -> ErrorCode:
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION


def _gone(key: Row) -> LogRow:
    return LogRow(key, None)


def epoch_row(group_id: str, epoch: int, metadata_hash: int) -> LogRow:
    """The row with the group's epoch and the hash of its topics."""
    return LogRow(
        ConsumerGroupMetadataKey(group_id=group_id),
        ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def target_row(group_id: str, member_id: str, assigned: Assigned) -> LogRow:
    """The row with a member's target."""
    return LogRow(
        ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[
                TopicPartition(topic_id=topic_id, partitions=list(partitions))
                for topic_id, partitions in assigned.items()
            ]
        ),
    )


def target_epoch_row(group_id: str, epoch: int, timestamp_ms: int) -> LogRow:
    """The row with the epoch of the target."""
    return LogRow(
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms),
    )


def regex_row(group_id: str, regex: str, resolved: ResolvedRegex | None) -> LogRow:
    """The row with the topics an expression matches; a tombstone without them."""
    value = None
    if resolved is not None:
        value = ConsumerGroupRegularExpressionValue(
            topics=list(resolved.topics), timestamp=resolved.timestamp_ms
        )
    return LogRow(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), value)


def member_gone_rows(group_id: str, member_id: str) -> list[LogRow]:
    """The tombstones of a leaving member: its assignment first, its metadata last."""
    return [
        LogRow(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        LogRow(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        LogRow(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    ]

"""A member of a KIP-848 group: its metadata and its assignment. Plain data from rows.

Role.   `Member` combines two kinds of rows: metadata (identity, subscription) and current assignment.
Rules.  * A member is immutable: an operation returns a new one, and `apply` replaces the old one.
        * Every partition carries the epoch in which the member got it: a commit with an older epoch is stale.
        * A member with `classic` uses JoinGroup and SyncGroup.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from semel.core.coordination.outcome import LogRow
from semel.core.groups.consumer.states import LEAVE_EPOCH, MemberState
from semel.core.wire.messages.group_rows import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    TopicPartitions,
)

Owned: TypeAlias = Mapping[bytes, Mapping[int, int]]
"""Topic id -> partition -> the epoch in which the member got it."""


@dataclass(frozen=True, slots=True)
class Member:
    """One member. The defaults are those of an unknown member."""

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    """Sorted, without duplicates."""
    subscribed_topic_regex: str = ""
    server_assignor: str | None = None
    assigned: Owned = field(default_factory=dict)
    pending_revocation: Owned = field(default_factory=dict)
    classic: ClassicMemberMetadata | None = None

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Whether the member owns its target of this epoch."""
        return self.state is MemberState.STABLE and self.member_epoch == target_epoch

    def owned_since(self, topic_id: bytes, partition: int) -> int | None:
        """The epoch in which the member got this partition; None if it does not own it."""
        epoch = self.assigned.get(topic_id, {}).get(partition)
        return self.pending_revocation.get(topic_id, {}).get(partition) if epoch is None else epoch

    def owns_only_assigned(self, owned: Iterable[tuple[bytes, Iterable[int]]] | None) -> bool:
        """Whether the reported partitions are all assigned to the member; False if it reports none."""
        if owned is None:
            return False
        for topic_id, partitions in owned:
            assigned = self.assigned.get(topic_id)
            if assigned is None or any(partition not in assigned for partition in partitions):
                return False
        return True

    def moved_to(
        self, epoch: int, state: MemberState, assigned: Owned, pending_revocation: Owned
    ) -> "Member":
        """The member after a reconciliation step; it keeps its previous epoch, in case the answer gets lost."""
        return replace(
            self,
            previous_member_epoch=self.member_epoch,
            member_epoch=epoch,
            state=state,
            assigned=assigned,
            pending_revocation=pending_revocation,
        )

    # Rows

    def with_metadata(self, value: ConsumerGroupMemberMetadataValue) -> "Member":
        """The member updated from a metadata row."""
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            subscribed_topic_names=topic_names(value.subscribed_topic_names),
            subscribed_topic_regex=value.subscribed_topic_regex or "",
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )

    def with_assignment(self, value: ConsumerGroupCurrentMemberAssignmentValue | None) -> "Member":
        """The member updated from an assignment row; a tombstone means that it has left."""
        if value is None:
            return replace(
                self,
                member_epoch=LEAVE_EPOCH,
                previous_member_epoch=LEAVE_EPOCH,
                assigned={},
                pending_revocation={},
            )
        return replace(
            self,
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=MemberState.of(value.state),
            assigned=_owned(value.assigned_partitions, value.member_epoch),
            pending_revocation=_owned(value.partitions_pending_revocation, value.member_epoch),
        )

    def metadata_row(self, group_id: str) -> LogRow:
        """The metadata row."""
        return LogRow(
            ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=self.member_id),
            ConsumerGroupMemberMetadataValue(
                instance_id=self.instance_id,
                rack_id=self.rack_id,
                client_id=self.client_id,
                client_host=self.client_host,
                subscribed_topic_names=list(self.subscribed_topic_names),
                subscribed_topic_regex=self.subscribed_topic_regex,
                rebalance_timeout_ms=self.rebalance_timeout_ms,
                server_assignor=self.server_assignor,
                classic_member_metadata=self.classic,
            ),
        )

    def assignment_row(self, group_id: str) -> LogRow:
        """The current assignment row."""
        return LogRow(
            ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=self.member_id),
            ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=self.member_epoch,
                previous_member_epoch=self.previous_member_epoch,
                state=self.state,
                assigned_partitions=_listed(self.assigned),
                partitions_pending_revocation=_listed(self.pending_revocation),
            ),
        )


def topic_names(names: Iterable[str]) -> tuple[str, ...]:
    """Topic names, sorted and without duplicates."""
    return tuple(sorted(set(names)))


def without_epochs(owned: Owned) -> dict[bytes, tuple[int, ...]]:
    """The partitions without their epochs."""
    return {topic_id: tuple(sorted(partitions)) for topic_id, partitions in owned.items()}


def _owned(listed: Iterable[TopicPartitions], member_epoch: int) -> Owned:
    owned: dict[bytes, dict[int, int]] = {}
    for one in listed:
        epochs = one.assignment_epochs
        if epochs is None or len(epochs) != len(one.partitions):  # Rows of brokers before 4.3 have none.
            epochs = [member_epoch] * len(one.partitions)
        owned[one.topic_id] = dict(zip(one.partitions, epochs, strict=True))
    return owned


def _listed(owned: Owned) -> list[TopicPartitions]:
    return [
        TopicPartitions(
            topic_id=topic_id,
            partitions=sorted(partitions),
            assignment_epochs=[partitions[partition] for partition in sorted(partitions)],
        )
        for topic_id, partitions in owned.items()
    ]

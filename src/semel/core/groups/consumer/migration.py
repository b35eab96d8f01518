"""Online migration of a group: classic to KIP-848 and back.

Role.   `upgraded` converts a classic group of consumers when the first KIP-848 member joins. `downgraded` converts a
        KIP-848 group when its last KIP-848 member leaves and only classic members remain.
Rules.  * `group.consumer.migration.policy` says which directions are allowed.
        * Members keep their partitions: the last assignment becomes the first target, and the other way round. The
          generation continues as the epoch.
        * Only groups with built-in assignors migrate: a custom assignor's user data would be lost.
        * The functions change no state: they return rows, and answers for members waiting for a cancelled rebalance.
"""

from typing import Final

from semel.core.coordination.outcome import LogRow, Ticket
from semel.core.groups.classic import replies
from semel.core.groups.classic.group import ClassicGroup
from semel.core.groups.classic.member import Member as ClassicMember
from semel.core.groups.classic.member import MemberProtocol
from semel.core.groups.classic.timers import Timers
from semel.core.groups.consumer.checks import Refusal
from semel.core.groups.consumer.embedded import (
    by_id,
    read_assignment,
    read_subscription,
    read_version,
    write_assignment,
)
from semel.core.groups.consumer.group import (
    CONSUMER_PROTOCOL,
    ConsumerGroup,
    epoch_row,
    target_epoch_row,
    target_row,
)
from semel.core.groups.consumer.member import Member, topic_names
from semel.core.groups.consumer.subscriptions import TopicHashes
from semel.core.groups.group import Groups
from semel.core.wire.message import Response
from semel.core.wire.messages.group_rows import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from semel.errors import ErrorCode

UPGRADE_POLICIES: Final = ("bidirectional", "upgrade")
DOWNGRADE_POLICIES: Final = ("bidirectional", "downgrade")
DISABLED_POLICY: Final = "disabled"


def upgrade_refused(groups: Groups, group: ClassicGroup) -> Refusal | None:
    """Why a classic group cannot be upgraded for a joining KIP-848 member."""
    settings = groups.settings
    if settings.group_consumer_migration_policy not in UPGRADE_POLICIES:
        return _cannot_upgrade(group, "online upgrade is disabled.")
    if group.protocol_type != CONSUMER_PROTOCOL:
        return _cannot_upgrade(group, "the group does not use the consumer embedded protocol.")
    if len(group.members) > settings.group_consumer_max_size:
        return _cannot_upgrade(group, "the group size exceeds the consumer group maximum size.")
    return None


def upgraded(groups: Groups, classic: ClassicGroup, hashes: TopicHashes) -> ConsumerGroup | Refusal:
    """The KIP-848 group that replaces a classic group."""
    group = ConsumerGroup(
        classic.group_id, epoch=classic.generation_id, assignment_epoch=classic.generation_id
    )
    for old in classic.members.values():
        assignment = read_assignment(old.assignment)
        subscription = read_subscription(old.metadata(classic.protocol_name or old.protocols[0].name))
        if assignment is None or subscription is None:
            return _cannot_upgrade(classic, "the embedded consumer protocol is malformed.")
        if assignment.user_data:
            return _cannot_upgrade(
                classic,
                "an unsupported custom assignor is in use. Please refer to the documentation or switch to a "
                "default assignor before re-attempting the upgrade.",
            )
        given = by_id(assignment.assigned_partitions, groups.topics)
        epoch = classic.generation_id
        group.apply_member(
            Member(
                old.member_id,
                member_epoch=epoch,
                previous_member_epoch=epoch,
                instance_id=old.group_instance_id,
                rack_id=subscription.rack_id or None,
                rebalance_timeout_ms=old.rebalance_timeout_ms,
                client_id=old.client_id,
                client_host=old.client_host,
                subscribed_topic_names=topic_names(subscription.topics),
                assigned={topic_id: dict.fromkeys(partitions, epoch) for topic_id, partitions in given},
                classic=ClassicMemberMetadata(
                    session_timeout_ms=old.session_timeout_ms,
                    supported_protocols=[
                        ClassicProtocol(name=name, metadata=metadata) for name, metadata in old.protocols
                    ],
                ),
            )
        )
        target = [TopicPartition(topic_id=topic_id, partitions=sorted(parts)) for topic_id, parts in given]
        group.apply_target(old.member_id, ConsumerGroupTargetAssignmentMemberValue(topic_partitions=target))
    group.metadata_hash = hashes.of(group.name_counts)
    return group


def upgrade_rows(classic: ClassicGroup, group: ConsumerGroup) -> list[LogRow]:
    """The rows that make the one out of the other."""
    members = group.members.values()
    group_id = group.group_id
    return [
        *classic.tombstones(),
        *(member.metadata_row(group_id) for member in members),
        epoch_row(group_id, group.epoch, group.metadata_hash),
        *(target_row(group_id, member.member_id, group.target[member.member_id]) for member in members),
        target_epoch_row(group_id, group.assignment_epoch, 0),
        *(member.assignment_row(group_id) for member in members),
    ]


def upgrade_answers(classic: ClassicGroup) -> list[tuple[Ticket, Response]]:
    """The answers that make members waiting for a classic rebalance rejoin."""
    answers: list[tuple[Ticket, Response]] = []
    for member in classic.members.values():
        if member.join_ticket is not None:
            refused = replies.join_refused(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
            answers.append((member.join_ticket, refused))
        if member.sync_ticket is not None:
            answers.append((member.sync_ticket, replies.sync_refused(ErrorCode.REBALANCE_IN_PROGRESS)))
    return answers


def may_downgrade(groups: Groups, group: ConsumerGroup, *, without: set[str], left: int) -> bool:
    """Whether a group becomes classic when these members leave and `left` members stay."""
    return (
        left > 0
        and group.all_classic_except(without)
        and groups.settings.group_consumer_migration_policy in DOWNGRADE_POLICIES
        and left <= groups.settings.group_max_size
    )


def downgraded(
    groups: Groups, group: ConsumerGroup, timers: Timers, *, without: set[str], plus: Member | None = None
) -> ClassicGroup | None:
    """The classic group of the remaining members; None if they cannot form one."""
    classic = ClassicGroup(group.group_id, timers, generation_id=group.epoch, protocol_type=CONSUMER_PROTOCOL)
    members = [member for member_id, member in group.members.items() if member_id not in without]
    for member in [*members, *([plus] if plus is not None else [])]:
        spoken = member.classic
        if spoken is None or not spoken.supported_protocols:
            return None
        classic.add(
            ClassicMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=spoken.session_timeout_ms,
                protocols=tuple(
                    MemberProtocol(one.name, bytes(one.metadata)) for one in spoken.supported_protocols
                ),
            )
        )
    classic.protocol_name = classic.next_protocol()
    for one in classic.members.values():
        target = group.target_of(one.member_id, one.group_instance_id if plus is not None else None)
        version = read_version(one.metadata(classic.protocol_name))
        if version is None:
            return None
        one.assignment = write_assignment(target, groups.topics, version)
    return classic


def downgrade_rows(group: ConsumerGroup, classic: ClassicGroup, now_ms: int) -> list[LogRow]:
    """The rows that make the one out of the other."""
    assignments = {member.member_id: member.assignment for member in classic.members.values()}
    return [*group.tombstones(), classic.as_row(assignments, now_ms)]


def _cannot_upgrade(group: ClassicGroup, why: str) -> Refusal:
    return Refusal(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {group.group_id} to consumer group because {why}",
    )

"""Membership checks of KIP-848 groups that heartbeats and classic joins share.

Rules.  * An instance id belongs to one member. A request with it and another member id is fenced, unless it replaces
          that member and inherits its state.
"""

from dataclasses import replace

from semel.core.coordination.outcome import LogRow
from semel.core.groups.consumer.checks import Refusal
from semel.core.groups.consumer.group import ConsumerGroup, member_gone_rows, target_row
from semel.core.groups.consumer.member import Member
from semel.core.groups.group import Groups
from semel.errors import ErrorCode


def no_group(groups: Groups, group_id: str) -> Refusal:
    """The refusal if no KIP-848 group has that name."""
    there = group_id in groups.by_id
    return Refusal(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Group {group_id} is not a consumer group." if there else f"Group {group_id} not found.",
    )


def full_refusal(groups: Groups, group: ConsumerGroup, member_id: str) -> Refusal | None:
    """Why a full group refuses a new member; existing members are always admitted."""
    size_max = groups.settings.group_consumer_max_size
    if len(group.members) < size_max or member_id in group.members:
        return None
    return Refusal(
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        f"The consumer group has reached its maximum capacity of {size_max} members.",
    )


def unknown_member(group: ConsumerGroup, member_id: str) -> Refusal:
    """The refusal of an unknown member id."""
    return Refusal(
        ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}."
    )


def static_member(group: ConsumerGroup, instance_id: str, member_id: str) -> Member | Refusal:
    """The member with this instance id, if the member id matches."""
    member = group.static_member(instance_id)
    if member is None:
        return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        return Refusal(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}.",
        )
    return member


def replaced_member(group: ConsumerGroup, old: Member, member_id: str, rows: list[LogRow]) -> Member:
    """Replace a member by one with a new id that inherits its state; append the rows."""
    new = replace(old, member_id=member_id, member_epoch=0, previous_member_epoch=0)
    rows += [
        *member_gone_rows(group.group_id, old.member_id),
        new.metadata_row(group.group_id),
        target_row(group.group_id, member_id, group.target.get(old.member_id, {})),
        new.assignment_row(group.group_id),
    ]
    return new

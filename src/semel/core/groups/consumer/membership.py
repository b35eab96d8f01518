"""Who is in a KIP-848 group, and in whose name a request may speak: questions heartbeats and classic joins share.

Rules.  * An instance id belongs to one member: whoever comes with it under another member id is fenced, unless it takes
          that member's place, with all that one had.
"""

from dataclasses import replace

from semel.core.coordination.outcome import LogRow
from semel.core.groups.consumer.checks import Refusal
from semel.core.groups.consumer.group import ConsumerGroup, member_gone_rows, target_row
from semel.core.groups.consumer.member import Member
from semel.core.groups.group import Groups
from semel.errors import ErrorCode


def no_group(groups: Groups, group_id: str) -> Refusal:
    """There is no KIP-848 group of that name."""
    there = group_id in groups.by_id
    return Refusal(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Group {group_id} is not a consumer group." if there else f"Group {group_id} not found.",
    )


def full_refusal(groups: Groups, group: ConsumerGroup, member_id: str) -> Refusal | None:
    """Why a group takes no more members; those it has are always welcome."""
    size_max = groups.settings.group_consumer_max_size
    if len(group.members) < size_max or member_id in group.members:
        return None
    return Refusal(
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        f"The consumer group has reached its maximum capacity of {size_max} members.",
    )


def unknown_member(group: ConsumerGroup, member_id: str) -> Refusal:
    """Nobody has this member id."""
    return Refusal(
        ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}."
    )


def static_member(group: ConsumerGroup, instance_id: str, member_id: str) -> Member | Refusal:
    """The member with this instance id, if it is the one that asks."""
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
    """A member under a new id in the place of another, with all that one had; the rows that make it so."""
    new = replace(old, member_id=member_id, member_epoch=0, previous_member_epoch=0)
    rows += [
        *member_gone_rows(group.group_id, old.member_id),
        new.metadata_row(group.group_id),
        target_row(group.group_id, member_id, group.target.get(old.member_id, {})),
        new.assignment_row(group.group_id),
    ]
    return new

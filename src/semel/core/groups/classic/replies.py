"""The responses of a classic group, with fields filled in as Kafka does.

Role.   Builds responses; decides nothing.
"""

from typing import Final

from semel.core.groups.classic.group import ClassicGroup
from semel.core.wire.messages.join_group import JoinGroupResponse
from semel.core.wire.messages.leave_group import LeaveGroupResponse, MemberResponse
from semel.core.wire.messages.sync_group import SyncGroupResponse
from semel.errors import ErrorCode

_MANY_LEAVE_SINCE: Final = 3


def join_refused(code: ErrorCode, member_id: str) -> JoinGroupResponse:
    """A refused JoinGroup."""
    return JoinGroupResponse(error_code=code, member_id=member_id, protocol_name=None)


def joined(
    group: ClassicGroup,
    member_id: str,
    *,
    lists_members: bool,
    leader_id: str | None = None,
    skip_assignment: bool = False,
) -> JoinGroupResponse:
    """The new generation; only the leader's response lists the members."""
    return JoinGroupResponse(
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=leader_id or group.leader_id or "",
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=group.joined_members() if lists_members else [],
    )


def sync_refused(code: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code)


def synced(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    """The member's assignment."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=assignment
    )


def left(members: list[MemberResponse], version: int) -> LeaveGroupResponse:
    """The result for each leaving member; older versions have one member, and its error at the top level."""
    if version >= _MANY_LEAVE_SINCE:
        return LeaveGroupResponse(members=members)
    return LeaveGroupResponse(error_code=members[0].error_code)

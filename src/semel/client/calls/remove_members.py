"""LeaveGroup in the name of others: members taken out of a group."""

from collections.abc import Iterable

from semel.client.calls.find_coordinator import CoordinatorKind, order_coordinator
from semel.client.calls.group_refusals import group_refusal
from semel.client.cluster import Cluster
from semel.core.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from semel.errors import ErrorCode, RefusedError, refused


async def remove_members(
    cluster: Cluster,
    group_id: str,
    *,
    member_ids: Iterable[str] = (),
    group_instance_ids: Iterable[str] = (),
    reason: str = "removed by an administrator",
) -> None:
    """Take members out of a group; members that are alive will join again."""
    leaving = [MemberIdentity(member_id=one, reason=reason) for one in member_ids]
    leaving += [MemberIdentity(group_instance_id=one, reason=reason) for one in group_instance_ids]
    if not leaving:
        return

    async def order(coordinator: int) -> None:
        answer = await cluster.send(
            LeaveGroupRequest(group_id=group_id, members=leaving), node_id=coordinator
        )
        if answer.error_code:
            raise group_refusal(cluster, group_id, answer.error_code, "to remove members of")
        for one in answer.members:
            who = one.group_instance_id or one.member_id
            if one.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                raise RefusedError(
                    ErrorCode.UNKNOWN_MEMBER_ID,
                    f"group {group_id} at {cluster.where} has no member {who}: "
                    f"see 'semel groups describe {group_id}'",
                )
            if one.error_code:
                raise refused(one.error_code, f"to remove {who} from group {group_id}", by=cluster.where)

    await order_coordinator(cluster, CoordinatorKind.GROUP, group_id, order)

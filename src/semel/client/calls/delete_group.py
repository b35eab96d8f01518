"""DeleteGroups: a group without members forgotten, with its offsets."""

from semel.client.calls.find_coordinator import CoordinatorKind, order_coordinator
from semel.client.calls.group_refusals import group_refusal
from semel.client.cluster import Cluster
from semel.core.wire.messages.delete_groups import DeleteGroupsRequest


async def delete_group(cluster: Cluster, group_id: str) -> None:
    """Forget a group without members, and its offsets."""

    async def order(coordinator: int) -> None:
        answer = await cluster.send(DeleteGroupsRequest(groups_names=[group_id]), node_id=coordinator)
        for one in answer.results:
            if one.error_code:
                raise group_refusal(cluster, group_id, one.error_code, "to delete")

    await order_coordinator(cluster, CoordinatorKind.GROUP, group_id, order)

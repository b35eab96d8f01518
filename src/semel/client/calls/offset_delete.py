"""OffsetDelete: a group's offsets forgotten, partition by partition."""

from collections.abc import Iterable

from semel.client.calls.find_coordinator import CoordinatorKind, order_coordinator
from semel.client.calls.group_refusals import check_partition, group_refusal
from semel.client.calls.routing import by_topic
from semel.client.cluster import Cluster
from semel.core.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from semel.types import TopicPartition


async def delete_offsets(cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition]) -> None:
    """Forget a group's offsets of these partitions; its members must not be subscribed to their topics."""
    request = OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=one) for one in indexes]
            )
            for name, indexes in by_topic(partitions).items()
        ],
    )

    async def order(coordinator: int) -> None:
        answer = await cluster.send(request, node_id=coordinator)
        if answer.error_code:
            raise group_refusal(cluster, group_id, answer.error_code, "to delete offsets of")
        for topic in answer.topics:
            for one in topic.partitions:
                where = TopicPartition(topic.name, one.partition_index)
                check_partition(cluster, group_id, where, one.error_code, "to delete")

    await order_coordinator(cluster, CoordinatorKind.GROUP, group_id, order)

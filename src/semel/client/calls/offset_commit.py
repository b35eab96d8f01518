"""OffsetCommit: offsets stored for a group, by a member or from outside.

Role.   `commit_offsets` sends them once, as a member or as a stranger; `alter_offsets` makes a whole call of it for a group without
        members.
Rules.  * A coordinator lets strangers commit only to a group without members: members would overwrite the offsets, or never notice.
        * Topics are named by their names: an offset belongs to a name, whatever topic bears it.
"""

from collections.abc import Mapping
from typing import Final

from semel.client.calls.find_coordinator import CoordinatorKind, order_coordinator
from semel.client.calls.group_refusals import check_partition
from semel.client.cluster import Cluster
from semel.client.values.consuming import OffsetAndMetadata
from semel.core.groups.member_words import NO_GENERATION, NO_MEMBER_ID, Identity
from semel.core.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from semel.types import NO_PARTITION_LEADER_EPOCH, TopicPartition

_BY_NAME_VERSION: Final = 9  # OffsetCommit 10 names topics by their ids.


async def commit_offsets(
    cluster: Cluster,
    node_id: int,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    identity: Identity,
) -> dict[TopicPartition, int]:
    """The coordinator's error code for each partition; one attempt."""
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for where, wanted in offsets.items():
        epoch = NO_PARTITION_LEADER_EPOCH if wanted.leader_epoch is None else wanted.leader_epoch
        topics.setdefault(where.topic, OffsetCommitRequestTopic(name=where.topic)).partitions.append(
            OffsetCommitRequestPartition(
                partition_index=where.partition,
                committed_offset=wanted.offset,
                committed_leader_epoch=epoch,
                committed_metadata=wanted.metadata,
            )
        )
    request = OffsetCommitRequest(
        group_id=identity.group_id,
        generation_id_or_member_epoch=identity.generation_id,
        member_id=identity.member_id,
        group_instance_id=identity.group_instance_id,
        topics=list(topics.values()),
    )
    answer = await cluster.send(request, node_id=node_id, version_max=_BY_NAME_VERSION)
    return {
        TopicPartition(topic.name, one.partition_index): one.error_code
        for topic in answer.topics
        for one in topic.partitions
    }


async def alter_offsets(
    cluster: Cluster, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> None:
    """Set offsets of a group without members; a group that does not exist comes to be."""
    stranger = Identity(group_id, NO_GENERATION, NO_MEMBER_ID, None)

    async def order(coordinator: int) -> None:
        for where, number in (await commit_offsets(cluster, coordinator, offsets, stranger)).items():
            check_partition(cluster, group_id, where, number, "to set")

    await order_coordinator(cluster, CoordinatorKind.GROUP, group_id, order)

"""A group's committed offsets: asked for, set, deleted, and compared with where the log ends.

Role.   One function per request, as in `admin`; `lag` puts several answers together.
Rules.  * Offsets are set and deleted only in a group without members: members would overwrite them, or never notice.
        * The end of a partition is what a consumer with the client's `isolation.level` can reach: the last stable offset,
          or the high watermark.
Elsewhere. Where to reset offsets to: `core.groups.resetting`.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from semel.client.admin_groups import at_coordinator, group_refusal, order_coordinator
from semel.client.cluster import Cluster, TopicView, refused
from semel.client.list_offsets import LATEST, offsets_at
from semel.core.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from semel.core.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from semel.core.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from semel.errors import ErrorCode, RefusedError
from semel.types import NO_PARTITION_LEADER_EPOCH, TopicPartition

_ONE_GROUP_VERSION: Final = 7  # From 8 on OffsetFetch takes many groups, in another shape.
_BY_NAME_VERSION: Final = 9  # OffsetCommit 10 names topics by their ids.
_GROUP_WIDE: Final = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND}
)


class Committed(NamedTuple):
    """What a group has committed for a partition."""

    offset: int
    leader_epoch: int | None = None
    metadata: str = ""


class PartitionLag(NamedTuple):
    """How far a group is behind in one partition; None where nothing is committed or the topic is gone."""

    partition: TopicPartition
    committed: Committed | None
    end_offset: int | None

    @property
    def lag(self) -> int | None:
        """Records between the committed offset and the end."""
        if self.committed is None or self.end_offset is None:
            return None
        return max(0, self.end_offset - self.committed.offset)


async def committed_offsets(
    cluster: Cluster,
    group_id: str,
    partitions: Iterable[TopicPartition] | None = None,
    *,
    require_stable: bool = False,
) -> dict[TopicPartition, Committed]:
    """What a group has committed in these partitions, or in all; nothing for a group that does not exist.

    Whoever must know of offsets in open transactions names the partitions, and requires stable ones: Kafka leaves out of
    "all" a partition whose first offset is in a transaction that has not ended.
    """
    topics = None
    if partitions is not None:
        indexes: dict[str, list[int]] = {}
        for where in partitions:
            indexes.setdefault(where.topic, []).append(where.partition)
        topics = [OffsetFetchRequestTopic(name=name, partition_indexes=of) for name, of in indexes.items()]

    async def ask(coordinator: int) -> dict[TopicPartition, Committed]:
        request = OffsetFetchRequest(group_id=group_id, topics=topics, require_stable=require_stable)
        answer = await cluster.send(request, node_id=coordinator, version_max=_ONE_GROUP_VERSION)
        if answer.error_code:
            raise group_refusal(cluster, group_id, answer.error_code, "the offsets of")
        found = {}
        for topic in answer.topics:
            for one in topic.partitions:
                where = TopicPartition(topic.name, one.partition_index)
                if one.error_code:
                    raise refused(
                        one.error_code, f"the offset of group {group_id} in {where}", by=cluster.where
                    )
                if one.committed_offset >= 0:
                    epoch = one.committed_leader_epoch
                    found[where] = Committed(
                        one.committed_offset, epoch if epoch >= 0 else None, one.metadata or ""
                    )
        return dict(sorted(found.items()))

    return await at_coordinator(cluster, group_id, ask)


async def alter_offsets(cluster: Cluster, group_id: str, offsets: Mapping[TopicPartition, Committed]) -> None:
    """Set offsets of a group without members; a group that does not exist comes to be."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for where, wanted in offsets.items():
        topics.setdefault(where.topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=where.partition,
                committed_offset=wanted.offset,
                committed_leader_epoch=(
                    NO_PARTITION_LEADER_EPOCH if wanted.leader_epoch is None else wanted.leader_epoch
                ),
                committed_metadata=wanted.metadata,
            )
        )
    request = OffsetCommitRequest(
        group_id=group_id,
        topics=[
            OffsetCommitRequestTopic(name=name, partitions=partitions) for name, partitions in topics.items()
        ],
    )

    async def order(coordinator: int) -> None:
        answer = await cluster.send(request, node_id=coordinator, version_max=_BY_NAME_VERSION)
        for topic in answer.topics:
            for one in topic.partitions:
                where = TopicPartition(topic.name, one.partition_index)
                _check(cluster, group_id, where, one.error_code, "to set")

    await order_coordinator(cluster, group_id, order)


async def delete_offsets(cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition]) -> None:
    """Forget a group's offsets of these partitions; its members must not be subscribed to their topics."""
    topics: dict[str, list[OffsetDeleteRequestPartition]] = {}
    for where in partitions:
        topics.setdefault(where.topic, []).append(
            OffsetDeleteRequestPartition(partition_index=where.partition)
        )
    request = OffsetDeleteRequest(
        group_id=group_id,
        topics=[OffsetDeleteRequestTopic(name=name, partitions=some) for name, some in topics.items()],
    )

    async def order(coordinator: int) -> None:
        answer = await cluster.send(request, node_id=coordinator)
        if answer.error_code:
            raise group_refusal(cluster, group_id, answer.error_code, "to delete offsets of")
        for topic in answer.topics:
            for one in topic.partitions:
                where = TopicPartition(topic.name, one.partition_index)
                _check(cluster, group_id, where, one.error_code, "to delete")

    await order_coordinator(cluster, group_id, order)


async def lag(
    cluster: Cluster,
    committed: Mapping[TopicPartition, Committed],
    partitions: Iterable[TopicPartition] = (),
) -> list[PartitionLag]:
    """Of everything committed, and of these partitions too, how far it is to the end."""
    wanted = sorted({*committed, *partitions})
    views = await existing_topics(cluster, {one.topic for one in wanted})

    async def ends_of(view: TopicView) -> dict[TopicPartition, int]:
        indexes = [
            one.partition for one in wanted if one.topic == view.name and one.partition < len(view.partitions)
        ]
        found = await offsets_at(cluster, view, indexes, LATEST)
        return {TopicPartition(view.name, index): offset for index, offset in found.items()}

    ends: dict[TopicPartition, int] = {}
    for found in await asyncio.gather(*(ends_of(view) for view in views.values())):
        ends |= found
    return [PartitionLag(one, committed.get(one), ends.get(one)) for one in wanted]


async def existing_topics(cluster: Cluster, names: Iterable[str]) -> dict[str, TopicView]:
    """Those of these topics that exist; a group may remember others."""
    found: dict[str, TopicView] = {}
    for name in sorted(names):
        try:
            found[name] = await cluster.topic(name)
        except RefusedError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
    return found


def _check(cluster: Cluster, group_id: str, where: TopicPartition, number: int, what: str) -> None:
    if not number:
        return
    if number in _GROUP_WIDE:
        raise group_refusal(cluster, group_id, number, f"{what} offsets of")
    if number == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC:
        raise RefusedError(
            ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
            f"members of group {group_id} at {cluster.where} are subscribed to {where.topic}: stop them first, "
            f"'semel groups describe {group_id}' names them",
        )
    if number == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise RefusedError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"{where} does not exist at {cluster.where}, or group {group_id} has no offset there: "
            f"see 'semel offsets show {group_id}'",
        )
    raise refused(number, f"{what} the offset of group {group_id} in {where}", by=cluster.where)

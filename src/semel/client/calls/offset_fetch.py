"""OffsetFetch: the offsets that a group has committed.

Role.   `fetch_offsets` asks a coordinator once, as a member or as a stranger; `committed_offsets` makes a whole call of it.
Rules.  * A broker that takes many groups in a request is asked in that shape: only it knows a member's epoch.
        * Topics are named by their names: an offset belongs to a name, whatever topic bears it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from semel.client.calls import known
from semel.client.calls.find_coordinator import CoordinatorKind, at_coordinator
from semel.client.calls.group_refusals import group_refusal
from semel.client.calls.routing import by_topic
from semel.client.cluster import Cluster
from semel.client.values.consuming import OffsetAndMetadata
from semel.core.groups.member_words import Identity
from semel.core.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from semel.errors import refused
from semel.types import TopicPartition

_KEY: Final = OffsetFetchRequest.schema.api_key
_GROUPS_SINCE: Final = 8
_BY_NAME_VERSION: Final = 9  # From 10 on topics are named by their ids.


class FetchedOffsets(NamedTuple):
    """A coordinator's answer: the refusal of the whole group, and of single partitions; nothing for those without an offset."""

    error_code: int
    refusals: dict[TopicPartition, int]
    offsets: dict[TopicPartition, OffsetAndMetadata]


async def fetch_offsets(
    cluster: Cluster,
    node_id: int,
    group_id: str,
    partitions: Iterable[TopicPartition] | None,
    *,
    require_stable: bool,
    identity: Identity | None = None,
) -> FetchedOffsets:
    """The coordinator's answer about these partitions (None: all that have an offset); one attempt."""
    indexes = None if partitions is None else by_topic(partitions)
    has_groups = (await cluster.served(node_id))[_KEY][1] >= _GROUPS_SINCE
    request = (
        OffsetFetchRequest(groups=[_group(group_id, indexes, identity)], require_stable=require_stable)
        if has_groups
        else OffsetFetchRequest(
            group_id=group_id,
            topics=None
            if indexes is None
            else [OffsetFetchRequestTopic(name=name, partition_indexes=of) for name, of in indexes.items()],
            require_stable=require_stable,
        )
    )
    answer = await cluster.send(request, node_id=node_id, version_max=_BY_NAME_VERSION)
    said = answer.groups[0] if has_groups else answer
    found = FetchedOffsets(said.error_code, {}, {})
    for topic in said.topics:
        for one in topic.partitions:
            where = TopicPartition(topic.name, one.partition_index)
            if one.error_code:
                found.refusals[where] = one.error_code
            elif one.committed_offset >= 0:
                found.offsets[where] = OffsetAndMetadata(
                    one.committed_offset, one.metadata or "", known(one.committed_leader_epoch)
                )
    return found


def _group(
    group_id: str, indexes: Mapping[str, Sequence[int]] | None, identity: Identity | None
) -> OffsetFetchRequestGroup:
    group = OffsetFetchRequestGroup(
        group_id=group_id,
        topics=None
        if indexes is None
        else [
            OffsetFetchRequestTopics(name=name, partition_indexes=list(of)) for name, of in indexes.items()
        ],
    )
    if identity is not None and identity.member_id and identity.generation_id > 0:
        group.member_id, group.member_epoch = identity.member_id, identity.generation_id
    return group


async def committed_offsets(
    cluster: Cluster,
    group_id: str,
    partitions: Iterable[TopicPartition] | None = None,
    *,
    require_stable: bool = False,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """The offsets a group has committed in these partitions, or in all; none for a group that does not exist.

    To know of offsets in open transactions, name the partitions and require stable ones: Kafka leaves out of "all" a
    partition whose first offset is in a transaction that has not ended.
    """
    wanted = None if partitions is None else list(partitions)

    async def ask(coordinator: int) -> dict[TopicPartition, OffsetAndMetadata]:
        found = await fetch_offsets(cluster, coordinator, group_id, wanted, require_stable=require_stable)
        if found.error_code:
            raise group_refusal(cluster, group_id, found.error_code, "the offsets of")
        for where, number in found.refusals.items():
            raise refused(number, f"the offset of group {group_id} in {where}", by=cluster.where)
        return dict(sorted(found.offsets.items()))

    return await at_coordinator(cluster, CoordinatorKind.GROUP, group_id, ask)

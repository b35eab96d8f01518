"""A consumer's dealings with its group's coordinator beside membership: positions stored and read back.

Role.   `GroupOffsets` finds the coordinator and sends OffsetCommit and OffsetFetch, one attempt each.
Rules.  * An answer that says the coordinator is elsewhere makes it forget where it was; the next attempt looks again.
        * Whether to try again is the caller's to decide: errors carry `retriable`.
        * Topics are named by their names: a position belongs to a name, whatever topic bears it.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from semel.client.admin_groups import find_coordinator
from semel.client.cluster import Cluster, error_code
from semel.client.consumer.values import OffsetAndMetadata
from semel.client.troubles import Kind
from semel.core.groups.member_words import Identity
from semel.core.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from semel.core.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from semel.errors import DisconnectedError, ErrorCode, RefusedError
from semel.types import NO_PARTITION_LEADER_EPOCH, TopicPartition

_BY_NAME_VERSION: Final = 9
_GROUPS_SINCE: Final = 8
_FETCH_KEY: Final = OffsetFetchRequest.schema.api_key
_MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
NO_COORDINATOR: Final = _MOVED | {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
"""Answers of one that does not coordinate the group, or not yet."""
_LOOK_AT_BROKER: Final = "it is asked again; the broker's log says why it does not coordinate groups"


class GroupOffsets:
    """Of one group, through one cluster."""

    def __init__(self, cluster: Cluster, group_id: str) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._node_id: int | None = None

    def forget(self) -> None:
        """The coordinator is not where it was."""
        self._node_id = None

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], identity: Identity) -> None:
        """Store these positions; raises `RefusedError` or `DisconnectedError`."""
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
            group_id=self._group_id,
            generation_id_or_member_epoch=identity.generation_id,
            member_id=identity.member_id,
            group_instance_id=identity.group_instance_id,
            topics=list(topics.values()),
        )
        node_id = await self._coordinator()
        try:
            answer = await self._cluster.send(request, node_id=node_id, version_max=_BY_NAME_VERSION)
        except DisconnectedError:
            self.forget()
            raise
        for topic in answer.topics:
            for one in topic.partitions:
                where = TopicPartition(topic.name, one.partition_index)
                self._check(one.error_code, f"to store the position of {where}")

    async def committed(
        self, partitions: Iterable[TopicPartition], identity: Identity
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What is stored for these; those with nothing are left out. Positions in open transactions are refused."""
        indexes: dict[str, list[int]] = {}
        for where in partitions:
            indexes.setdefault(where.topic, []).append(where.partition)
        node_id = await self._coordinator()
        try:
            has_groups = (await self._cluster.served(node_id))[_FETCH_KEY][1] >= _GROUPS_SINCE
            request = self._grouped(indexes, identity) if has_groups else self._single(indexes)
            answer = await self._cluster.send(request, node_id=node_id, version_max=_BY_NAME_VERSION)
        except DisconnectedError:
            self.forget()
            raise
        code, topics = (
            (answer.groups[0].error_code, answer.groups[0].topics)
            if has_groups
            else (answer.error_code, answer.topics)
        )
        self._check(code, "the stored positions")
        found = {}
        for topic in topics:
            for one in topic.partitions:
                where = TopicPartition(topic.name, one.partition_index)
                self._check(one.error_code, f"the stored position of {where}")
                if one.committed_offset >= 0:
                    epoch = one.committed_leader_epoch
                    found[where] = OffsetAndMetadata(
                        one.committed_offset, one.metadata or "", epoch if epoch >= 0 else None
                    )
        return found

    def _grouped(self, indexes: Mapping[str, list[int]], identity: Identity) -> OffsetFetchRequest:
        topics = [OffsetFetchRequestTopics(name=name, partition_indexes=of) for name, of in indexes.items()]
        group = OffsetFetchRequestGroup(group_id=self._group_id, topics=topics)
        if identity.member_id and identity.generation_id > 0:
            group.member_id, group.member_epoch = identity.member_id, identity.generation_id
        return OffsetFetchRequest(groups=[group], require_stable=True)

    def _single(self, indexes: Mapping[str, list[int]]) -> OffsetFetchRequest:
        topics = [OffsetFetchRequestTopic(name=name, partition_indexes=of) for name, of in indexes.items()]
        return OffsetFetchRequest(group_id=self._group_id, topics=topics, require_stable=True)

    async def _coordinator(self) -> int:
        if self._node_id is None:
            self._node_id = await coordinator_of(self._cluster, self._group_id)
        return self._node_id

    def _check(self, number: int, what: str) -> None:
        code = error_code(number)
        report_coordinator(self._cluster, self._group_id, code)
        if not code:
            return
        if code in _MOVED:
            self.forget()
        raise RefusedError(
            code, f"the coordinator of group {self._group_id} refuses {what}: {code.name} ({code.value})"
        )


async def coordinator_of(cluster: Cluster, group_id: str) -> int:
    """Who coordinates the group; that nobody does is told to the log as well."""
    try:
        return await find_coordinator(cluster, group_id)
    except RefusedError as error:
        if error.code.retriable:
            cluster.troubles.met(Kind.GROUP, group_id, str(error), _LOOK_AT_BROKER)
        raise


def report_coordinator(cluster: Cluster, group_id: str, code: ErrorCode) -> None:
    """A coordinator answered with this code."""
    if code in NO_COORDINATOR:
        what = f"group {group_id} has no coordinator at {cluster.where}: {code.name}"
        cluster.troubles.met(Kind.GROUP, group_id, what, _LOOK_AT_BROKER)
    elif cluster.troubles.is_any:
        cluster.troubles.over(Kind.GROUP, group_id)

"""Calls about the cluster: its brokers, their disks, its features.

Role.   The part of the admin client that asks who is there and what is agreed on.
"""

# ruff: noqa: N815 - the aliases are Java's names.

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from semel._version import __version__
from semel.client import arguments
from semel.client.admin.core import AdminCore, public, settled
from semel.client.admin.tables import Answers
from semel.client.calls import known
from semel.client.calls.describe_log_dirs import describe_log_dirs
from semel.client.calls.routing import controller, ordered
from semel.client.values.administration import (
    ClusterDescription,
    FeatureMetadata,
    FinalizedVersionRange,
    LogDirDescription,
    Node,
    ReplicaLogDirInfo,
    TopicPartitionReplica,
)
from semel.core.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from semel.core.wire.messages.api_versions import ApiVersionsRequest
from semel.core.wire.messages.describe_cluster import DescribeClusterRequest
from semel.core.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from semel.errors import SemelError, refused
from semel.types import TopicPartition

_REPLICAS: Final = "a list of copies: topic, partition and broker of each"
R = TypeVar("R", bound=tuple[str, int, int])
"""A partition's copy: a `TopicPartitionReplica`, or a plain triple."""


class ClusterCalls(AdminCore):
    """The cluster."""

    @public
    async def describe_cluster(self) -> ClusterDescription:
        """Its id, its controller, its brokers."""
        cluster = self._cluster

        async def ask() -> ClusterDescription:
            answer = await cluster.send(DescribeClusterRequest())
            if answer.error_code:
                raise refused(
                    answer.error_code, "to describe itself", by=cluster.where, reason=answer.error_message
                )
            nodes = sorted(Node(one.broker_id, one.host, one.port, one.rack) for one in answer.brokers)
            head = next((one for one in nodes if one.id == answer.controller_id), None)
            return ClusterDescription(answer.cluster_id, head, tuple(nodes))

        return await cluster.patiently(ask)

    @public
    async def describe_log_dirs(
        self, brokers: Iterable[int] | None = None
    ) -> Answers[int, Answers[str, LogDirDescription]]:
        """The data directories of these brokers, or of all, with what is in them."""
        cluster = self._cluster

        async def ask() -> Answers[int, Answers[str, LogDirDescription]]:
            await cluster.metadata([])
            wanted = sorted(cluster.nodes if brokers is None else brokers)
            return Answers(
                {node_id: Answers(await describe_log_dirs(cluster, node_id)) for node_id in wanted}
            )

        return await cluster.patiently(ask)

    @public
    async def describe_replica_log_dirs(
        self, replicas: Iterable[tuple[str, int, int]]
    ) -> Answers[TopicPartitionReplica, ReplicaLogDirInfo]:
        """Where these copies are, by topic, partition and broker."""
        wanted = [_replica(one, "replicas") for one in arguments.listed("replicas", replicas, _REPLICAS)]
        described = await self.describe_log_dirs({one.broker_id for one in wanted})
        found: Answers[TopicPartitionReplica, ReplicaLogDirInfo] = Answers()
        for one in wanted:
            now: tuple[str | None, int | None] = (None, None)
            later: tuple[str | None, int | None] = (None, None)
            for path, directory in described[one.broker_id].items():
                info = directory.replica_infos.get(TopicPartition(one.topic, one.partition))
                if info is not None and info.is_future:
                    later = path, info.offset_lag
                elif info is not None:
                    now = path, info.offset_lag
            found[one] = ReplicaLogDirInfo(*now, *later)
        return found

    @public
    async def alter_replica_log_dirs(self, directories: Mapping[R, str]) -> None:
        """Move copies to other directories of their brokers, by topic, partition and broker."""
        by_broker: dict[int, dict[str, dict[str, list[int]]]] = {}
        for replica, path in arguments.mapped(
            "directories", directories, "a mapping of copies to paths"
        ).items():
            one = _replica(replica, "directories")
            topics = by_broker.setdefault(one.broker_id, {}).setdefault(path, {})
            topics.setdefault(one.topic, []).append(one.partition)
        cluster = self._cluster
        answers: dict[TopicPartitionReplica, SemelError | None] = {}
        for broker_id, paths in by_broker.items():
            request = AlterReplicaLogDirsRequest(
                dirs=[
                    AlterReplicaLogDir(
                        path=path,
                        topics=[
                            AlterReplicaLogDirTopic(name=name, partitions=some)
                            for name, some in topics.items()
                        ],
                    )
                    for path, topics in paths.items()
                ]
            )
            for topic in (await cluster.send(request, node_id=broker_id)).results:
                for part in topic.partitions:
                    where = TopicPartitionReplica(topic.topic_name, part.partition_index, broker_id)
                    what = f"to move {topic.topic_name}-{part.partition_index} to another directory"
                    answers[where] = (
                        refused(part.error_code, what, by=cluster.where) if part.error_code else None
                    )
        settled(answers)

    @public
    async def describe_features(self) -> FeatureMetadata:
        """The features the brokers have and the levels the cluster agreed on: `transaction.version` and kin."""
        cluster = self._cluster

        async def ask() -> FeatureMetadata:
            answer = await cluster.send(
                ApiVersionsRequest(client_software_name="semel", client_software_version=__version__)
            )
            if answer.error_code:
                raise refused(answer.error_code, "to say what it serves", by=cluster.where)
            return FeatureMetadata(
                finalized_features=Answers(
                    {
                        one.name: FinalizedVersionRange(one.min_version_level, one.max_version_level)
                        for one in answer.finalized_features
                    }
                ),
                finalized_features_epoch=known(answer.finalized_features_epoch),
                supported_features=Answers(
                    {
                        one.name: FinalizedVersionRange(one.min_version, one.max_version)
                        for one in answer.supported_features
                    }
                ),
            )

        return await cluster.patiently(ask)

    @public
    async def update_features(
        self, levels: Mapping[str, int], *, allow_downgrade: bool = False, validate_only: bool = False
    ) -> None:
        """Agree on other levels of features; a lower one only if that is allowed."""
        timeout_ms = self._settings.request_timeout_ms
        safe_downgrade, upgrade = 2, 1
        request = UpdateFeaturesRequest(
            timeout_ms=timeout_ms,
            feature_updates=[
                FeatureUpdateKey(
                    feature=name,
                    max_version_level=level,
                    upgrade_type=safe_downgrade if allow_downgrade else upgrade,
                )
                for name, level in arguments.mapped(
                    "levels", levels, "a mapping of features to levels"
                ).items()
            ],
            validate_only=validate_only,
        )
        cluster = self._cluster

        async def order() -> None:
            answer = await cluster.send(request, node_id=await controller(cluster), timeout_ms=timeout_ms)
            if answer.error_code:
                raise refused(
                    answer.error_code, "to change features", by=cluster.where, reason=answer.error_message
                )
            for one in answer.results:
                if one.error_code:
                    what = f"to change feature {one.feature}"
                    raise refused(one.error_code, what, by=cluster.where, reason=one.error_message)

        await ordered(cluster, order)

    describeCluster = describe_cluster
    describeLogDirs = describe_log_dirs
    describeReplicaLogDirs = describe_replica_log_dirs
    alterReplicaLogDirs = alter_replica_log_dirs
    describeFeatures = describe_features
    updateFeatures = update_features


def _replica(given: object, argument: str) -> TopicPartitionReplica:
    if not isinstance(given, tuple | list) or len(given) != 3:
        raise arguments.refused(argument, given, "topic, partition and broker of a copy")
    topic, partition, broker_id = given
    return TopicPartitionReplica(
        *arguments.partition((topic, partition), argument),
        arguments.whole(f"{argument}: broker", broker_id, "a broker's number", most=arguments.INT32_MAX),
    )

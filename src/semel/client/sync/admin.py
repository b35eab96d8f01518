"""The admin client for callers without an event loop: `semel.Admin`.

Role.   The calls of `semel.aio.Admin`, each of them blocking until it is answered.
Rules.  Every call is the asynchronous one, run on the client's own loop: same arguments, same answers, same errors.
"""

# ruff: noqa: N815 - the aliases are Java's names.

import functools
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeVar

from semel.client.admin.client import AsyncAdmin
from semel.client.admin.core import CLOSED
from semel.client.config_keys import Given
from semel.client.metrics import MetricValues
from semel.client.settings import AdminConfig
from semel.client.sync.shell import Shell

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(
    call: Callable[Concatenate[AsyncAdmin, P], Coroutine[Any, Any, T]],
) -> "Callable[Concatenate[Admin, P], T]":
    """The call, carried to the client's loop and waited for."""

    @functools.wraps(call)
    def called(self: "Admin", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(call(self._core, *args, **kwargs))

    return called


class Admin(Shell):
    """Questions and orders to a cluster. Settings are Kafka's, as a mapping of dotted keys or as keywords."""

    KIND: ClassVar[str] = "admin client"
    CLOSED: ClassVar[str] = CLOSED

    def __init__(
        self, settings: Mapping[str, Given] | AdminConfig | None = None, /, **keywords: Given
    ) -> None:
        config = settings if isinstance(settings, AdminConfig) else AdminConfig.of(settings, **keywords)
        super().__init__()
        self._core = AsyncAdmin(config, runtime=self._runtime)

    @property
    def config(self) -> dict[str, Any]:
        """Every setting with the value that holds, under Kafka's names."""
        return self._core.config

    def metrics(self) -> MetricValues:
        """The metrics of the client."""
        return self._core.metrics()

    def close(self) -> None:
        """End the connections and the loop. Closing twice is harmless."""
        self._shut(self._core.close())

    def _give_up(self) -> None:
        self._core._give_up()

    create_topics = createTopics = _blocking(AsyncAdmin.create_topics)
    delete_topics = deleteTopics = _blocking(AsyncAdmin.delete_topics)
    list_topics = listTopics = _blocking(AsyncAdmin.list_topics)
    describe_topics = describeTopics = _blocking(AsyncAdmin.describe_topics)
    create_partitions = createPartitions = _blocking(AsyncAdmin.create_partitions)
    list_offsets = listOffsets = _blocking(AsyncAdmin.list_offsets)
    delete_records = deleteRecords = _blocking(AsyncAdmin.delete_records)
    elect_leaders = electLeaders = _blocking(AsyncAdmin.elect_leaders)
    alter_partition_reassignments = alterPartitionReassignments = _blocking(
        AsyncAdmin.alter_partition_reassignments
    )
    list_partition_reassignments = listPartitionReassignments = _blocking(
        AsyncAdmin.list_partition_reassignments
    )

    describe_configs = describeConfigs = _blocking(AsyncAdmin.describe_configs)
    incremental_alter_configs = incrementalAlterConfigs = _blocking(AsyncAdmin.incremental_alter_configs)
    list_config_resources = listConfigResources = _blocking(AsyncAdmin.list_config_resources)

    list_client_metrics_resources = listClientMetricsResources = _blocking(
        AsyncAdmin.list_client_metrics_resources
    )

    list_groups = listGroups = _blocking(AsyncAdmin.list_groups)
    list_consumer_groups = listConsumerGroups = _blocking(AsyncAdmin.list_consumer_groups)
    describe_groups = describe_consumer_groups = describeConsumerGroups = _blocking(
        AsyncAdmin.describe_consumer_groups
    )
    describe_classic_groups = describeClassicGroups = describe_consumer_groups
    delete_groups = delete_consumer_groups = deleteConsumerGroups = _blocking(
        AsyncAdmin.delete_consumer_groups
    )
    remove_members_from_consumer_group = removeMembersFromConsumerGroup = _blocking(
        AsyncAdmin.remove_members_from_consumer_group
    )
    list_consumer_group_offsets = listConsumerGroupOffsets = _blocking(AsyncAdmin.list_consumer_group_offsets)
    alter_consumer_group_offsets = alterConsumerGroupOffsets = _blocking(
        AsyncAdmin.alter_consumer_group_offsets
    )
    delete_consumer_group_offsets = deleteConsumerGroupOffsets = _blocking(
        AsyncAdmin.delete_consumer_group_offsets
    )

    list_transactions = listTransactions = _blocking(AsyncAdmin.list_transactions)
    describe_transactions = describeTransactions = _blocking(AsyncAdmin.describe_transactions)
    fence_producers = fenceProducers = _blocking(AsyncAdmin.fence_producers)
    force_terminate_transaction = forceTerminateTransaction = fence_producers
    abort_transaction = abortTransaction = _blocking(AsyncAdmin.abort_transaction)
    find_hanging_transactions = _blocking(AsyncAdmin.find_hanging_transactions)
    describe_producers = describeProducers = _blocking(AsyncAdmin.describe_producers)

    describe_cluster = describeCluster = _blocking(AsyncAdmin.describe_cluster)
    describe_log_dirs = describeLogDirs = _blocking(AsyncAdmin.describe_log_dirs)
    describe_replica_log_dirs = describeReplicaLogDirs = _blocking(AsyncAdmin.describe_replica_log_dirs)
    alter_replica_log_dirs = alterReplicaLogDirs = _blocking(AsyncAdmin.alter_replica_log_dirs)
    describe_features = describeFeatures = _blocking(AsyncAdmin.describe_features)
    update_features = updateFeatures = _blocking(AsyncAdmin.update_features)

    describe_client_quotas = describeClientQuotas = _blocking(AsyncAdmin.describe_client_quotas)
    alter_client_quotas = alterClientQuotas = _blocking(AsyncAdmin.alter_client_quotas)
    describe_user_scram_credentials = describeUserScramCredentials = _blocking(
        AsyncAdmin.describe_user_scram_credentials
    )
    alter_user_scram_credentials = alterUserScramCredentials = _blocking(
        AsyncAdmin.alter_user_scram_credentials
    )
    describe_acls = describeAcls = _blocking(AsyncAdmin.describe_acls)
    create_acls = createAcls = _blocking(AsyncAdmin.create_acls)
    delete_acls = deleteAcls = _blocking(AsyncAdmin.delete_acls)

"""The group coordinator: the host of __consumer_offsets, and what handlers ask of it.

Role.   Handlers of every group API call `ask` with the group's id and an operation of `GroupShard`.
Flow.   handler -> ask -> host -> shard; the answer comes back at once or is awaited.
Rules.  * Settings that change while the broker runs reach every shard.
        * Offsets of topics that were deleted follow them.
        * The code of shards is imported with the first shard: a broker without groups starts without it.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Never, TypeVar

from semel.broker.config import BrokerConfig
from semel.broker.coordinators.host import CoordinatorHost
from semel.broker.coordinators.internal_topics import create_internal_topic
from semel.broker.coordinators.tickets import answered
from semel.broker.partitions import Partitions
from semel.cluster.store import MetadataStore
from semel.core.coordination.outcome import Ticket
from semel.core.groups.consumer.assignor_names import assignor_names
from semel.core.groups.group import GroupOutcome, Groups, GroupSettings
from semel.core.groups.rows import GROUP_ROW_TIMES, GROUP_ROWS, MEMBER_GROUP_ROWS, OFFSETS_TOPIC
from semel.core.records.codecs import Compression
from semel.core.wire.message import Response
from semel.errors import ConfigError, ErrorCode
from semel.runtime.bundle import Runtime

if TYPE_CHECKING:
    from semel.core.groups.shard import GroupShard

R = TypeVar("R", bound=Response)
_MINUTE_MS: Final = 60_000


class GroupCoordinator:
    """Every group of this broker."""

    def __init__(
        self, config: BrokerConfig, runtime: Runtime, store: MetadataStore, partitions: Partitions
    ) -> None:
        self._settings = group_settings(config)
        self._store = store
        compression: Any = config.value("offsets.topic.compression.codec")
        if compression not in set(Compression):
            raise ConfigError(f"offsets.topic.compression.codec={compression}: use 0 to 4, 0 for none")
        partitions_count: Any = config.value("offsets.topic.num.partitions")
        replication_factor: Any = config.value("offsets.topic.replication.factor")
        create = partial(
            create_internal_topic,
            store,
            runtime,
            name=OFFSETS_TOPIC,
            partitions_count=partitions_count,
            replication_factor=replication_factor,
            configs={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.value("offsets.topic.segment.bytes")),
            },
        )
        self.host: CoordinatorHost[GroupShard, Never] = CoordinatorHost(
            topic=OFFSETS_TOPIC,
            row_format=MEMBER_GROUP_ROWS if store.image.is_told else GROUP_ROWS,
            make_shard=self._make_shard,
            create_topic=create,
            partitions=partitions,
            runtime=runtime,
            compression=compression,
            row_times=GROUP_ROW_TIMES,
        )

    @property
    def settings(self) -> GroupSettings:
        """The settings of groups now."""
        return self._settings

    def _make_shard(self, _index: int) -> "GroupShard":
        from semel.core.groups.shard import GroupShard

        image = self._store.image
        return GroupShard(Groups(image, self._settings, own_settings=image.group_configs))

    def start(self) -> None:
        """Begin to load what is there."""
        self.host.start()

    def stop(self) -> None:
        """Answer every waiting caller."""
        self.host.stop()

    def use(self, config: BrokerConfig) -> None:
        """Let changed settings take effect."""
        self._settings = group_settings(config)
        for shard in self.host.shards:
            shard.shared.settings = self._settings

    def topics_gone(self) -> None:
        """Topics were deleted: their offsets go too. Shards that are loaded later look for themselves."""
        for index in self.host.led:
            self.host.tell(index, _topics_gone)

    def ask(
        self,
        group_id: str,
        operation: "Callable[[GroupShard, Ticket, int], GroupOutcome]",
        expected: type[R],
        refused: Callable[[ErrorCode], R],
    ) -> R | Awaitable[R]:
        """Let the group's shard decide. `refused` makes the response that carries a code for all that was asked."""
        return answered(self.host.ask(group_id, operation), expected, refused)


def _topics_gone(shard: "GroupShard", now_ms: int) -> GroupOutcome:
    shard.topics_gone(now_ms)
    return GroupOutcome()


def group_settings(config: BrokerConfig) -> GroupSettings:
    """The settings of groups, out of the broker's."""
    value: Callable[[str], Any] = config.value
    return GroupSettings(
        offset_metadata_max_bytes=value("offset.metadata.max.bytes"),
        offsets_retention_ms=value("offsets.retention.minutes") * _MINUTE_MS,
        offsets_retention_check_interval_ms=value("offsets.retention.check.interval.ms"),
        group_min_session_timeout_ms=value("group.min.session.timeout.ms"),
        group_max_session_timeout_ms=value("group.max.session.timeout.ms"),
        group_initial_rebalance_delay_ms=value("group.initial.rebalance.delay.ms"),
        group_max_size=value("group.max.size"),
        group_consumer_session_timeout_ms=value("group.consumer.session.timeout.ms"),
        group_consumer_heartbeat_interval_ms=value("group.consumer.heartbeat.interval.ms"),
        group_consumer_max_size=value("group.consumer.max.size"),
        group_consumer_assignors=assignor_names(value("group.consumer.assignors")),
        group_consumer_migration_policy=value("group.consumer.migration.policy").lower(),
        group_consumer_regex_refresh_interval_ms=value("group.consumer.regex.refresh.interval.ms"),
        group_consumer_assignment_interval_ms=value("group.consumer.assignment.interval.ms"),
    )

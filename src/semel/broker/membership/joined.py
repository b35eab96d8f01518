"""A broker's place in a cluster: its membership put together, kept going, and left.

Role.   Everything that a member has and a broker alone has not. `app` makes one where `zookeeper.connect` is set.
Flow.   `connect`: session, cluster id, broker id, settings -> the logs are opened -> `attach`: fetchers, proposals, orders -> the port
        is open -> `register`: from now on the controller sends orders -> `look`, from time to time.
        `shut_down`: the controller moves what is led here -> the broker stops -> `leave` ends the session, last of all.
Rules.  * Nothing is ordered before the broker is registered, and it registers when it can obey.
        * Followers that fall behind are proposed to leave the ISR every half of `replica.lag.time.max.ms`, as in Kafka.
        * A log that goes offline loses its role, and is told to the controller until that has worked: another replica leads then.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from semel.broker.config import BrokerConfig
from semel.broker.member_producer_ids import MemberProducerIds
from semel.broker.membership.applier import MemberApplier
from semel.broker.membership.orders import Orders
from semel.broker.partitions import Partitions, Quiet
from semel.broker.parts import Membership
from semel.broker.replicas.fetchers import Fetchers
from semel.broker.replicas.followed_partition import FollowedPartition
from semel.broker.replicas.led_partition import LedPartition
from semel.broker.replicas.log_cuts import LogCuts
from semel.cluster.controlled_shutdown import ShutdownSettings, shut_down
from semel.cluster.controller.loop import Controller, Standing
from semel.cluster.controller_channel import ControllerChannel
from semel.cluster.isr_changes import IsrChanges
from semel.cluster.member import Member
from semel.cluster.producer_id_blocks import ProducerIdBlocks
from semel.cluster.store import ChangeRefusedError
from semel.cluster.zookeeper.settings import settings_of
from semel.cluster.zookeeper_store import ZooKeeperStore
from semel.core.cluster.controller.term import Settings
from semel.core.cluster.versions import BETWEEN_BROKERS
from semel.core.metadata.brokers import Endpoint, RegisteredBroker
from semel.core.metadata.image import MetadataImage
from semel.core.replication.leading import Proposal
from semel.errors import ConfigError, SemelError
from semel.log import identity
from semel.log.checkpoints import encode_uuid
from semel.log.directory import LogDirectory
from semel.log.identity import Kind
from semel.net.link import LinkConfig
from semel.net.security import PLAINTEXT, Security
from semel.runtime.bundle import Runtime
from semel.runtime.randomness import random_uuid
from semel.types import Address, TopicPartition

_logger: Final = logging.getLogger(__name__)
_RESPONSE_BYTES_MAX: Final = 16 << 20
"""Of the controller's answers: some bytes for each partition that was asked about."""

_TWO_PHASES: Final = "transaction.two.phase.commit.enable"


class _LinkConfig:
    """The settings of links to the controller."""

    def __init__(self, config: BrokerConfig) -> None:
        self.client_id = str(config.node_id)
        self.request_timeout_ms = _number(config, "controller.socket.timeout.ms")
        self.socket_connection_setup_timeout_ms = _number(config, "socket.connection.setup.timeout.ms")
        self.response_max_bytes = _RESPONSE_BYTES_MAX
        self.security: Security = PLAINTEXT


class Joined:
    """One broker's membership."""

    def __init__(self, config: BrokerConfig, runtime: Runtime, member: Member, cluster_id: str) -> None:
        self.config: Final = config
        """With the broker's id, also where the cluster gave it."""
        self.cluster_id: Final = cluster_id
        self._runtime = runtime
        self._settings: Callable[[], BrokerConfig] | None = None
        """The settings now, once there are any beside those of the start."""
        self.store: Final = ZooKeeperStore(
            member,
            broker_id=config.node_id,
            protocols={config.listener.name: "PLAINTEXT"},
            supported_features={},
        )
        self.assigned: Final = MetadataImage()
        """The topics with the partitions whose replicas are to be here, as controllers ordered."""
        link = _LinkConfig(config)
        # As Kafka's: a request of one kind that is answered late holds up none of another.
        to_controller = partial(
            ControllerChannel, runtime, link=link, controller=self._controller, node_id=config.node_id
        )
        self._altering, self._forwarding = to_controller(), to_controller()
        self._leaving = to_controller(served=BETWEEN_BROKERS)
        self._channels = (self._altering, self._forwarding, self._leaving)
        self._isr_changes = IsrChanges(
            runtime, self._altering, node_id=config.node_id, broker_epoch=self.broker_epoch
        )
        blocks = ProducerIdBlocks(
            runtime, self._forwarding, node_id=config.node_id, broker_epoch=self.broker_epoch
        )
        self.producer_ids: Final = MemberProducerIds(blocks, runtime.tasks)
        self._attached: _Attached | None = None
        self._has_untold = False
        """Whether logs went offline that the controller may not know of."""
        self.controller: Final = (
            self._standing(member, link) if config.value("semel.controller.eligible") else None
        )
        """Of a broker that stands for election."""
        if self.controller is not None:
            self.store.controls = self.controller.has_office

    def _standing(self, member: Member, link: LinkConfig) -> Controller:
        standing = Standing(self.config.node_id, link, self._controller_settings, self._balance_seconds)
        return Controller(self._runtime, member, standing)

    def _controller_settings(self) -> Settings:
        config = self.config if self._settings is None else self._settings()
        return Settings(
            node_id=self.config.node_id,
            listener=self.config.listener.name,
            unclean_leader_election_enable=bool(config.value("unclean.leader.election.enable")),
            delete_topic_enable=bool(config.value("delete.topic.enable")),
            leader_imbalance_per_broker_percentage=_number(config, "leader.imbalance.per.broker.percentage"),
        )

    def _balance_seconds(self) -> float | None:
        if not self.config.value("auto.leader.rebalance.enable"):
            return None
        return _number(self.config, "leader.imbalance.check.interval.seconds")

    @classmethod
    async def connect(
        cls, config: BrokerConfig, runtime: Runtime, *, on_fatal: Callable[[SemelError], object]
    ) -> "Joined":
        """Find the cluster, and this broker's place in it. Raises `SemelError` with the way out.

        `on_fatal` is told later why the broker cannot stay.
        """
        if config.value(_TWO_PHASES):
            raise ConfigError(
                f"{_TWO_PHASES}=true: a cluster under ZooKeeper has no two-phase commit, for the leaders on Kafka's brokers do not "
                "know of it; set it to false, or start this broker alone (without zookeeper.connect)"
            )
        member = Member(runtime, settings_of(config.value), on_fatal=on_fatal)
        try:
            known = identity.read(runtime.files, config.data_dir)
            if known is not None and known.kind is Kind.ALONE:
                raise ConfigError(identity.other_kind(config.data_dir, known))
            await member.connect()
            cluster_id = await member.cluster_id(
                encode_uuid(random_uuid(runtime.dice)), known=None if known is None else known.cluster_id
            )
            if "node.id" not in config.static:
                broker_id = known.broker_id if known is not None else await _generated_id(config, member)
                config = replace(config, node_id=broker_id)
            joined = cls(config, runtime, member, cluster_id)
            await joined.store.start()
        except BaseException:
            await member.close()
            raise
        return joined

    def open_directory(self) -> LogDirectory:
        """Lock the data directory, which must be this broker's in this cluster."""
        return LogDirectory.open(
            self._runtime.files,
            self.config.data_dir,
            node_id=self.config.node_id,
            cluster_id=self.cluster_id,
            kind=Kind.MEMBER,
        )

    def attach(
        self,
        directory: LogDirectory,
        partitions: Partitions,
        applier: MemberApplier,
        quiet: Quiet,
        settings: Callable[[], BrokerConfig],
    ) -> Membership:
        """Put together the parts that need the logs."""
        config = self.config
        self._settings = settings
        attached = self._attached = _Attached(
            directory,
            partitions,
            Orders(
                node_id=config.node_id,
                runtime=self._runtime,
                assigned=self.assigned,
                partitions=partitions,
                roles=applier,
                quiet=quiet,
                broker_epoch=self.broker_epoch,
                load_configs=self.store.load_topic_configs,
            ),
            self._isr_changes,
            Fetchers(
                self._runtime,
                node_id=config.node_id,
                broker_epoch=self.broker_epoch,
                brokers=self.store.image.brokers,
                listener=config.listener.name,
                settings=settings,
                cuts=LogCuts(directory, quiet, self._runtime),
                on_failure=self._follower_failed,
            ),
        )
        partitions.replication = attached
        applier.on_brokers.append(attached.brokers_changed)
        applier.on_controller.extend(one.controller_changed for one in self._channels)
        applier.on_reconfigured.append(lambda _config: attached.fetchers.settings_changed())
        if self.controller is not None:
            applier.on_unclean_elections.append(self.controller.unclean_elections_allowed)
        return Membership(attached.orders, self.store, attached.fetchers, self.controller)

    async def register(self, host: str, port: int) -> None:
        """Be a member from now on. Raises `SemelError` if another broker has this id, or this endpoint."""
        rack = self.config.value("broker.rack")
        await self.store.register(
            RegisteredBroker(
                self.config.node_id,
                {self.config.listener.name: Endpoint(host, port)},
                rack=None if rack is None else str(rack),
            )
        )
        if self._attached is not None:
            self._attached.directory.claim()
            self._attached.orders.begin()
        if self.controller is not None:
            self.store.registration.on_epoch.append(self.controller.registered)
            self.controller.start()

    def broker_epoch(self) -> int:
        """Which life of this broker it is; -1 before it is registered."""
        return self.store.broker_epoch

    def _controller(self) -> Address | None:
        image = self.store.image
        broker = image.brokers.get(image.controller_id)
        endpoint = None if broker is None else broker.on(self.config.listener.name)
        return None if endpoint is None else Address(*endpoint)

    # From time to time

    @property
    def look_interval_ms(self) -> float:
        """Half of the time after which a follower is behind."""
        return max(1.0, _number(self.config, "replica.lag.time.max.ms") / 2)

    async def look(self) -> None:
        """Have followers that are behind leave the ISR."""
        if self._attached is not None:
            for replica in list(self._attached.partitions):
                if replica.leader is not None:
                    replica.leader.look()

    async def look_at_disk(self) -> None:
        """Tell the controller of logs that have gone offline."""
        attached = self._attached
        if attached is None:
            return
        failed = [
            replica.log.topic_partition
            for replica in attached.partitions
            if replica.log.offline is not None
            and (replica.leader is not None or replica.follower is not None)
        ]
        if failed:
            self._give_up(failed)
            self._has_untold = True
        if self._has_untold:
            try:
                await self.store.tell_of_failed_logs()
            except ChangeRefusedError as error:
                _logger.error("the controller does not know yet of logs that are offline here: %s", error)
            else:
                self._has_untold = False

    def _follower_failed(self, partition: FollowedPartition, error: Exception) -> None:
        if partition.log.offline is None:
            partition.log.offline = f"it cannot follow its leader ({error}); load the log again"

    def _give_up(self, failed: list[TopicPartition]) -> None:
        attached = self._attached
        if attached is None:
            return
        for topic_partition in failed:
            attached.partitions.give_up(topic_partition)
        for topic in dict.fromkeys(one.topic for one in failed):
            attached.orders.roles.coordinate(topic)
        _logger.error(
            "offline, which the controller is to hear of: %s", ", ".join(str(one) for one in failed)
        )

    # The end

    async def shut_down(self) -> None:
        """Have the controller move what is led here; then follow no more."""
        attached = self._attached
        if attached is not None:
            attached.is_stopping = True
            if self.broker_epoch() >= 0:
                await shut_down(
                    self._runtime,
                    self._leaving,
                    _shutdown_settings(self.config),
                    node_id=self.config.node_id,
                    broker_epoch=self.broker_epoch,
                )
            await attached.fetchers.close()
        if self.controller is not None:
            await self.controller.close()
        for channel in self._channels:
            await channel.close()

    async def leave(self) -> None:
        """End the session: the broker is no member any more."""
        if self.controller is not None:
            await self.controller.close()
        await self.store.close()


class _Attached:
    """The parts that need the logs; the way from replicas here to the controller and to leaders elsewhere."""

    def __init__(
        self,
        directory: LogDirectory,
        partitions: Partitions,
        orders: Orders,
        isr_changes: IsrChanges,
        fetchers: Fetchers,
    ) -> None:
        self.directory = directory
        self.partitions = partitions
        self.orders = orders
        self.fetchers = fetchers
        self.is_stopping = False
        self._isr_changes = isr_changes

    def propose(self, partition: LedPartition, proposal: Proposal) -> None:
        self._isr_changes.propose(
            partition.log.topic_partition,
            partition.topic_id,
            proposal,
            lambda answer: partition.altered(proposal, answer),
        )

    def lead_no_more(self, partition: LedPartition) -> None:
        self._isr_changes.forget(partition.log.topic_partition)

    def follow(self, partition: FollowedPartition) -> None:
        if self.is_stopping:
            self.fetchers.stop(partition)  # Else it would be proposed for the ISR, again and again.
        else:
            self.fetchers.follow(partition)

    def stop(self, partition: FollowedPartition) -> None:
        self.fetchers.stop(partition)

    def brokers_changed(self) -> None:
        self.fetchers.brokers_changed()
        for replica in list(self.partitions):
            if replica.leader is not None:
                replica.leader.brokers_changed()


async def _generated_id(config: BrokerConfig, member: Member) -> int:
    """A broker id that nobody had. Raises `ConfigError` where none may be given."""
    if not config.value("broker.id.generation.enable"):
        raise ConfigError("broker.id is not given, and broker.id.generation.enable=false: set broker.id")
    return await member.generated_broker_id(_number(config, "reserved.broker.max.id"))


def _shutdown_settings(config: BrokerConfig) -> ShutdownSettings:
    return ShutdownSettings(
        enable=bool(config.value("controlled.shutdown.enable")),
        max_retries=_number(config, "controlled.shutdown.max.retries"),
        retry_backoff_ms=_number(config, "controlled.shutdown.retry.backoff.ms"),
        timeout_ms=_number(config, "controller.socket.timeout.ms"),
    )


def _number(config: BrokerConfig, key: str) -> int:
    value: Any = config.value(key)
    if not isinstance(value, int):
        raise TypeError(f"{key}={value!r} is not a number")
    return value

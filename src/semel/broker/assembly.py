"""The parts of a broker put together, once its data directory is locked: the logs are opened, the metadata is carried out.

Role.   `alone` builds a broker whose metadata is a log of its own, `member` one whose metadata is in ZooKeeper. `app` calls one of them.
Flow.   settings -> logs -> coordinators -> the applier follows the metadata -> `Parts`.
Rules.  * Nothing is served here, and no port is opened.
        * A broker alone leads in no epoch that a lost record may have had. A member leads in the epochs that its controller says.
"""

import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from semel.broker.cleaner import Cleaner
from semel.broker.config import BrokerConfig
from semel.broker.coordinators.groups import GroupCoordinator
from semel.broker.coordinators.transactions import TransactionCoordinator
from semel.broker.fetch_sessions import FetchSessions
from semel.broker.metadata_applier import MetadataApplier, as_changed
from semel.broker.metrics.counts import Metrics
from semel.broker.partitions import Partitions
from semel.broker.parts import (
    Administration,
    Coordinators,
    LiveConfig,
    Membership,
    Parts,
    ProducePath,
    ReadPath,
)
from semel.broker.producer_ids import ProducerIdGiver, ProducerIds
from semel.cluster.standalone import METADATA_CONFIG, StandaloneStore
from semel.cluster.store import MetadataStore
from semel.core.metadata.broker_configs import without_effect
from semel.core.metadata.rows import ClusterRow, LeaderEpochRow
from semel.core.metadata.topic_names import METADATA_TOPIC
from semel.errors import ConfigError
from semel.log.checkpoints import encode_uuid
from semel.log.directory import LogDirectory
from semel.runtime.bundle import Runtime
from semel.runtime.randomness import random_uuid
from semel.types import TopicPartition

if TYPE_CHECKING:
    from semel.broker.membership.joined import Joined

_logger: Final = logging.getLogger(__name__)
_METADATA: Final = TopicPartition(METADATA_TOPIC, 0)


class Assembled(NamedTuple):
    """A broker that is ready to listen."""

    parts: Parts
    applier: MetadataApplier


async def alone(config: BrokerConfig, runtime: Runtime, directory: LogDirectory) -> Assembled:
    """A broker without a cluster."""
    log = directory.load(_METADATA, METADATA_CONFIG, runtime.clock.now_ms())
    log.advance_high_watermark(log.log_end_offset)
    store = StandaloneStore(log, runtime.tasks, runtime.clock, broker_id=config.node_id)
    cluster_id = store.image.cluster_id
    is_old = cluster_id is not None
    if cluster_id is None:
        cluster_id = directory.cluster_id or encode_uuid(random_uuid(runtime.dice))
        await store.commit([ClusterRow(cluster_id)])
    elif directory.cluster_id != cluster_id:
        raise ConfigError(
            f"{directory.path} is of two clusters: meta.properties says cluster.id={directory.cluster_id}, its "
            f"metadata {cluster_id}; bring the right files back, set cluster.id={cluster_id} if they are, or use "
            "another log.dirs"
        )
    config = as_changed(config, store.image)
    _announce(config, directory, is_old=is_old)
    partitions = Partitions(directory, store.image, config, runtime)
    await partitions.load()
    await _raise_leader_epochs(store, partitions, unclean=is_old and not directory.was_clean)
    parts = _Building(config, runtime, directory, store, partitions, ProducerIds(store), cluster_id)
    applier = MetadataApplier(
        config,
        store.image,
        partitions=partitions,
        cleaner=parts.cleaner,
        groups=parts.groups,
        transactions=parts.transactions,
    )
    applier.on_reconfigured.append(parts.settings.use)
    for topic, error in (await store.feed(applier)).items():
        _logger.error("topic %s is not complete, which is tried again: %s", topic, error)
    return Assembled(parts.done(), applier)


async def member(joined: "Joined", runtime: Runtime, directory: LogDirectory) -> Assembled:
    """A broker of a cluster under ZooKeeper; the orders come once it is registered."""
    from semel.broker.membership.applier import MemberApplier

    store = joined.store
    config = as_changed(joined.config, store.image)
    is_old = bool(directory.begin_load())
    _announce(config, directory, is_old=is_old)
    partitions = Partitions(directory, store.image, config, runtime, assigned=joined.assigned)
    await partitions.load()
    parts = _Building(config, runtime, directory, store, partitions, joined.producer_ids, joined.cluster_id)
    applier = MemberApplier(
        config,
        store.image,
        partitions=partitions,
        cleaner=parts.cleaner,
        groups=parts.groups,
        transactions=parts.transactions,
        assigned=joined.assigned,
    )
    applier.on_reconfigured.append(parts.settings.use)
    applier.on_brokers.append(parts.transactions.brokers_changed)
    membership = joined.attach(
        directory, partitions, applier, parts.cleaner.paused, lambda: parts.settings.current
    )
    await store.feed(applier)
    return Assembled(parts.done(membership), applier)


class _Building:
    """The parts that both kinds of brokers have."""

    def __init__(
        self,
        config: BrokerConfig,
        runtime: Runtime,
        directory: LogDirectory,
        store: MetadataStore,
        partitions: Partitions,
        producer_ids: ProducerIdGiver,
        cluster_id: str,
    ) -> None:
        self._runtime = runtime
        self._store = store
        self._partitions = partitions
        self._producer_ids = producer_ids
        self._cluster_id = cluster_id
        self.groups = GroupCoordinator(config, runtime, store, partitions)
        self.transactions = TransactionCoordinator(
            config, runtime, store, partitions, producer_ids, self.groups
        )
        self.settings = LiveConfig(config)
        self.cleaner = Cleaner(directory, runtime, lambda: self.settings.current)

    def done(self, membership: Membership | None = None) -> Parts:
        settings, runtime, store, partitions = self.settings, self._runtime, self._store, self._partitions
        config = settings.current
        sessions = FetchSessions(config.max_incremental_fetch_session_cache_slots, runtime.dice)
        return Parts(
            produce=ProducePath(settings, runtime, partitions, self.transactions, Metrics()),
            read=ReadPath(settings, runtime, store.image, partitions, sessions),
            coordinators=Coordinators(
                config.node_id, runtime, store.image, self.groups, self.transactions, self._producer_ids
            ),
            administration=Administration(
                config.node_id, self._cluster_id, settings, runtime, store, partitions
            ),
            cleaner=self.cleaner,
            membership=membership,
        )


def _announce(config: BrokerConfig, directory: LogDirectory, *, is_old: bool) -> None:
    if idle := without_effect({**config.static, **config.dynamic}):
        _logger.warning("these settings are accepted but not implemented: %s", ", ".join(idle))
    if is_old and not directory.was_clean:
        _logger.info("%s was not closed cleanly: its logs are recovered", directory.path)


async def _raise_leader_epochs(store: StandaloneStore, partitions: Partitions, *, unclean: bool) -> None:
    """Lead in no epoch a lost record may have had, and in none that lies behind a log: it may be from another broker."""
    epoch = partitions.leader_epoch_ahead()
    if unclean:
        epoch = 1 + max(store.image.leader_epoch_max, partitions.highest_leader_epoch())
    if epoch > 0:
        await store.commit([LeaderEpochRow(epoch)])

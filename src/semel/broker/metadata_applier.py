"""Consequences of the metadata: deltas carried out on partitions, coordinators, listeners and settings.

Role.   `MetadataApplier` is the one place where a change of the metadata becomes a change of this broker.
Flow.   The store gives it a snapshot when the broker starts, and after that every change, once it is durable. A handler that
        committed a change waits for `apply`, so its answer leaves when the change has taken effect here.
Rules.  * The origin of a change does not matter: a delta names the difference, and the image says how things are now.
        * Consequences that need no disk are carried out in the order of the deltas, before the first wait: no later change
          overtakes them.
        * A topic that the disk refuses stops no other. It is returned to the committer, and housekeeping tries it again.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from semel.broker.cleaner import Cleaner
from semel.broker.config import BrokerConfig
from semel.broker.coordinators.groups import GroupCoordinator
from semel.broker.coordinators.host import CoordinatorHost
from semel.broker.coordinators.transactions import TransactionCoordinator
from semel.broker.partitions import Partitions
from semel.core.metadata.deltas import (
    BrokerConfigured,
    BrokerGone,
    BrokerRegistered,
    ClusterNamed,
    ControllerChanged,
    CredentialChanged,
    Delta,
    FeatureChanged,
    GroupConfigured,
    LeaderEpochsRaised,
    PartitionsChanged,
    ProducerIdsReserved,
    QuotasChanged,
    TopicAdded,
    TopicConfigured,
    TopicRemoved,
)
from semel.core.metadata.image import DEFAULT_BROKER, MetadataImage
from semel.core.metadata.rows import TopicRow
from semel.errors import ConfigError

_logger: Final = logging.getLogger(__name__)


def as_changed(config: BrokerConfig, image: MetadataImage) -> BrokerConfig:
    """The broker's configuration, with the settings that the metadata changes."""
    changed = {**image.broker_configs(DEFAULT_BROKER), **image.broker_configs(str(config.node_id))}
    return config if changed == config.dynamic else config.with_dynamic(changed)


class MetadataApplier:
    """This broker, as the metadata moves it."""

    def __init__(
        self,
        config: BrokerConfig,
        image: MetadataImage,
        *,
        partitions: Partitions,
        cleaner: Cleaner,
        groups: GroupCoordinator,
        transactions: TransactionCoordinator,
        assigned: MetadataImage | None = None,
    ) -> None:
        """`assigned`: of a member of a cluster, the topics with the partitions whose replicas are to be here."""
        self._config = config
        self._image = image
        self._assigned = image if assigned is None else assigned
        self.partitions = partitions
        self._cleaner = cleaner
        self.groups = groups
        self._hosts: dict[str, CoordinatorHost[Any, Any]] = {}
        self.drive(groups.host)
        self.drive(transactions.host)
        self.on_reconfigured: list[Callable[[BrokerConfig], object]] = [
            partitions.use,
            groups.use,
            transactions.use,
        ]
        """Called with the new configuration when a setting of the broker has changed."""

    def drive(self, host: CoordinatorHost[Any, Any]) -> None:
        """Have the host's coordinators come and go with the leadership of their topic's partitions."""
        self._hosts[host.topic] = host
        self._lead(host)

    async def apply(self, deltas: Sequence[Delta]) -> dict[str, OSError]:
        """Carry out the consequences; returns the topics that the disk refused, and why."""
        to_make: dict[str, TopicRow] = {}
        to_remove: list[TopicRow] = []
        for delta in deltas:
            match delta:
                case TopicAdded(topic):
                    to_make[topic.name] = topic
                case PartitionsChanged(topic, indexes):
                    self.change_roles(topic.name, indexes)
                    to_make[topic.name] = topic
                case TopicRemoved(topic):
                    to_remove.append(topic)
                case TopicConfigured(topic):
                    self.partitions.reconfigure(topic.name)
                case BrokerConfigured():
                    self.reconfigure()
                case (
                    ClusterNamed()
                    | LeaderEpochsRaised()
                    | BrokerRegistered()
                    | BrokerGone()
                    | ControllerChanged()
                    | GroupConfigured()
                    | QuotasChanged()
                    | CredentialChanged()
                    | FeatureChanged()
                    | ProducerIdsReserved()
                ):
                    pass  # Readers ask the image.
        failed: dict[str, OSError] = {}
        if to_remove:
            failed |= await self._remove(to_remove)
        if to_make:
            failed |= await self.partitions.make(list(to_make.values()))
            for name in to_make:
                self.coordinate(name)
        return failed

    def change_roles(self, name: str, indexes: Sequence[int]) -> None:
        """Without a wait: a leader or coordinator that lost its role serves no further request."""
        topic = self._assigned.topic(name)
        if topic is not None:
            self.partitions.change_roles(topic, indexes)
        self.coordinate(name)

    def coordinate(self, topic: str) -> None:
        """Have the coordinators of a topic's partitions come and go, if it is one of theirs."""
        if (host := self._hosts.get(topic)) is not None:
            self._lead(host)

    async def complete(self) -> None:
        """Try again to make the partitions that the disk refused."""
        await self.partitions.complete()
        for host in self._hosts.values():
            self._lead(host)

    def _lead(self, host: CoordinatorHost[Any, Any]) -> None:
        """Tell a host which partitions are led here by now, and which are not."""
        row = self._assigned.topic(host.topic)
        if row is None:
            host.forget()
            return
        for index, state in enumerate(row.states):
            if not state.is_known:
                host.forget(index)
            elif self.partitions.get(host.topic, index) is None:
                host.resign(index, state.leader_epoch)
            else:
                host.lead(index, state.leader_epoch)

    def reconfigure(self) -> None:
        """Let the broker's settings take effect as the metadata changes them. Settings that contradict each other change nothing."""
        try:
            config = as_changed(self._config, self._image)
        except ConfigError as error:
            _logger.error("the changed settings of this broker do not take effect: %s", error)
            return
        if config is not self._config:
            self._config = config
            for use in self.on_reconfigured:
                use(config)

    async def _remove(self, topics: Sequence[TopicRow]) -> dict[str, OSError]:
        doomed = self.partitions.take_out(topics)
        for topic in topics:
            if (host := self._hosts.get(topic.name)) is not None:
                host.forget()
                self._lead(host)  # If there is a later topic of its name.
        self.groups.topics_gone()  # Now: when the disk is done there may be others of these names.
        try:
            await self.partitions.remove(doomed, self._cleaner.paused)
        except OSError as error:
            return dict.fromkeys([topic.name for topic in topics], error)
        return {}

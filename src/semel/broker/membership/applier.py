"""Consequences of a member's metadata: everything but the roles of replicas, which the controller orders.

Role.   The applier of a member's store. Brokers come and go, settings change, topics go: it tells the parts concerned.
Flow.   UpdateMetadata and ZooKeeper's notifications change the image, whose deltas come to `apply`. `orders` calls `change_roles` and
        `coordinate` for what LeaderAndIsr and StopReplica say.
Rules.  * A topic in the metadata makes no log, and one that is gone removes none: these are orders of their own.
        * Offsets of groups for topics that are gone are removed.
        * As in Kafka, settings of a topic that allow unclean elections count each time any of them is changed; the broker's count when
          they begin to allow it.
"""

from collections.abc import Callable, Sequence
from typing import Final

from semel.broker.cleaner import Cleaner
from semel.broker.config import BrokerConfig
from semel.broker.coordinators.groups import GroupCoordinator
from semel.broker.coordinators.transactions import TransactionCoordinator
from semel.broker.metadata_applier import MetadataApplier
from semel.broker.partitions import Partitions
from semel.core.metadata.deltas import (
    BrokerConfigured,
    BrokerGone,
    BrokerRegistered,
    ControllerChanged,
    Delta,
    TopicConfigured,
    TopicRemoved,
)
from semel.core.metadata.image import MetadataImage

_UNCLEAN: Final = "unclean.leader.election.enable"


class MemberApplier(MetadataApplier):
    """A member of a cluster, as the metadata moves it."""

    def __init__(
        self,
        config: BrokerConfig,
        image: MetadataImage,
        *,
        partitions: Partitions,
        cleaner: Cleaner,
        groups: GroupCoordinator,
        transactions: TransactionCoordinator,
        assigned: MetadataImage,
    ) -> None:
        """`assigned`: the topics with the partitions whose replicas are to be here."""
        super().__init__(
            config,
            image,
            partitions=partitions,
            cleaner=cleaner,
            groups=groups,
            transactions=transactions,
            assigned=assigned,
        )
        self.on_brokers: list[Callable[[], object]] = []
        """Called when other brokers are alive than before, or are reached in another way."""
        self.on_controller: list[Callable[[], object]] = []
        """Called when another broker is the controller, or is reached in another way."""
        self.on_unclean_elections: list[Callable[[str | None], object]] = []
        """Called with the topic whose settings allow unclean elections; with None where the broker's do."""

    async def apply(self, deltas: Sequence[Delta]) -> dict[str, OSError]:
        """Carry out the consequences. The disk is not asked, so that it cannot refuse."""
        kinds = {type(delta) for delta in deltas}
        for delta in deltas:
            if isinstance(delta, TopicConfigured):
                self.partitions.reconfigure(delta.topic.name)
                if delta.topic.configs.get(_UNCLEAN, "").strip().lower() == "true":
                    self._unclean_elections(delta.topic.name)
        if BrokerConfigured in kinds:
            before = self._config.value(_UNCLEAN)
            self.reconfigure()
            if self._config.value(_UNCLEAN) and not before:
                self._unclean_elections(None)
        if BrokerRegistered in kinds or BrokerGone in kinds:
            for told in self.on_brokers:
                told()
        if ControllerChanged in kinds or BrokerRegistered in kinds:
            for told in self.on_controller:
                told()
        if TopicRemoved in kinds:
            self.groups.topics_gone()
        return {}

    def _unclean_elections(self, topic: str | None) -> None:
        for told in self.on_unclean_elections:
            told(topic)

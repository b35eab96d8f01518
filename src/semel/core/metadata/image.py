"""Brokers, topics, partitions, settings and ids as they are now: the sum of all changes.

Role.   Handlers read it. `apply` is the only method that changes it, and it cannot fail; it returns the deltas that the
        broker must follow.
Rules.  * A topic that is created again under its old name has another id: a request by the old id never gets the new topic.
        * Names are compared as they are; two that differ only in `.` and `_` may not both exist (see `topic_names`).
        * The last row of every key gives the same image, in any order. So a partition's leader epoch is the higher one of its
          own and of the least one after the last unclean stop, whichever was written later.
        * An image that a controller tells of knows no topic at first. There a topic is gone if it was known, or told, to be gone.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from semel.core.metadata.brokers import RegisteredBroker
from semel.core.metadata.client_quotas import Entity
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
from semel.core.metadata.partition_state import NO_LEADER, NOT_TOLD, PartitionState, not_below
from semel.core.metadata.rows import (
    BrokerConfigRow,
    BrokerRow,
    BrokersRow,
    Change,
    ClientQuotaRow,
    ClusterRow,
    ControllerRow,
    FeatureRow,
    GroupConfigRow,
    LeaderEpochRow,
    ProducerIdsRow,
    ScramRow,
    Told,
    TopicConfigRow,
    TopicGoneRow,
    TopicRow,
    TopicStatesRow,
)
from semel.core.metadata.topic_names import folded
from semel.core.security.scram_credentials import Credential
from semel.types import TopicPartition

DEFAULT_BROKER = ""
_GONE_MAX: Final = 10_000
"""Names of deleted topics that are remembered."""
_K = TypeVar("_K")
_V = TypeVar("_V")


@dataclass(slots=True)
class MetadataImage:
    """Everything the cluster remembers, and which brokers are there."""

    cluster_id: str | None = None
    next_producer_id_block: int = 0
    leader_epoch_min: int = 0
    """No partition is led in an epoch below this one."""
    _topics: dict[str, TopicRow] = field(default_factory=dict)
    _names: dict[bytes, str] = field(default_factory=dict)
    _by_folded_name: dict[str, dict[str, None]] = field(default_factory=dict)
    _broker_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    group_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    """The settings of single groups."""
    client_quotas: dict[Entity, dict[str, float]] = field(default_factory=dict)
    scram: dict[tuple[str, int], Credential] = field(default_factory=dict)
    """By user and mechanism."""
    features: dict[str, int] = field(default_factory=dict)
    """The levels that were set; where none was, a feature is at its highest."""
    features_epoch: int = 0
    _topic_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    """The settings of topics that are kept beside their topics."""
    brokers: dict[int, RegisteredBroker] = field(default_factory=dict)
    """The brokers that are alive, by id; the dict stays the same one."""
    controller_id: int = NO_LEADER
    """The broker that decides for the cluster."""
    is_told: bool = False
    """Whether a controller tells of topics: one that is not known may be there all the same."""
    _gone: dict[str, None] = field(default_factory=dict)

    def apply(self, change: Change) -> list[Delta]:
        """Take a change over; returns the differences it made."""
        match change:
            case TopicRow():
                return self._put_topic(change)
            case TopicGoneRow(name):
                return self._remove_topic(name)
            case LeaderEpochRow(epoch):
                return self._raise_leader_epochs(epoch)
            case ClusterRow(cluster_id):
                self.cluster_id, before = cluster_id, self.cluster_id
                return [ClusterNamed(cluster_id)] if before != cluster_id else []
            case BrokerConfigRow(broker, configs):
                changed = self._broker_configs.get(broker, {}) != configs
                _put(self._broker_configs, broker, dict(configs))
                return [BrokerConfigured(broker, configs)] if changed else []
            case ProducerIdsRow(next_block):
                self.next_producer_id_block, block = next_block, self.next_producer_id_block
                return [ProducerIdsReserved(next_block)] if block != next_block else []
            case GroupConfigRow(group, configs):
                changed = self.group_configs.get(group, {}) != configs
                _put(self.group_configs, group, configs)
                return [GroupConfigured(group, configs)] if changed else []
            case ClientQuotaRow(entity, values):
                changed = self.client_quotas.get(entity, {}) != values
                _put(self.client_quotas, entity, values)
                return [QuotasChanged(entity, values)] if changed else []
            case ScramRow(user, mechanism, credential):
                changed = self.scram.get((user, mechanism)) != credential
                _put(self.scram, (user, mechanism), credential)
                return [CredentialChanged(user, mechanism, credential)] if changed else []
            case FeatureRow(name, level, epoch):
                known = self.features.get(name), self.features_epoch
                self.features[name] = level
                self.features_epoch = max(self.features_epoch, epoch)
                return [FeatureChanged(name, level, epoch)] if known != (level, self.features_epoch) else []
            case _:
                return self._told(change)

    def _told(self, change: Told) -> list[Delta]:
        match change:
            case BrokerRow(registered):
                changed = self.brokers.get(registered.broker_id) != registered
                self.brokers[registered.broker_id] = registered
                return [BrokerRegistered(registered)] if changed else []
            case BrokersRow(brokers):
                return self._put_brokers(brokers)
            case ControllerRow(broker_id):
                self.controller_id, controller_id = broker_id, self.controller_id
                return [ControllerChanged(broker_id)] if controller_id != broker_id else []
            case TopicConfigRow(topic, configs):
                _put(self._topic_configs, topic, dict(configs))
                row = self._topics.get(topic)
                return [] if row is None else self._put_topic(replace(row, configs=dict(configs)))
            case TopicStatesRow(name, topic_id, states):
                return self._put_states(name, topic_id, states)

    def _put_topic(self, row: TopicRow) -> list[Delta]:
        least = self.leader_epoch_min
        if least and any(state.leader_epoch < least for state in row.states):
            row = replace(row, states=not_below(row.states, least))
        before = self._topics.get(row.name)
        if before is not None and before.topic_id != row.topic_id:
            removed = self._remove_topic(row.name)
            return removed + self._put_topic(row)
        self._topics[row.name] = row
        if before is None:
            self._gone.pop(row.name, None)
            self._by_folded_name.setdefault(folded(row.name), {})[row.name] = None
            self._names[row.topic_id.bytes] = row.name
            return [TopicAdded(row)]
        deltas: list[Delta] = []
        if before.configs != row.configs:
            deltas.append(TopicConfigured(row))
        if before.states != row.states:
            deltas.append(PartitionsChanged(row, _different(before.states, row.states)))
        return deltas

    def _put_states(
        self, name: str, topic_id: uuid.UUID, changed: Mapping[int, PartitionState | None]
    ) -> list[Delta]:
        known = self._topics.get(name)
        is_same = known is not None and known.topic_id == topic_id
        states = list(known.states) if known is not None and is_same else []
        present = {index: state for index, state in changed.items() if state is not None}
        if not present and not is_same:
            return []  # Another topic of its name is gone.
        states += [NOT_TOLD] * (1 + max(present, default=-1) - len(states))
        for index, state in changed.items():
            if index < len(states):
                states[index] = NOT_TOLD if state is None else state
        if not any(state.is_known for state in states):
            return self._remove_topic(name)
        configs = dict(self._topic_configs.get(name, {}))
        return self._put_topic(TopicRow(name, topic_id, tuple(states), configs))

    def _put_brokers(self, brokers: Iterable[RegisteredBroker]) -> list[Delta]:
        alive = {one.broker_id: one for one in brokers}
        deltas: list[Delta] = [BrokerGone(one) for one in self.brokers if one not in alive]
        deltas += [BrokerRegistered(one) for number, one in alive.items() if self.brokers.get(number) != one]
        self.brokers.clear()
        self.brokers.update(alive)
        return deltas

    def _remove_topic(self, name: str) -> list[Delta]:
        gone = self._topics.pop(name, None)
        if gone is None:
            return []
        if self.is_told:
            if len(self._gone) >= _GONE_MAX:
                del self._gone[next(iter(self._gone))]
            self._gone[name] = None
        self._names.pop(gone.topic_id.bytes, None)
        alike = self._by_folded_name[folded(name)]
        del alike[name]
        if not alike:
            del self._by_folded_name[folded(name)]
        return [TopicRemoved(gone)]

    def _raise_leader_epochs(self, epoch: int) -> list[Delta]:
        if epoch <= self.leader_epoch_min:
            return []
        self.leader_epoch_min = epoch
        deltas: list[Delta] = [LeaderEpochsRaised(epoch)]
        for row in list(self._topics.values()):
            deltas += self._put_topic(row)
        return deltas

    def snapshot(self) -> list[Delta]:
        """Everything, as deltas against an empty image."""
        deltas: list[Delta] = []
        if self.cluster_id is not None:
            deltas.append(ClusterNamed(self.cluster_id))
        deltas += [BrokerConfigured(broker, configs) for broker, configs in self._broker_configs.items()]
        deltas += [GroupConfigured(group, configs) for group, configs in self.group_configs.items()]
        deltas += [QuotasChanged(entity, values) for entity, values in self.client_quotas.items()]
        deltas += [CredentialChanged(*key, credential) for key, credential in self.scram.items()]
        deltas += [FeatureChanged(name, level, self.features_epoch) for name, level in self.features.items()]
        if self.next_producer_id_block:
            deltas.append(ProducerIdsReserved(self.next_producer_id_block))
        if self.leader_epoch_min:
            deltas.append(LeaderEpochsRaised(self.leader_epoch_min))
        deltas += [BrokerRegistered(broker) for broker in self.brokers.values()]
        if self.controller_id != NO_LEADER:
            deltas.append(ControllerChanged(self.controller_id))
        deltas += [TopicAdded(row) for row in self]
        return deltas

    def __iter__(self) -> Iterator[TopicRow]:
        """Every topic, by name."""
        return (self._topics[name] for name in sorted(self._topics))

    def topic(self, name: str) -> TopicRow | None:
        return self._topics.get(name)

    def is_gone(self, name: str) -> bool:
        """Whether there is no topic of this name."""
        return name not in self._topics and (not self.is_told or name in self._gone)

    def topic_configs(self, name: str) -> Mapping[str, str]:
        """A topic's settings of its own; where they are kept beside topics, also before the topic is known."""
        row = self._topics.get(name)
        return self._topic_configs.get(name, {}) if row is None else row.configs

    def collision(self, name: str) -> str | None:
        """Another topic that a name would be mistaken for."""
        return next((other for other in self._by_folded_name.get(folded(name), ()) if other != name), None)

    def topic_by_id(self, topic_id: bytes) -> TopicRow | None:
        """By the sixteen bytes the wire carries."""
        name = self._names.get(topic_id)
        return None if name is None else self._topics[name]

    @property
    def topics(self) -> Mapping[str, TopicRow]:
        return self._topics

    def partition(self, topic_partition: TopicPartition) -> PartitionState | None:
        """A partition as the cluster knows it; None if there is none."""
        row = self._topics.get(topic_partition.topic)
        if row is None or not 0 <= topic_partition.partition < len(row.states):
            return None
        return row.states[topic_partition.partition]

    @property
    def leader_epoch_max(self) -> int:
        """The highest epoch any partition is led in."""
        epochs = (state.leader_epoch for row in self._topics.values() for state in row.states)
        return max(epochs, default=self.leader_epoch_min)

    def broker_configs(self, broker: str = DEFAULT_BROKER) -> Mapping[str, str]:
        """The settings made while running for this broker alone, or for all."""
        return self._broker_configs.get(broker, {})


def _different(before: tuple[PartitionState, ...], after: tuple[PartitionState, ...]) -> tuple[int, ...]:
    """The indexes of partitions that are new, or in another state."""
    known = len(before)
    return tuple(
        index
        for index, state in enumerate(after)
        if index >= known or (before[index] is not state and before[index] != state)
    )


def _put(kept: dict[_K, _V], key: _K, value: _V | None) -> None:
    """Keep a value; nothing and an empty one are not kept."""
    if value:
        kept[key] = value
    else:
        kept.pop(key, None)

"""Topics, configs and ids as they are now: the sum of all rows.

Role.   What handlers read. `apply` is the only method that changes it, and it cannot fail.
Rules.  * A topic that is created again under its old name has another id: whoever asks by id never gets the new one.
        * Names are compared as they are; two that differ only in `.` and `_` may not both exist (see `topic_names`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from semel.core.metadata.client_quotas import Entity
from semel.core.metadata.rows import (
    BrokerConfigRow,
    ClientQuotaRow,
    ClusterRow,
    FeatureRow,
    GroupConfigRow,
    LeaderEpochRow,
    ProducerIdsRow,
    Row,
    ScramRow,
    TopicGoneRow,
    TopicRow,
)
from semel.core.metadata.scram import Credential
from semel.core.metadata.topic_names import folded

DEFAULT_BROKER = ""
_K = TypeVar("_K")
_V = TypeVar("_V")


@dataclass(slots=True)
class MetadataImage:
    """Everything the metadata log says."""

    cluster_id: str | None = None
    next_producer_id_block: int = 0
    leader_epoch_min: int = 0
    _topics: dict[str, TopicRow] = field(default_factory=dict)
    _names: dict[bytes, str] = field(default_factory=dict)
    _by_folded_name: dict[str, dict[str, None]] = field(default_factory=dict)
    _broker_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    group_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    """What was set for single groups."""
    client_quotas: dict[Entity, dict[str, float]] = field(default_factory=dict)
    scram: dict[tuple[str, int], Credential] = field(default_factory=dict)
    """By user and mechanism."""
    features: dict[str, int] = field(default_factory=dict)
    """The levels that were set; where none was, a feature is at its highest."""
    features_epoch: int = 0

    def apply(self, row: Row) -> None:
        """Take a change over."""
        match row:
            case ClusterRow(cluster_id):
                self.cluster_id = cluster_id
            case TopicRow():
                before = self._topics.get(row.name)
                if before is not None and before.topic_id != row.topic_id:
                    self._names.pop(before.topic_id.bytes, None)
                self._topics[row.name] = row
                self._by_folded_name.setdefault(folded(row.name), {})[row.name] = None
                self._names[row.topic_id.bytes] = row.name
            case TopicGoneRow(name):
                gone = self._topics.pop(name, None)
                if gone is not None:
                    self._names.pop(gone.topic_id.bytes, None)
                    alike = self._by_folded_name[folded(name)]
                    del alike[name]
                    if not alike:
                        del self._by_folded_name[folded(name)]
            case BrokerConfigRow(broker, configs):
                self._broker_configs[broker] = dict(configs)
            case ProducerIdsRow(next_block):
                self.next_producer_id_block = next_block
            case LeaderEpochRow(epoch):
                self.leader_epoch_min = epoch
            case GroupConfigRow(group, configs):
                _put(self.group_configs, group, configs)
            case ClientQuotaRow(entity, values):
                _put(self.client_quotas, entity, values)
            case ScramRow(user, mechanism, credential):
                _put(self.scram, (user, mechanism), credential)
            case FeatureRow(name, level, epoch):
                self.features[name] = level
                self.features_epoch = max(self.features_epoch, epoch)

    def __iter__(self) -> Iterator[TopicRow]:
        """Every topic, by name."""
        return (self._topics[name] for name in sorted(self._topics))

    def topic(self, name: str) -> TopicRow | None:
        return self._topics.get(name)

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

    def broker_configs(self, broker: str = DEFAULT_BROKER) -> Mapping[str, str]:
        """What was set while running for this broker alone, or for all."""
        return self._broker_configs.get(broker, {})


def _put(kept: dict[_K, _V], key: _K, value: _V | None) -> None:
    """Keep a value; nothing and an empty one are not kept."""
    if value:
        kept[key] = value
    else:
        kept.pop(key, None)

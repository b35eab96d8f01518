"""Deltas: the differences that a change made to an image.

Role.   `MetadataImage.apply` answers a change with the deltas it made, `MetadataImage.snapshot` says everything as deltas
        against an empty image. `broker.metadata_applier` carries them out.
Rules.  * A delta tells of a difference: a row that changes nothing gives none.
        * All deltas in order say everything the image knows. So do a snapshot and the deltas after it.
        * The same change gives the same deltas, wherever it was decided, and when a start reads it again.
        * A delta may be carried out twice, or after later ones: its follower asks the image how things are now.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from semel.core.metadata.brokers import RegisteredBroker
from semel.core.metadata.client_quotas import Entity
from semel.core.metadata.rows import TopicRow
from semel.core.security.scram_credentials import Credential


@dataclass(frozen=True, slots=True)
class ClusterNamed:
    """The cluster has an id."""

    cluster_id: str


@dataclass(frozen=True, slots=True)
class TopicAdded:
    """There is a topic that was not there. One of its name may have been removed just before."""

    topic: TopicRow


@dataclass(frozen=True, slots=True)
class TopicRemoved:
    """A topic is no more."""

    topic: TopicRow
    """As it was last."""


@dataclass(frozen=True, slots=True)
class TopicConfigured:
    """A topic has other settings of its own."""

    topic: TopicRow


@dataclass(frozen=True, slots=True)
class PartitionsChanged:
    """Some partitions of a topic are new, or in another state."""

    topic: TopicRow
    indexes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LeaderEpochsRaised:
    """No partition, and none that will be made, is led in an epoch below this one."""

    epoch: int


@dataclass(frozen=True, slots=True)
class BrokerRegistered:
    """A broker is there, or is reached in another way."""

    broker: RegisteredBroker


@dataclass(frozen=True, slots=True)
class BrokerGone:
    """A broker is not there any more."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class ControllerChanged:
    """Another broker decides for the cluster."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class BrokerConfigured:
    """Other settings were made for a broker while it runs, or for all."""

    broker: str
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class GroupConfigured:
    """A group has other settings of its own."""

    group: str
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class QuotasChanged:
    """An entity has other quotas; none, if they were removed."""

    entity: Entity
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class CredentialChanged:
    """A user has another credential for a mechanism, or none."""

    user: str
    mechanism: int
    credential: Credential | None


@dataclass(frozen=True, slots=True)
class FeatureChanged:
    """A feature of the cluster is at another level, and which change of features that was."""

    name: str
    level: int
    epoch: int


@dataclass(frozen=True, slots=True)
class ProducerIdsReserved:
    """Producer ids below `next_block` are given away."""

    next_block: int


Delta: TypeAlias = (
    ClusterNamed
    | TopicAdded
    | TopicRemoved
    | TopicConfigured
    | PartitionsChanged
    | LeaderEpochsRaised
    | BrokerRegistered
    | BrokerGone
    | ControllerChanged
    | BrokerConfigured
    | GroupConfigured
    | QuotasChanged
    | CredentialChanged
    | FeatureChanged
    | ProducerIdsReserved
)

"""The model controller's knowledge of its cluster, as values.

Role.   `decisions` makes new `Partition`s of these, `orders` makes requests of them, `ledger` reads and writes them at ZooKeeper.
Rules.  * A `Partition` is what its state node holds, and its assignment. It never changes: a decision gives another one.
        * Live are brokers that are registered and do not stop; up are those that are registered.
"""

import uuid
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from semel.types import Address, TopicPartition

NO_LEADER: Final = -1
LEADER_DURING_DELETE: Final = -2
UNWRITTEN: Final = -1
"""The partition epoch of a partition that has no state node yet."""


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition."""

    replicas: tuple[int, ...]
    """Old and new ones together, while they are exchanged."""
    leader: int = NO_LEADER
    leader_epoch: int = 0
    isr: tuple[int, ...] = ()
    partition_epoch: int = UNWRITTEN
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    recovery_state: int = 0

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas there shall be."""
        return tuple(one for one in self.replicas if one not in self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas there were before."""
        return tuple(one for one in self.replicas if one not in self.adding)

    @property
    def is_reassigned(self) -> bool:
        """Whether its replicas are being exchanged."""
        return bool(self.adding or self.removing)

    @property
    def is_written(self) -> bool:
        """Whether it has a state node."""
        return self.partition_epoch != UNWRITTEN


@dataclass(slots=True)
class Topic:
    """One topic."""

    topic_id: uuid.UUID
    partitions: dict[int, Partition]
    version: int
    """Of its node."""
    is_going: bool = False
    """It is to be deleted."""
    gone_from: set[tuple[int, int]] = field(default_factory=set)
    """Partitions and brokers that have said so."""


class Life(NamedTuple):
    """A broker's registration."""

    epoch: int
    address: Address


@dataclass(slots=True)
class Cluster:
    """All of it."""

    controller_id: int
    controller_epoch: int
    controller_address: Address
    brokers: dict[int, Life] = field(default_factory=dict)
    stopping: set[int] = field(default_factory=set)
    topics: dict[str, Topic] = field(default_factory=dict)

    @property
    def up(self) -> set[int]:
        """Brokers that are registered."""
        return set(self.brokers)

    @property
    def live(self) -> set[int]:
        """Brokers that may lead and be in sync."""
        return set(self.brokers) - self.stopping

    def partition(self, place: TopicPartition) -> Partition:
        return self.topics[place.topic].partitions[place.partition]

    def put(self, place: TopicPartition, partition: Partition) -> None:
        """It is so from now on."""
        self.topics[place.topic].partitions[place.partition] = partition

    def places(self) -> list[TopicPartition]:
        """Every partition, in order."""
        return [
            TopicPartition(name, index)
            for name in sorted(self.topics)
            for index in sorted(self.topics[name].partitions)
        ]

    def named(self, topic_id: uuid.UUID) -> str | None:
        """The topic of this id."""
        return next((name for name, one in self.topics.items() if one.topic_id == topic_id), None)

"""Everything that a controller knows: brokers, topics, who leads each partition, and how far every change has come.

Role.   One `Context` is made at a take-over and lives as long as the term. The other modules of the machine read and change it.
Rules.  * It holds what ZooKeeper held when it was read, and what this controller has written since.
        * "Live" brokers are registered and not shutting down. A replica is online on a live broker whose directory has not failed.
        * Iteration follows the order of insertion, or of numbers: nothing depends on hashes.
"""

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from semel.core.cluster.controller.states import PartitionState, ReplicaState
from semel.core.cluster.documents import RECOVERING, BrokerNode, StateNode, TopicNode
from semel.types import TopicPartition


class Replica(NamedTuple):
    """One replica of a partition."""

    topic_partition: TopicPartition
    broker_id: int

    def __str__(self) -> str:
        return f"replica {self.broker_id} of {self.topic_partition}"


class Assignment(NamedTuple):
    """The replicas of a partition; during a reassignment the old ones and the new ones together."""

    replicas: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def origin(self) -> tuple[int, ...]:
        return tuple(one for one in self.replicas if one not in self.adding)

    @property
    def target(self) -> tuple[int, ...]:
        return tuple(one for one in self.replicas if one not in self.removing)

    @property
    def is_being_reassigned(self) -> bool:
        return bool(self.adding or self.removing)

    def to(self, target: tuple[int, ...]) -> "Assignment":
        """The same partition on its way to other replicas."""
        both = tuple(dict.fromkeys((*target, *self.origin)))
        return Assignment(
            both,
            tuple(one for one in both if one not in self.origin),
            tuple(one for one in both if one not in target),
        )

    def without(self, broker_id: int) -> "Assignment":
        rest = [tuple(one for one in ids if one != broker_id) for ids in self]
        return Assignment(*rest)


@dataclass(frozen=True, slots=True)
class Leadership:
    """A partition's state as its node says it; the partition epoch is the node's version."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    controller_epoch: int
    leader_recovery_state: int = 0

    @classmethod
    def of(cls, node: StateNode, version: int) -> "Leadership":
        return cls(
            node.leader,
            node.leader_epoch,
            node.isr,
            version,
            node.controller_epoch,
            node.leader_recovery_state,
        )

    def node(self, controller_epoch: int) -> StateNode:
        return StateNode(
            self.leader, self.leader_epoch, self.isr, controller_epoch, self.leader_recovery_state
        )

    def changed(self, leader: int, isr: tuple[int, ...], *, is_recovering: bool = False) -> "Leadership":
        """Another leader or ISR by the controller's decision: the leader epoch grows."""
        return replace(
            self,
            leader=leader,
            isr=isr,
            leader_epoch=self.leader_epoch + 1,
            leader_recovery_state=RECOVERING if is_recovering else self.leader_recovery_state,
        )


@dataclass(frozen=True, slots=True)
class LiveBroker:
    """A registered broker; its epoch is the zxid of its node's creation."""

    broker_id: int
    epoch: int
    node: BrokerNode


@dataclass(slots=True)
class Topic:
    """A topic and the assignments of its partitions."""

    name: str
    topic_id: uuid.UUID
    partitions: dict[int, Assignment] = field(default_factory=dict)

    def node(self) -> TopicNode:
        rows = self.partitions.items()
        return TopicNode(
            {index: one.replicas for index, one in rows},
            self.topic_id,
            {index: one.adding for index, one in rows if one.adding},
            {index: one.removing for index, one in rows if one.removing},
        )


def assignments_of(node: TopicNode) -> dict[int, Assignment]:
    """The assignments that a topic's node holds."""
    return {
        index: Assignment(replicas, node.adding.get(index, ()), node.removing.get(index, ()))
        for index, replicas in sorted(node.replicas.items())
    }


class Context:
    """A controller's knowledge in one term."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.brokers: dict[int, LiveBroker] = {}
        """All that are registered, shutting down or not."""
        self.shutting_down: dict[int, None] = {}
        self.topics: dict[str, Topic] = {}
        self._names: dict[uuid.UUID, str] = {}
        self.leaderships: dict[TopicPartition, Leadership] = {}
        self.partition_states: dict[TopicPartition, PartitionState] = {}
        self.replica_states: dict[Replica, ReplicaState] = {}
        self.offline_dirs: dict[int, dict[TopicPartition, None]] = {}
        """The replicas of each broker whose log directory failed."""
        self.reassigning: dict[TopicPartition, None] = {}
        self.to_delete: dict[str, None] = {}
        """Topics that are to go."""
        self.deletion_begun: dict[str, None] = {}
        self.ineligible: dict[str, None] = {}
        """Topics of these whose deletion waits: for a broker, or for a reassignment."""

    # Brokers

    def is_live(self, broker_id: int) -> bool:
        return broker_id in self.brokers and broker_id not in self.shutting_down

    def live_ids(self) -> list[int]:
        return [one for one in sorted(self.brokers) if one not in self.shutting_down]

    def is_online(self, broker_id: int, partition: TopicPartition, *, with_stopping: bool = False) -> bool:
        """Whether a replica can lead or follow. `with_stopping`: also on a broker that is shutting down."""
        is_up = broker_id in self.brokers if with_stopping else self.is_live(broker_id)
        return is_up and partition not in self.offline_dirs.get(broker_id, ())

    def online(self, ids: Iterable[int], partition: TopicPartition) -> tuple[int, ...]:
        return tuple(one for one in ids if self.is_online(one, partition))

    # Topics

    def put_topic(self, topic: Topic) -> None:
        self.topics[topic.name] = topic
        self._names[topic.topic_id] = topic.name

    def name_of(self, topic_id: uuid.UUID) -> str | None:
        return self._names.get(topic_id)

    def remove_topic(self, name: str) -> None:
        """Forget a topic and all that hangs on it."""
        topic = self.topics.pop(name, None)
        if topic is None:
            return
        if self._names.get(topic.topic_id) == name:
            del self._names[topic.topic_id]
        for index, assignment in topic.partitions.items():
            partition = TopicPartition(name, index)
            self.leaderships.pop(partition, None)
            self.partition_states.pop(partition, None)
            self.reassigning.pop(partition, None)
            for failed in self.offline_dirs.values():
                failed.pop(partition, None)
            for broker_id in assignment.replicas:
                self.replica_states.pop(Replica(partition, broker_id), None)
        for kept in (self.to_delete, self.deletion_begun, self.ineligible):
            kept.pop(name, None)

    def is_being_deleted(self, name: str) -> bool:
        return name in self.to_delete

    # Partitions

    def partitions(self) -> Iterator[TopicPartition]:
        for topic in self.topics.values():
            for index in topic.partitions:
                yield TopicPartition(topic.name, index)

    def partitions_of(self, name: str) -> list[TopicPartition]:
        topic = self.topics.get(name)
        return [] if topic is None else [TopicPartition(name, index) for index in topic.partitions]

    def assignment(self, partition: TopicPartition) -> Assignment:
        """Empty for a partition that is not known."""
        topic = self.topics.get(partition.topic)
        return Assignment() if topic is None else topic.partitions.get(partition.partition, Assignment())

    def assign(self, partition: TopicPartition, assignment: Assignment) -> None:
        self.topics[partition.topic].partitions[partition.partition] = assignment

    def is_known(self, partition: TopicPartition) -> bool:
        topic = self.topics.get(partition.topic)
        return topic is not None and partition.partition in topic.partitions

    def partition_state(self, partition: TopicPartition) -> PartitionState:
        return self.partition_states.get(partition, PartitionState.NON_EXISTENT)

    def with_offline_leader(self) -> list[TopicPartition]:
        """Partitions whose leader is not online, but for those that are to go."""
        return [
            partition
            for partition, state in self.leaderships.items()
            if not self.is_online(state.leader, partition) and not self.is_being_deleted(partition.topic)
        ]

    def with_leaders(self) -> list[TopicPartition]:
        """Partitions that brokers are told of."""
        return [one for one in self.leaderships if not self.is_being_deleted(one.topic)]

    # Replicas

    def replica_state(self, replica: Replica) -> ReplicaState:
        return self.replica_states.get(replica, ReplicaState.NON_EXISTENT)

    def replicas_of(self, partitions: Iterable[TopicPartition]) -> list[Replica]:
        return [Replica(one, broker_id) for one in partitions for broker_id in self.assignment(one).replicas]

    def replicas_on(self, broker_ids: Iterable[int]) -> list[Replica]:
        """The replicas of these brokers, broker by broker."""
        found: Mapping[int, list[Replica]] = {one: [] for one in broker_ids}
        for topic in self.topics.values():
            for index, assignment in topic.partitions.items():
                for broker_id in assignment.replicas:
                    if broker_id in found:
                        found[broker_id].append(Replica(TopicPartition(topic.name, index), broker_id))
        return [replica for replicas in found.values() for replica in replicas]

    def topic_replicas(
        self, name: str, *states: ReplicaState, where: Callable[[Replica], bool] = lambda _replica: True
    ) -> list[Replica]:
        """The replicas of a topic that are in one of these states, or in any."""
        return [
            replica
            for replica in self.replicas_of(self.partitions_of(name))
            if (not states or self.replica_state(replica) in states) and where(replica)
        ]

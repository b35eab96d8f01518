"""The events of a controller, under Kafka's names.

Role.   The shell queues events; `machine` plays them, one after the other.
Rules.  * An event that a watch causes carries nothing that was read: it reads when it is played. Two of the same that wait are one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from semel.core.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from semel.core.wire.messages.alter_partition import AlterPartitionRequest
from semel.core.wire.messages.controlled_shutdown import ControlledShutdownRequest
from semel.core.wire.messages.leader_and_isr import LeaderAndIsrResponse
from semel.core.wire.messages.stop_replica import StopReplicaResponse
from semel.types import TopicPartition


@dataclass(frozen=True, slots=True)
class Startup:
    """The election is won: take the cluster over."""


@dataclass(frozen=True, slots=True)
class BrokerChange:
    """Brokers have come or gone."""


@dataclass(frozen=True, slots=True)
class BrokerModifications:
    """A broker's node says something else."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class BrokerBehind:
    """More requests wait for a broker than may wait; all were dropped, and it is told everything anew."""

    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class TopicChange:
    """Topics have come or gone."""


@dataclass(frozen=True, slots=True)
class PartitionModifications:
    """A topic's node says something else."""

    topic: str


@dataclass(frozen=True, slots=True)
class TopicDeletion:
    """Topics are to be deleted."""


@dataclass(frozen=True, slots=True)
class IsrChangeNotification:
    """Leaders of old versions have changed their ISRs themselves."""


@dataclass(frozen=True, slots=True)
class LogDirEventNotification:
    """Brokers have lost log directories."""


@dataclass(frozen=True, slots=True)
class ZkPartitionReassignment:
    """`/admin/reassign_partitions` may be there."""


@dataclass(frozen=True, slots=True)
class ZkPreferredReplicaElection:
    """`/admin/preferred_replica_election` may be there."""


@dataclass(frozen=True, slots=True)
class CompleteReassignment:
    """An ISR has grown that a reassignment may have waited for."""

    topic_partition: TopicPartition


@dataclass(frozen=True, slots=True)
class AutoPreferredReplicaLeaderElection:
    """It is time to look at the balance of leaders."""


@dataclass(frozen=True, slots=True)
class UncleanLeaderElectionEnable:
    """A topic, or with None all, may elect leaders that are not in sync now."""

    topic: str | None


@dataclass(frozen=True, slots=True)
class LeaderAndIsrResponseReceived:
    broker_id: int
    broker_epoch: int
    response: LeaderAndIsrResponse


@dataclass(frozen=True, slots=True)
class TopicDeletionStopReplicaResponseReceived:
    """The answer to a StopReplica; `deleted` are the partitions whose logs it was to delete."""

    broker_id: int
    broker_epoch: int
    deleted: tuple[TopicPartition, ...]
    response: StopReplicaResponse


# Asked by brokers and clients; the machine returns their answers.


@dataclass(frozen=True, slots=True)
class AlterPartitionReceived:
    request: AlterPartitionRequest
    version: int


@dataclass(frozen=True, slots=True)
class AllocateProducerIds:
    request: AllocateProducerIdsRequest


@dataclass(frozen=True, slots=True)
class ControlledShutdown:
    request: ControlledShutdownRequest


@dataclass(frozen=True, slots=True)
class ReplicaLeaderElection:
    """Elections that a client asks for. Answered: the leader of each partition, or why it has none."""

    partitions: tuple[TopicPartition, ...] | None
    """None: all."""
    is_unclean: bool


@dataclass(frozen=True, slots=True)
class ApiPartitionReassignment:
    """Replicas that a client wants, or None to cancel. Answered: why each partition is not moved, or None."""

    targets: Mapping[TopicPartition, tuple[int, ...] | None]


@dataclass(frozen=True, slots=True)
class ListPartitionReassignments:
    """Answered: the assignments of partitions that are being reassigned."""

    partitions: tuple[TopicPartition, ...] | None


Watched: TypeAlias = (
    BrokerChange
    | BrokerModifications
    | TopicChange
    | PartitionModifications
    | TopicDeletion
    | IsrChangeNotification
    | LogDirEventNotification
    | ZkPartitionReassignment
    | ZkPreferredReplicaElection
)
Answered: TypeAlias = (
    AlterPartitionReceived
    | AllocateProducerIds
    | ControlledShutdown
    | ReplicaLeaderElection
    | ApiPartitionReassignment
    | ListPartitionReassignments
)
Event: TypeAlias = (
    Startup
    | Watched
    | Answered
    | BrokerBehind
    | CompleteReassignment
    | AutoPreferredReplicaLeaderElection
    | UncleanLeaderElectionEnable
    | LeaderAndIsrResponseReceived
    | TopicDeletionStopReplicaResponseReceived
)

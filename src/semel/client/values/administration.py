"""The arguments and results of the admin client: Java's names, as named tuples.

Role.   Plain values without behaviour. Users build `NewTopic`, `NewPartitions`, `ConfigResource`, `AlterConfigOp`,
        `OffsetSpec`, `AclBinding`, `QuotaEntry`. All other values are answers.
Rules.  * Times are milliseconds since 1970. An unknown value, -1 in Kafka, is None.
        * Brokers are their ids, except where their addresses are what was asked for.
"""

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import IntEnum
from typing import Final, NamedTuple

from semel.client.arguments import milliseconds
from semel.client.values.consuming import OffsetAndMetadata
from semel.core.security.operations import AclOperation, ResourceType
from semel.errors import ErrorCode
from semel.types import TopicPartition

_BROKERS_DEFAULT: Final = -1


class Node(NamedTuple):
    """A broker."""

    id: int
    host: str
    port: int
    rack: str | None = None


# Topics


class NewTopic(NamedTuple):
    """A topic to be made; the broker's defaults for what is left out."""

    name: str
    num_partitions: int = _BROKERS_DEFAULT
    replication_factor: int = _BROKERS_DEFAULT
    configs: Mapping[str, str] = {}
    replicas_assignments: Mapping[int, Sequence[int]] | None = None
    """Partition -> brokers, the first one to lead; instead of the two numbers."""


class NewPartitions(NamedTuple):
    """How many partitions a topic shall have in all."""

    total_count: int
    new_assignments: Sequence[Sequence[int]] | None = None
    """The brokers of every new partition, the first one to lead."""


class CreatedTopic(NamedTuple):
    """A topic that was made, or would have been."""

    name: str
    topic_id: uuid.UUID | None
    num_partitions: int | None
    replication_factor: int | None
    configs: Mapping[str, str | None]


class TopicListing(NamedTuple):
    name: str
    topic_id: uuid.UUID
    is_internal: bool


class TopicPartitionInfo(NamedTuple):
    """A partition, and the brokers that have it."""

    partition: int
    leader: int | None
    leader_epoch: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]


class TopicDescription(NamedTuple):
    name: str
    topic_id: uuid.UUID
    is_internal: bool
    partitions: tuple[TopicPartitionInfo, ...]


class DeletedRecords(NamedTuple):
    """The first offset that is left."""

    low_watermark: int


class PartitionReassignment(NamedTuple):
    """Replicas on the move."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


# Settings


class ConfigResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """The owner of settings: `ConfigResource(ConfigResourceType.TOPIC, "orders")`."""

    type: ConfigResourceType
    name: str


class ConfigEntry(NamedTuple):
    """A setting; no value if it is a secret."""

    name: str
    value: str | None
    source: str
    is_default: bool
    is_read_only: bool
    is_sensitive: bool
    documentation: str | None = None


class OpType(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class AlterConfigOp(NamedTuple):
    """A change of one setting. APPEND and SUBTRACT are for lists."""

    name: str
    value: str | None
    op: OpType = OpType.SET


# Groups and offsets


class GroupListing(NamedTuple):
    group_id: str
    type: str | None
    protocol_type: str
    state: str | None
    coordinator: int


class MemberDescription(NamedTuple):
    """A member; fields only groups of the consumer protocol have are None in others."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    rack: str | None
    topics: tuple[str, ...]
    assignment: tuple[TopicPartition, ...]
    target_assignment: tuple[TopicPartition, ...] | None
    member_epoch: int | None


class ConsumerGroupDescription(NamedTuple):
    group_id: str
    type: str
    protocol_type: str
    state: str
    partition_assignor: str
    coordinator: int
    group_epoch: int | None
    target_assignment_epoch: int | None
    members: tuple[MemberDescription, ...]


class OffsetSpec(NamedTuple):
    """Which offset of a partition: `OffsetSpec.latest()`, or the first one at a time."""

    timestamp: int

    @classmethod
    def latest(cls) -> "OffsetSpec":
        """The end, as far as a consumer of the isolation level can read."""
        return cls(-1)

    @classmethod
    def earliest(cls) -> "OffsetSpec":
        """The first that is left."""
        return cls(-2)

    @classmethod
    def max_timestamp(cls) -> "OffsetSpec":
        """The record with the greatest timestamp."""
        return cls(-3)

    @classmethod
    def for_timestamp(cls, timestamp_ms: int | datetime) -> "OffsetSpec":
        """The first at or after a time: milliseconds since 1970, or a `datetime`; without a zone UTC."""
        return cls(milliseconds(timestamp_ms, "timestamp_ms"))


class ListOffsetsResultInfo(NamedTuple):
    """Where a partition is at an `OffsetSpec`; no offset if there is no such record."""

    offset: int | None
    timestamp: int | None
    leader_epoch: int | None


CommittedOffsets = Mapping[TopicPartition, OffsetAndMetadata]


# Transactions and producers


class TransactionListing(NamedTuple):
    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


class TransactionDescription(NamedTuple):
    transactional_id: str
    coordinator: int
    state: str
    producer_id: int
    producer_epoch: int
    transaction_timeout_ms: int
    transaction_start_time_ms: int | None
    topic_partitions: tuple[TopicPartition, ...]


class ProducerState(NamedTuple):
    """A producer, as a partition's leader remembers it."""

    producer_id: int
    producer_epoch: int
    last_sequence: int | None
    last_timestamp: int | None
    coordinator_epoch: int | None
    current_transaction_start_offset: int | None


class FencedProducer(NamedTuple):
    """A transactional id after it was taken over."""

    producer_id: int
    producer_epoch: int


# Cluster


class ClusterDescription(NamedTuple):
    cluster_id: str
    controller: Node | None
    nodes: tuple[Node, ...]


class TopicPartitionReplica(NamedTuple):
    """A partition's copy on one broker."""

    topic: str
    partition: int
    broker_id: int


class ReplicaLogDirInfo(NamedTuple):
    """Where a copy is, and where it is being moved to; None where there is none."""

    current_replica_log_dir: str | None
    current_replica_offset_lag: int | None
    future_replica_log_dir: str | None
    future_replica_offset_lag: int | None


class ReplicaInfo(NamedTuple):
    size_bytes: int
    offset_lag: int
    is_future: bool


class LogDirDescription(NamedTuple):
    error: ErrorCode
    total_bytes: int | None
    usable_bytes: int | None
    replica_infos: Mapping[TopicPartition, ReplicaInfo]


class FinalizedVersionRange(NamedTuple):
    min_version_level: int
    max_version_level: int


class FeatureMetadata(NamedTuple):
    finalized_features: Mapping[str, FinalizedVersionRange]
    finalized_features_epoch: int | None
    supported_features: Mapping[str, FinalizedVersionRange]


# Quotas, users, access


class QuotaEntry(NamedTuple):
    """Limits of an entity: `{"user": "alice"}`, with None for the default; a limit of None is taken away."""

    entity: Mapping[str, str | None]
    quotas: Mapping[str, float | None]


class ScramMechanism(IntEnum):
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2


class ScramCredentialInfo(NamedTuple):
    mechanism: ScramMechanism
    iterations: int


class UserScramCredentialUpsertion(NamedTuple):
    """A SCRAM credential to be given to a user; a salt is made if there is none."""

    user: str
    password: str | bytes
    mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_512
    iterations: int = 4096
    salt: bytes | None = None


class UserScramCredentialDeletion(NamedTuple):
    """A SCRAM credential to be taken from a user."""

    user: str
    mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_512


class PatternType(IntEnum):
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclPermissionType(IntEnum):
    ANY = 1
    DENY = 2
    ALLOW = 3


class AclBinding(NamedTuple):
    """A rule of access: principal, operation, resource, and whether it is allowed."""

    resource_type: ResourceType
    name: str
    principal: str
    operation: AclOperation
    permission_type: AclPermissionType = AclPermissionType.ALLOW
    host: str = "*"
    pattern_type: PatternType = PatternType.LITERAL


class AclBindingFilter(NamedTuple):
    """Which of them; everything by default."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    principal: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission_type: AclPermissionType = AclPermissionType.ANY
    host: str | None = None
    pattern_type: PatternType = PatternType.ANY

"""Rows of __consumer_offsets: committed offsets, classic groups, KIP-848 groups.

A record's key starts with the row's number (`key=` below) as int16, its value with its version as int16. Keys have
version 0 only. Offsets stand under two numbers: 0 is the older one, with the same key.
"""

from semel.core.wire.message import Row
from semel.core.wire.primitives import ZERO_UUID
from semel.core.wire.schema import Bytes, Int8, Int32, Int64, String, Struct, Uuid, array, at, struct


class OffsetCommitKey(Row, key=1, versions="0", flexible="none"):
    group: String = ""
    topic: String = ""
    partition: Int32 = 0


class OffsetCommitValue(Row, key=1, versions="0-4", flexible="4+"):
    offset: Int64 = 0
    leader_epoch: Int32 = at("3+", -1, ignorable=True)
    metadata: String = ""
    commit_timestamp: Int64 = 0
    expire_timestamp: Int64 = at("1", -1, ignorable=True)
    topic_id: Uuid = at("4+", ZERO_UUID, tag=0, ignorable=True)


class GroupMetadataKey(Row, key=2, versions="0", flexible="none"):
    group: String = ""


class MemberMetadata(Struct):
    member_id: String = ""
    group_instance_id: String | None = at("3+", None, ignorable=True)
    client_id: String = ""
    client_host: String = ""
    rebalance_timeout: Int32 = at("1+", -1, ignorable=True)
    session_timeout: Int32 = 0
    subscription: Bytes = b""
    assignment: Bytes = b""


class GroupMetadataValue(Row, key=2, versions="0-4", flexible="4+"):
    protocol_type: String = ""
    generation: Int32 = 0
    protocol: String | None = ""
    leader: String | None = ""
    current_state_timestamp: Int64 = at("2+", -1, ignorable=True)
    members: list[MemberMetadata] = array()


class ConsumerGroupMetadataKey(Row, key=3, versions="0", flexible="none"):
    group_id: String = ""


class ConsumerGroupMetadataValue(Row, key=3, versions="0", flexible="0+"):
    epoch: Int32 = 0
    metadata_hash: Int64 = at("0+", 0, tag=0)


class ConsumerGroupMemberMetadataKey(Row, key=5, versions="0", flexible="none"):
    group_id: String = ""
    member_id: String = ""


class ClassicProtocol(Struct):
    name: String = ""
    metadata: Bytes = b""


class ClassicMemberMetadata(Struct):
    session_timeout_ms: Int32 = 0
    supported_protocols: list[ClassicProtocol] = array()


class ConsumerGroupMemberMetadataValue(Row, key=5, versions="0", flexible="0+"):
    instance_id: String | None = ""
    rack_id: String | None = ""
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: list[String] = array()
    subscribed_topic_regex: String | None = ""
    rebalance_timeout_ms: Int32 = -1
    server_assignor: String | None = ""
    classic_member_metadata: ClassicMemberMetadata | None = struct(ClassicMemberMetadata, tag=0, null="0+")


class ConsumerGroupTargetAssignmentMetadataKey(Row, key=6, versions="0", flexible="none"):
    group_id: String = ""


class ConsumerGroupTargetAssignmentMetadataValue(Row, key=6, versions="0", flexible="0+"):
    assignment_epoch: Int32 = 0
    assignment_timestamp: Int64 = at("0+", 0, tag=0)


class ConsumerGroupTargetAssignmentMemberKey(Row, key=7, versions="0", flexible="none"):
    group_id: String = ""
    member_id: String = ""


class TopicPartition(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[Int32] = array()


class ConsumerGroupTargetAssignmentMemberValue(Row, key=7, versions="0", flexible="0+"):
    topic_partitions: list[TopicPartition] = array()


class ConsumerGroupCurrentMemberAssignmentKey(Row, key=8, versions="0", flexible="none"):
    group_id: String = ""
    member_id: String = ""


class TopicPartitions(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[Int32] = array()
    assignment_epochs: list[Int32] | None = array(tag=0)


class ConsumerGroupCurrentMemberAssignmentValue(Row, key=8, versions="0", flexible="0+"):
    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    assigned_partitions: list[TopicPartitions] = array()
    partitions_pending_revocation: list[TopicPartitions] = array()


class ConsumerGroupRegularExpressionKey(Row, key=16, versions="0", flexible="none"):
    group_id: String = ""
    regular_expression: String = ""


class ConsumerGroupRegularExpressionValue(Row, key=16, versions="0", flexible="0+"):
    topics: list[String] = array()
    version: Int64 = 0
    timestamp: Int64 = 0


class ConsumerGroupPartitionMetadataKey(Row, key=4, versions="0", flexible="none"):
    group_id: String = ""


class PartitionMetadata(Struct):
    partition: Int32 = 0
    racks: list[String] = array()


class TopicMetadata(Struct):
    topic_id: Uuid = ZERO_UUID
    topic_name: String = ""
    num_partitions: Int32 = 0
    partition_metadata: list[PartitionMetadata] = array()


class ConsumerGroupPartitionMetadataValue(Row, key=4, versions="0", flexible="0+"):
    topics: list[TopicMetadata] = array()

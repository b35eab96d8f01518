"""The consumer protocol: subscriptions and assignments inside JoinGroup and SyncGroup.

The bytes start with the version as int16. Subscription: 1 adds owned_partitions, 2 generation_id, 3 rack_id.
"""

from semel.core.wire.message import Row
from semel.core.wire.schema import Bytes, Int32, String, Struct, array, at


class TopicPartition(Struct):
    topic: String = ""
    partitions: list[Int32] = array()


class ConsumerProtocolSubscription(Row, versions="0-3", flexible="none"):
    topics: list[String] = array()
    user_data: Bytes | None = None
    owned_partitions: list[TopicPartition] = array("1+", ignorable=True)
    generation_id: Int32 = at("2+", -1, ignorable=True)
    rack_id: String | None = at("3+", None, ignorable=True)


class ConsumerProtocolAssignmentTopicPartition(Struct):
    topic: String = ""
    partitions: list[Int32] = array()


class ConsumerProtocolAssignment(Row, versions="0-3", flexible="none"):
    assigned_partitions: list[ConsumerProtocolAssignmentTopicPartition] = array()
    user_data: Bytes | None = None

"""DescribeTopicPartitions: topics' partitions, page by page.

API key 75. Version 0, flexible from 0.
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.primitives import ZERO_UUID
from semel.core.wire.schema import Bool, Int16, Int32, String, Struct, Uuid, array


class TopicRequest(Struct):
    name: String = ""


class Cursor(Struct):
    topic_name: String = ""
    partition_index: Int32 = 0


class DescribeTopicPartitionsRequest(
    Request["DescribeTopicPartitionsResponse"], key=75, versions="0", flexible="0+"
):
    topics: list[TopicRequest] = array()
    response_partition_limit: Int32 = 2000
    cursor: Cursor | None = None


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = -1
    replica_nodes: list[Int32] = array()
    isr_nodes: list[Int32] = array()
    eligible_leader_replicas: list[Int32] | None = None
    last_known_elr: list[Int32] | None = None
    offline_replicas: list[Int32] = array()


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: Int16 = 0
    name: String | None = ""
    topic_id: Uuid = ZERO_UUID
    is_internal: Bool = False
    partitions: list[DescribeTopicPartitionsResponsePartition] = array()
    topic_authorized_operations: Int32 = -2147483648


class DescribeTopicPartitionsResponse(Response, key=75, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = 0
    topics: list[DescribeTopicPartitionsResponseTopic] = array()
    next_cursor: Cursor | None = None

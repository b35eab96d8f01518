"""ConsumerGroupDescribe: state and members of KIP-848 groups.

API key 69. Versions 0-1, flexible from 0.
    1  response +member_type
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.primitives import ZERO_UUID
from semel.core.wire.schema import Bool, Int8, Int16, Int32, String, Struct, Uuid, array, at, struct


class ConsumerGroupDescribeRequest(
    Request["ConsumerGroupDescribeResponse"], key=69, versions="0-1", flexible="0+"
):
    group_ids: list[String] = array()
    include_authorized_operations: Bool = False


class TopicPartitions(Struct):
    topic_id: Uuid = ZERO_UUID
    topic_name: String = ""
    partitions: list[Int32] = array()


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = array()


class Member(Struct):
    member_id: String = ""
    instance_id: String | None = None
    rack_id: String | None = None
    member_epoch: Int32 = 0
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: list[String] = array()
    subscribed_topic_regex: String | None = None
    assignment: Assignment = struct(Assignment)
    target_assignment: Assignment = struct(Assignment)
    member_type: Int8 = at("1+", -1, ignorable=True)


class DescribedGroup(Struct):
    error_code: Int16 = 0
    error_message: String | None = None
    group_id: String = ""
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: String = ""
    members: list[Member] = array()
    authorized_operations: Int32 = -2147483648


class ConsumerGroupDescribeResponse(Response, key=69, versions="0-1", flexible="0+"):
    throttle_time_ms: Int32 = 0
    groups: list[DescribedGroup] = array()

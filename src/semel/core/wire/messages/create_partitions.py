"""CreatePartitions: more partitions for topics.

API key 37. Versions 0-3, flexible from 2.
    1  throttled clients delay themselves
    2  flexible
    3  the broker may answer THROTTLING_QUOTA_EXCEEDED
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Bool, Int16, Int32, String, Struct, array


class CreatePartitionsAssignment(Struct):
    broker_ids: list[Int32] = array()


class CreatePartitionsTopic(Struct):
    name: String = ""
    count: Int32 = 0
    assignments: list[CreatePartitionsAssignment] | None = array()


class CreatePartitionsRequest(Request["CreatePartitionsResponse"], key=37, versions="0-3", flexible="2+"):
    topics: list[CreatePartitionsTopic] = array()
    timeout_ms: Int32 = 0
    validate_only: Bool = False


class CreatePartitionsTopicResult(Struct):
    name: String = ""
    error_code: Int16 = 0
    error_message: String | None = None


class CreatePartitionsResponse(Response, key=37, versions="0-3", flexible="2+"):
    throttle_time_ms: Int32 = 0
    results: list[CreatePartitionsTopicResult] = array()

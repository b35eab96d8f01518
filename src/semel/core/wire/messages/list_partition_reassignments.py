"""ListPartitionReassignments: moves under way.

API key 46. Version 0, flexible from 0.
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Int16, Int32, String, Struct, array


class ListPartitionReassignmentsTopics(Struct):
    name: String = ""
    partition_indexes: list[Int32] = array()


class ListPartitionReassignmentsRequest(
    Request["ListPartitionReassignmentsResponse"], key=46, versions="0", flexible="0+"
):
    timeout_ms: Int32 = 60000
    topics: list[ListPartitionReassignmentsTopics] | None = None


class OngoingPartitionReassignment(Struct):
    partition_index: Int32 = 0
    replicas: list[Int32] = array()
    adding_replicas: list[Int32] = array()
    removing_replicas: list[Int32] = array()


class OngoingTopicReassignment(Struct):
    name: String = ""
    partitions: list[OngoingPartitionReassignment] = array()


class ListPartitionReassignmentsResponse(Response, key=46, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    topics: list[OngoingTopicReassignment] = array()

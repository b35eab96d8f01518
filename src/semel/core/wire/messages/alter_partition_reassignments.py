"""AlterPartitionReassignments: start or cancel moves of partitions between brokers.

API key 45. Versions 0-1, flexible from 0.
    1  request +allow_replication_factor_change; response +allow_replication_factor_change
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Bool, Int16, Int32, String, Struct, array, at


class ReassignablePartition(Struct):
    partition_index: Int32 = 0
    replicas: list[Int32] | None = None


class ReassignableTopic(Struct):
    name: String = ""
    partitions: list[ReassignablePartition] = array()


class AlterPartitionReassignmentsRequest(
    Request["AlterPartitionReassignmentsResponse"], key=45, versions="0-1", flexible="0+"
):
    timeout_ms: Int32 = 60000
    allow_replication_factor_change: Bool = at("1+", True)
    topics: list[ReassignableTopic] = array()


class ReassignablePartitionResponse(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


class ReassignableTopicResponse(Struct):
    name: String = ""
    partitions: list[ReassignablePartitionResponse] = array()


class AlterPartitionReassignmentsResponse(Response, key=45, versions="0-1", flexible="0+"):
    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Bool = at("1+", True, ignorable=True)
    error_code: Int16 = 0
    error_message: String | None = ""
    responses: list[ReassignableTopicResponse] = array()

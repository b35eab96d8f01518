"""ElectLeaders: make preferred (or any live) replicas leaders.

API key 43. Versions 0-2, flexible from 2.
    1  request +election_type; response +error_code
    2  flexible
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Int8, Int16, Int32, String, Struct, array, at


class TopicPartitions(Struct):
    topic: String = ""
    partitions: list[Int32] = array()


class ElectLeadersRequest(Request["ElectLeadersResponse"], key=43, versions="0-2", flexible="2+"):
    election_type: Int8 = at("1+", 0)
    topic_partitions: list[TopicPartitions] | None = array()
    timeout_ms: Int32 = 60000


class PartitionResult(Struct):
    partition_id: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


class ReplicaElectionResult(Struct):
    topic: String = ""
    partition_result: list[PartitionResult] = array()


class ElectLeadersResponse(Response, key=43, versions="0-2", flexible="2+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = at("1+", 0)
    replica_election_results: list[ReplicaElectionResult] = array()

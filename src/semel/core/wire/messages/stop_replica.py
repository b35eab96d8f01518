"""StopReplica: the controller has a broker stop replicas, and delete their logs.

API key 5, of Kafka up to 3.9. Versions 0-4, flexible from 2.
    1  request +broker_epoch, -ungrouped_partitions, +topics
    2  flexible
    3  request -delete_partitions, -topics, +topic_states
    4  request +is_kraft_controller
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Bool, Int16, Int32, Int64, String, Struct, array, at


class StopReplicaPartitionV0(Struct):
    topic_name: String = at("0", "")
    partition_index: Int32 = at("0", 0)


class StopReplicaTopicV1(Struct):
    name: String = at("1-2", "")
    partition_indexes: list[Int32] = array("1-2")


class StopReplicaPartitionState(Struct):
    partition_index: Int32 = at("3+", 0)
    leader_epoch: Int32 = at("3+", -1)
    delete_partition: Bool = at("3+", False)


class StopReplicaTopicState(Struct):
    topic_name: String = at("3+", "")
    partition_states: list[StopReplicaPartitionState] = array("3+")


class StopReplicaRequest(Request["StopReplicaResponse"], key=5, versions="0-4", flexible="2+"):
    controller_id: Int32 = 0
    is_kraft_controller: Bool = at("4+", False)
    controller_epoch: Int32 = 0
    broker_epoch: Int64 = at("1+", -1, ignorable=True)
    delete_partitions: Bool = at("0-2", False)
    ungrouped_partitions: list[StopReplicaPartitionV0] = array("0")
    topics: list[StopReplicaTopicV1] = array("1-2")
    topic_states: list[StopReplicaTopicState] = array("3+")


class StopReplicaPartitionError(Struct):
    topic_name: String = ""
    partition_index: Int32 = 0
    error_code: Int16 = 0


class StopReplicaResponse(Response, key=5, versions="0-4", flexible="2+"):
    error_code: Int16 = 0
    partition_errors: list[StopReplicaPartitionError] = array()

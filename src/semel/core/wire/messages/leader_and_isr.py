"""LeaderAndIsr: the controller tells a broker which partitions it leads, and which it follows.

API key 4, of Kafka up to 3.9. Versions 0-7, flexible from 4.
    1  request +is_new
    2  request +broker_epoch, -ungrouped_partition_states, +topic_states
    3  request +adding_replicas, +removing_replicas
    4  flexible
    5  request +type, +topic_id; response -partition_errors, +topics
    6  request +leader_recovery_state
    7  request +is_kraft_controller
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.primitives import ZERO_UUID
from semel.core.wire.schema import Bool, Int8, Int16, Int32, Int64, String, Struct, Uuid, array, at


class LeaderAndIsrPartitionState(Struct):
    topic_name: String = at("0-1", "", ignorable=True)
    partition_index: Int32 = 0
    controller_epoch: Int32 = 0
    leader: Int32 = 0
    leader_epoch: Int32 = 0
    isr: list[Int32] = array()
    partition_epoch: Int32 = 0
    replicas: list[Int32] = array()
    adding_replicas: list[Int32] = array("3+", ignorable=True)
    removing_replicas: list[Int32] = array("3+", ignorable=True)
    is_new: Bool = at("1+", False, ignorable=True)
    leader_recovery_state: Int8 = at("6+", 0)


class LeaderAndIsrTopicState(Struct):
    topic_name: String = at("2+", "")
    topic_id: Uuid = at("5+", ZERO_UUID, ignorable=True)
    partition_states: list[LeaderAndIsrPartitionState] = array("2+")


class LeaderAndIsrLiveLeader(Struct):
    broker_id: Int32 = 0
    host_name: String = ""
    port: Int32 = 0


class LeaderAndIsrRequest(Request["LeaderAndIsrResponse"], key=4, versions="0-7", flexible="4+"):
    controller_id: Int32 = 0
    is_kraft_controller: Bool = at("7+", False)
    controller_epoch: Int32 = 0
    broker_epoch: Int64 = at("2+", -1, ignorable=True)
    type: Int8 = at("5+", 0)
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = array("0-1")
    topic_states: list[LeaderAndIsrTopicState] = array("2+")
    live_leaders: list[LeaderAndIsrLiveLeader] = array()


class LeaderAndIsrPartitionError(Struct):
    topic_name: String = at("0-4", "", ignorable=True)
    partition_index: Int32 = 0
    error_code: Int16 = 0


class LeaderAndIsrTopicError(Struct):
    topic_id: Uuid = at("5+", ZERO_UUID)
    partition_errors: list[LeaderAndIsrPartitionError] = array("5+")


class LeaderAndIsrResponse(Response, key=4, versions="0-7", flexible="4+"):
    error_code: Int16 = 0
    partition_errors: list[LeaderAndIsrPartitionError] = array("0-4")
    topics: list[LeaderAndIsrTopicError] = array("5+")

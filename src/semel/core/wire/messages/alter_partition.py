"""AlterPartition: a leader asks the controller for another ISR.

API key 56, with the versions of Kafka 3.9. Versions 0-3, all flexible.
    1  request, response +leader_recovery_state
    2  request, response -topic_name, +topic_id
    3  request -new_isr, +new_isr_with_epochs
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.primitives import ZERO_UUID
from semel.core.wire.schema import Int8, Int16, Int32, Int64, String, Struct, Uuid, array, at


class BrokerState(Struct):
    broker_id: Int32 = at("3+", 0)
    broker_epoch: Int64 = at("3+", -1)


class AlterPartitionData(Struct):
    partition_index: Int32 = 0
    leader_epoch: Int32 = 0
    new_isr: list[Int32] = array("0-2")
    new_isr_with_epochs: list[BrokerState] = array("3+")
    leader_recovery_state: Int8 = at("1+", 0)
    partition_epoch: Int32 = 0


class AlterPartitionTopic(Struct):
    topic_name: String = at("0-1", "", ignorable=True)
    topic_id: Uuid = at("2+", ZERO_UUID, ignorable=True)
    partitions: list[AlterPartitionData] = array()


class AlterPartitionRequest(Request["AlterPartitionResponse"], key=56, versions="0-3", flexible="0+"):
    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    topics: list[AlterPartitionTopic] = array()


class AlteredPartition(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    isr: list[Int32] = array()
    leader_recovery_state: Int8 = at("1+", 0, ignorable=True)
    partition_epoch: Int32 = 0


class AlteredTopic(Struct):
    topic_name: String = at("0-1", "", ignorable=True)
    topic_id: Uuid = at("2+", ZERO_UUID, ignorable=True)
    partitions: list[AlteredPartition] = array()


class AlterPartitionResponse(Response, key=56, versions="0-3", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    topics: list[AlteredTopic] = array()

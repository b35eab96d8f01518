"""UpdateMetadata: the controller tells every broker which brokers there are, and who leads each partition.

API key 6, of Kafka up to 3.9. Versions 0-8, flexible from 6.
    1  request -v0_host, -v0_port, +endpoints
    2  request +rack
    3  request +listener
    4  request +offline_replicas
    5  request +broker_epoch, -ungrouped_partition_states, +topic_states
    6  flexible
    7  request +topic_id
    8  request +is_kraft_controller, +type
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.primitives import ZERO_UUID
from semel.core.wire.schema import Bool, Int8, Int16, Int32, Int64, String, Struct, Uuid, array, at


class UpdateMetadataPartitionState(Struct):
    topic_name: String = at("0-4", "", ignorable=True)
    partition_index: Int32 = 0
    controller_epoch: Int32 = 0
    leader: Int32 = 0
    leader_epoch: Int32 = 0
    isr: list[Int32] = array()
    zk_version: Int32 = 0
    replicas: list[Int32] = array()
    offline_replicas: list[Int32] = array("4+", ignorable=True)


class UpdateMetadataTopicState(Struct):
    topic_name: String = at("5+", "")
    topic_id: Uuid = at("7+", ZERO_UUID, ignorable=True)
    partition_states: list[UpdateMetadataPartitionState] = array("5+")


class UpdateMetadataEndpoint(Struct):
    port: Int32 = at("1+", 0)
    host: String = at("1+", "")
    listener: String = at("3+", "", ignorable=True)
    security_protocol: Int16 = at("1+", 0)


class UpdateMetadataBroker(Struct):
    id: Int32 = 0
    v0_host: String = at("0", "", ignorable=True)
    v0_port: Int32 = at("0", 0, ignorable=True)
    endpoints: list[UpdateMetadataEndpoint] = array("1+", ignorable=True)
    rack: String | None = at("2+", "", ignorable=True)


class UpdateMetadataRequest(Request["UpdateMetadataResponse"], key=6, versions="0-8", flexible="6+"):
    controller_id: Int32 = 0
    is_kraft_controller: Bool = at("8+", False)
    type: Int8 = at("8+", 0, tag=0)
    controller_epoch: Int32 = 0
    broker_epoch: Int64 = at("5+", -1, ignorable=True)
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = array("0-4")
    topic_states: list[UpdateMetadataTopicState] = array("5+")
    live_brokers: list[UpdateMetadataBroker] = array()


class UpdateMetadataResponse(Response, key=6, versions="0-8", flexible="6+"):
    error_code: Int16 = 0

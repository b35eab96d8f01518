"""Produce: append record batches to partitions.

API key 0. Versions 3-13, flexible from 9.
    4  the broker may answer KAFKA_STORAGE_ERROR
    5  response +log_start_offset
    6  throttled clients delay themselves
    7  zstd batches are allowed
    8  response +record_errors, +error_message
    9  flexible
    10 response +current_leader, +node_endpoints
    11 the broker may answer TRANSACTION_ABORTABLE
    12 adds the partition to the transaction by itself (transactions v2)
    13 request -name, +topic_id; response -name, +topic_id
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.primitives import ZERO_UUID
from semel.core.wire.schema import Int16, Int32, Int64, Records, String, Struct, Uuid, array, at


class PartitionProduceData(Struct):
    index: Int32 = 0
    records: Records | None = None


class TopicProduceData(Struct):
    name: String = at("3-12", "", ignorable=True)
    topic_id: Uuid = at("13+", ZERO_UUID, ignorable=True)
    partition_data: list[PartitionProduceData] = array()


class ProduceRequest(Request["ProduceResponse"], key=0, versions="3-13", flexible="9+"):
    transactional_id: String | None = None
    acks: Int16 = 0
    timeout_ms: Int32 = 0
    topic_data: list[TopicProduceData] = array()


class BatchIndexAndErrorMessage(Struct):
    batch_index: Int32 = 0
    batch_index_error_message: String | None = None


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class PartitionProduceResponse(Struct):
    index: Int32 = 0
    error_code: Int16 = 0
    base_offset: Int64 = 0
    log_append_time_ms: Int64 = -1
    log_start_offset: Int64 = at("5+", -1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = array("8+", ignorable=True)
    error_message: String | None = at("8+", None, ignorable=True)
    current_leader: LeaderIdAndEpoch | None = at("10+", None, tag=0)


class TopicProduceResponse(Struct):
    name: String = at("3-12", "", ignorable=True)
    topic_id: Uuid = at("13+", ZERO_UUID, ignorable=True)
    partition_responses: list[PartitionProduceResponse] = array()


class NodeEndpoint(Struct):
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None


class ProduceResponse(Response, key=0, versions="3-13", flexible="9+"):
    responses: list[TopicProduceResponse] = array()
    throttle_time_ms: Int32 = 0
    node_endpoints: list[NodeEndpoint] = array("10+", tag=0)

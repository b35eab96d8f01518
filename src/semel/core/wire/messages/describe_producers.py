"""DescribeProducers: the producers a partition remembers.

API key 61. Version 0, flexible from 0.
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Int16, Int32, Int64, String, Struct, array


class TopicRequest(Struct):
    name: String = ""
    partition_indexes: list[Int32] = array()


class DescribeProducersRequest(Request["DescribeProducersResponse"], key=61, versions="0", flexible="0+"):
    topics: list[TopicRequest] = array()


class ProducerState(Struct):
    producer_id: Int64 = 0
    producer_epoch: Int32 = 0
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = 0
    current_txn_start_offset: Int64 = -1


class PartitionResponse(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    active_producers: list[ProducerState] = array()


class TopicResponse(Struct):
    name: String = ""
    partitions: list[PartitionResponse] = array()


class DescribeProducersResponse(Response, key=61, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = 0
    topics: list[TopicResponse] = array()

"""ListOffsets: the offset that belongs to a timestamp, to the earliest or to the latest record.

API key 2. Versions 1-11, flexible from 6.
    2  request +isolation_level; response +throttle_time_ms
    3  throttled clients delay themselves
    4  request +current_leader_epoch; response +leader_epoch
    5  the broker may answer OFFSET_NOT_AVAILABLE
    6  flexible
    7  timestamp -3: the offset of the highest timestamp
    8  timestamp -4: the earliest offset on local disk
    9  timestamp -5: the latest offset in remote storage
    10 request +timeout_ms
    11 timestamp -6: the earliest offset waiting for upload
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Int8, Int16, Int32, Int64, String, Struct, array, at


class ListOffsetsPartition(Struct):
    partition_index: Int32 = 0
    current_leader_epoch: Int32 = at("4+", -1, ignorable=True)
    timestamp: Int64 = 0


class ListOffsetsTopic(Struct):
    name: String = ""
    partitions: list[ListOffsetsPartition] = array()


class ListOffsetsRequest(Request["ListOffsetsResponse"], key=2, versions="1-11", flexible="6+"):
    replica_id: Int32 = 0
    isolation_level: Int8 = at("2+", 0)
    topics: list[ListOffsetsTopic] = array()
    timeout_ms: Int32 = at("10+", 0, ignorable=True)


class ListOffsetsPartitionResponse(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    timestamp: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Int32 = at("4+", -1)


class ListOffsetsTopicResponse(Struct):
    name: String = ""
    partitions: list[ListOffsetsPartitionResponse] = array()


class ListOffsetsResponse(Response, key=2, versions="1-11", flexible="6+"):
    throttle_time_ms: Int32 = at("2+", 0, ignorable=True)
    topics: list[ListOffsetsTopicResponse] = array()

"""OffsetDelete: forget a group's offsets of some partitions.

API key 47. Version 0, none of them flexible.
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Int16, Int32, String, Struct, array


class OffsetDeleteRequestPartition(Struct):
    partition_index: Int32 = 0


class OffsetDeleteRequestTopic(Struct):
    name: String = ""
    partitions: list[OffsetDeleteRequestPartition] = array()


class OffsetDeleteRequest(Request["OffsetDeleteResponse"], key=47, versions="0", flexible="none"):
    group_id: String = ""
    topics: list[OffsetDeleteRequestTopic] = array()


class OffsetDeleteResponsePartition(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class OffsetDeleteResponseTopic(Struct):
    name: String = ""
    partitions: list[OffsetDeleteResponsePartition] = array()


class OffsetDeleteResponse(Response, key=47, versions="0", flexible="none"):
    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: list[OffsetDeleteResponseTopic] = array()

"""OffsetFetch: a group's positions, read back.

API key 9. Versions 1-10, flexible from 6.
    2  response +error_code
    3  response +throttle_time_ms
    4  throttled clients delay themselves
    5  response +committed_leader_epoch
    6  flexible
    7  request +require_stable
    8  request -group_id, -topics, +groups; response -topics, -error_code, +groups
    9  request +member_id, +member_epoch
    10 request -name, +topic_id; response -name, +topic_id
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.primitives import ZERO_UUID
from semel.core.wire.schema import Bool, Int16, Int32, Int64, String, Struct, Uuid, array, at


class OffsetFetchRequestTopic(Struct):
    name: String = ""
    partition_indexes: list[Int32] = array()


class OffsetFetchRequestTopics(Struct):
    name: String = at("8-9", "", ignorable=True)
    topic_id: Uuid = at("10+", ZERO_UUID, ignorable=True)
    partition_indexes: list[Int32] = array()


class OffsetFetchRequestGroup(Struct):
    group_id: String = ""
    member_id: String | None = at("9+", None, ignorable=True)
    member_epoch: Int32 = at("9+", -1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = array()


class OffsetFetchRequest(Request["OffsetFetchResponse"], key=9, versions="1-10", flexible="6+"):
    group_id: String = at("1-7", "")
    topics: list[OffsetFetchRequestTopic] | None = array("1-7", null="2-7")
    groups: list[OffsetFetchRequestGroup] = array("8+")
    require_stable: Bool = at("7+", False)


class OffsetFetchResponsePartition(Struct):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = at("5+", -1, ignorable=True)
    metadata: String | None = ""
    error_code: Int16 = 0


class OffsetFetchResponseTopic(Struct):
    name: String = ""
    partitions: list[OffsetFetchResponsePartition] = array()


class OffsetFetchResponsePartitions(Struct):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = -1
    metadata: String | None = ""
    error_code: Int16 = 0


class OffsetFetchResponseTopics(Struct):
    name: String = at("8-9", "", ignorable=True)
    topic_id: Uuid = at("10+", ZERO_UUID, ignorable=True)
    partitions: list[OffsetFetchResponsePartitions] = array()


class OffsetFetchResponseGroup(Struct):
    group_id: String = ""
    topics: list[OffsetFetchResponseTopics] = array()
    error_code: Int16 = 0


class OffsetFetchResponse(Response, key=9, versions="1-10", flexible="6+"):
    throttle_time_ms: Int32 = at("3+", 0, ignorable=True)
    topics: list[OffsetFetchResponseTopic] = array("1-7")
    error_code: Int16 = at("2-7", 0, ignorable=True)
    groups: list[OffsetFetchResponseGroup] = array("8+")

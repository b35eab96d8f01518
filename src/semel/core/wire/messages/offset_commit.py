"""OffsetCommit: a group's positions, stored.

API key 8. Versions 2-10, flexible from 8.
    3  response +throttle_time_ms
    4  throttled clients delay themselves
    5  request -retention_time_ms
    6  request +committed_leader_epoch
    7  request +group_instance_id
    8  flexible
    9  members of KIP-848 groups may commit; STALE_MEMBER_EPOCH, GROUP_ID_NOT_FOUND
    10 request -name, +topic_id; response -name, +topic_id
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.primitives import ZERO_UUID
from semel.core.wire.schema import Int16, Int32, Int64, String, Struct, Uuid, array, at


class OffsetCommitRequestPartition(Struct):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = at("6+", -1, ignorable=True)
    committed_metadata: String | None = ""


class OffsetCommitRequestTopic(Struct):
    name: String = at("2-9", "", ignorable=True)
    topic_id: Uuid = at("10+", ZERO_UUID, ignorable=True)
    partitions: list[OffsetCommitRequestPartition] = array()


class OffsetCommitRequest(Request["OffsetCommitResponse"], key=8, versions="2-10", flexible="8+"):
    group_id: String = ""
    generation_id_or_member_epoch: Int32 = -1
    member_id: String = ""
    group_instance_id: String | None = at("7+", None)
    retention_time_ms: Int64 = at("2-4", -1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = array()


class OffsetCommitResponsePartition(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class OffsetCommitResponseTopic(Struct):
    name: String = at("2-9", "", ignorable=True)
    topic_id: Uuid = at("10+", ZERO_UUID, ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = array()


class OffsetCommitResponse(Response, key=8, versions="2-10", flexible="8+"):
    throttle_time_ms: Int32 = at("3+", 0, ignorable=True)
    topics: list[OffsetCommitResponseTopic] = array()

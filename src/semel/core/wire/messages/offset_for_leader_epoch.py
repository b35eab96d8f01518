"""OffsetForLeaderEpoch: where a leader epoch ends.

API key 23. Versions 2-4, flexible from 4.
    3  request +replica_id
    4  flexible
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Int16, Int32, Int64, String, Struct, array, at


class OffsetForLeaderPartition(Struct):
    partition: Int32 = 0
    current_leader_epoch: Int32 = -1
    leader_epoch: Int32 = 0


class OffsetForLeaderTopic(Struct):
    topic: String = ""
    partitions: list[OffsetForLeaderPartition] = array()


class OffsetForLeaderEpochRequest(
    Request["OffsetForLeaderEpochResponse"], key=23, versions="2-4", flexible="4+"
):
    replica_id: Int32 = at("3+", -2, ignorable=True)
    topics: list[OffsetForLeaderTopic] = array()


class EpochEndOffset(Struct):
    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Int32 = -1
    end_offset: Int64 = -1


class OffsetForLeaderTopicResult(Struct):
    topic: String = ""
    partitions: list[EpochEndOffset] = array()


class OffsetForLeaderEpochResponse(Response, key=23, versions="2-4", flexible="4+"):
    throttle_time_ms: Int32 = 0
    topics: list[OffsetForLeaderTopicResult] = array()

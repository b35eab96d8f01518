"""TxnOffsetCommit: offsets that become a group's when the transaction commits.

API key 28. Versions 0-5, flexible from 3.
    1  throttled clients delay themselves
    2  request +committed_leader_epoch
    3  request +generation_id, +member_id, +group_instance_id; flexible; members are fenced by generation
       (KIP-447)
    4  the broker may answer TRANSACTION_ABORTABLE
    5  adds the group to the transaction by itself (transactions v2)
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Int16, Int32, Int64, String, Struct, array, at


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = at("2+", -1, ignorable=True)
    committed_metadata: String | None = ""


class TxnOffsetCommitRequestTopic(Struct):
    name: String = ""
    partitions: list[TxnOffsetCommitRequestPartition] = array()


class TxnOffsetCommitRequest(Request["TxnOffsetCommitResponse"], key=28, versions="0-5", flexible="3+"):
    transactional_id: String = ""
    group_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    generation_id: Int32 = at("3+", -1)
    member_id: String = at("3+", "")
    group_instance_id: String | None = at("3+", None)
    topics: list[TxnOffsetCommitRequestTopic] = array()


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class TxnOffsetCommitResponseTopic(Struct):
    name: String = ""
    partitions: list[TxnOffsetCommitResponsePartition] = array()


class TxnOffsetCommitResponse(Response, key=28, versions="0-5", flexible="3+"):
    throttle_time_ms: Int32 = 0
    topics: list[TxnOffsetCommitResponseTopic] = array()

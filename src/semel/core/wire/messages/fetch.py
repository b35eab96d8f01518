"""Fetch: record batches from partitions, for consumers and followers.

API key 1. Versions 4-18, flexible from 12.
    5  request +log_start_offset; response +log_start_offset
    6  the broker may answer KAFKA_STORAGE_ERROR
    7  request +session_id, +session_epoch, +forgotten_topics_data; response +error_code, +session_id
    8  throttled clients delay themselves
    9  request +current_leader_epoch
    10 zstd batches may be returned
    11 request +rack_id; response +preferred_read_replica
    12 request +cluster_id, +last_fetched_epoch; response +diverging_epoch, +current_leader, +snapshot_id;
       flexible
    13 request -topic, +topic_id; response -topic, +topic_id
    14 the broker may answer OFFSET_MOVED_TO_TIERED_STORAGE
    15 request -replica_id, +replica_state
    16 response +node_endpoints
    17 request +replica_directory_id
    18 request +high_watermark
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.primitives import ZERO_UUID
from semel.core.wire.schema import Int8, Int16, Int32, Int64, Records, String, Struct, Uuid, array, at


class ReplicaState(Struct):
    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


class FetchPartition(Struct):
    partition: Int32 = 0
    current_leader_epoch: Int32 = at("9+", -1, ignorable=True)
    fetch_offset: Int64 = 0
    last_fetched_epoch: Int32 = at("12+", -1)
    log_start_offset: Int64 = at("5+", -1, ignorable=True)
    partition_max_bytes: Int32 = 0
    replica_directory_id: Uuid = at("17+", ZERO_UUID, tag=0, ignorable=True)
    high_watermark: Int64 = at("18+", 0x7FFFFFFFFFFFFFFF, tag=1, ignorable=True)


class FetchTopic(Struct):
    topic: String = at("4-12", "", ignorable=True)
    topic_id: Uuid = at("13+", ZERO_UUID, ignorable=True)
    partitions: list[FetchPartition] = array()


class ForgottenTopic(Struct):
    topic: String = at("7-12", "", ignorable=True)
    topic_id: Uuid = at("13+", ZERO_UUID, ignorable=True)
    partitions: list[Int32] = array()


class FetchRequest(Request["FetchResponse"], key=1, versions="4-18", flexible="12+"):
    cluster_id: String | None = at("12+", None, tag=0, ignorable=True)
    replica_id: Int32 = at("4-14", -1)
    replica_state: ReplicaState | None = at("15+", None, tag=1)
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 0x7FFFFFFF
    isolation_level: Int8 = 0
    session_id: Int32 = at("7+", 0, ignorable=True)
    session_epoch: Int32 = at("7+", -1, ignorable=True)
    topics: list[FetchTopic] = array()
    forgotten_topics_data: list[ForgottenTopic] = array("7+")
    rack_id: String = at("11+", "", ignorable=True)


class EpochEndOffset(Struct):
    epoch: Int32 = -1
    end_offset: Int64 = -1


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class SnapshotId(Struct):
    end_offset: Int64 = -1
    epoch: Int32 = -1


class AbortedTransaction(Struct):
    producer_id: Int64 = 0
    first_offset: Int64 = 0


class PartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    high_watermark: Int64 = 0
    last_stable_offset: Int64 = -1
    log_start_offset: Int64 = at("5+", -1, ignorable=True)
    diverging_epoch: EpochEndOffset | None = at("12+", None, tag=0)
    current_leader: LeaderIdAndEpoch | None = at("12+", None, tag=1)
    snapshot_id: SnapshotId | None = at("12+", None, tag=2)
    aborted_transactions: list[AbortedTransaction] | None = array()
    preferred_read_replica: Int32 = at("11+", -1)
    records: Records | None = None


class FetchableTopicResponse(Struct):
    topic: String = at("4-12", "", ignorable=True)
    topic_id: Uuid = at("13+", ZERO_UUID, ignorable=True)
    partitions: list[PartitionData] = array()


class NodeEndpoint(Struct):
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None


class FetchResponse(Response, key=1, versions="4-18", flexible="12+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = at("7+", 0, ignorable=True)
    session_id: Int32 = at("7+", 0)
    responses: list[FetchableTopicResponse] = array()
    node_endpoints: list[NodeEndpoint] = array("16+", tag=0)

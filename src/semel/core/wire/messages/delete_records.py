"""DeleteRecords: move partitions' log start offsets forward.

API key 21. Versions 0-2, flexible from 2.
    1  throttled clients delay themselves
    2  flexible
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Int16, Int32, Int64, String, Struct, array


class DeleteRecordsPartition(Struct):
    partition_index: Int32 = 0
    offset: Int64 = 0


class DeleteRecordsTopic(Struct):
    name: String = ""
    partitions: list[DeleteRecordsPartition] = array()


class DeleteRecordsRequest(Request["DeleteRecordsResponse"], key=21, versions="0-2", flexible="2+"):
    topics: list[DeleteRecordsTopic] = array()
    timeout_ms: Int32 = 0


class DeleteRecordsPartitionResult(Struct):
    partition_index: Int32 = 0
    low_watermark: Int64 = 0
    error_code: Int16 = 0


class DeleteRecordsTopicResult(Struct):
    name: String = ""
    partitions: list[DeleteRecordsPartitionResult] = array()


class DeleteRecordsResponse(Response, key=21, versions="0-2", flexible="2+"):
    throttle_time_ms: Int32 = 0
    topics: list[DeleteRecordsTopicResult] = array()

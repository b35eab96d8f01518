"""WriteTxnMarkers: the coordinator has leaders write transaction markers.

API key 27. Versions 1-2, flexible from 1.
    2  request +transaction_version
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Bool, Int8, Int16, Int32, Int64, String, Struct, array, at


class WritableTxnMarkerTopic(Struct):
    name: String = ""
    partition_indexes: list[Int32] = array()


class WritableTxnMarker(Struct):
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    transaction_result: Bool = False
    topics: list[WritableTxnMarkerTopic] = array()
    coordinator_epoch: Int32 = 0
    transaction_version: Int8 = at("2+", 0, ignorable=True)


class WriteTxnMarkersRequest(Request["WriteTxnMarkersResponse"], key=27, versions="1-2", flexible="1+"):
    markers: list[WritableTxnMarker] = array()


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class WritableTxnMarkerTopicResult(Struct):
    name: String = ""
    partitions: list[WritableTxnMarkerPartitionResult] = array()


class WritableTxnMarkerResult(Struct):
    producer_id: Int64 = 0
    topics: list[WritableTxnMarkerTopicResult] = array()


class WriteTxnMarkersResponse(Response, key=27, versions="1-2", flexible="1+"):
    markers: list[WritableTxnMarkerResult] = array()

"""AllocateProducerIds: a broker asks the controller for a block of producer ids.

API key 67. Version 0, flexible.
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Int16, Int32, Int64


class AllocateProducerIdsRequest(Request["AllocateProducerIdsResponse"], key=67, versions="0", flexible="0+"):
    broker_id: Int32 = 0
    broker_epoch: Int64 = -1


class AllocateProducerIdsResponse(Response, key=67, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id_start: Int64 = 0
    producer_id_len: Int32 = 0

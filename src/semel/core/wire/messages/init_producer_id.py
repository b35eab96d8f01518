"""InitProducerId: a producer id and epoch; with a transactional id, fence its former owner.

API key 22. Versions 0-6, flexible from 2.
    1  throttled clients delay themselves
    2  flexible
    3  request +producer_id, +producer_epoch
    4  the broker may answer PRODUCER_FENCED
    5  the broker may answer TRANSACTION_ABORTABLE
    6  request +enable_2pc, +keep_prepared_txn; response +ongoing_txn_producer_id,
       +ongoing_txn_producer_epoch; two-phase commit (KIP-939); not advertised unless switched on
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Bool, Int16, Int32, Int64, String, at


class InitProducerIdRequest(Request["InitProducerIdResponse"], key=22, versions="0-6", flexible="2+"):
    transactional_id: String | None = ""
    transaction_timeout_ms: Int32 = 0
    producer_id: Int64 = at("3+", -1)
    producer_epoch: Int16 = at("3+", -1)
    enable_2pc: Bool = at("6+", False)
    keep_prepared_txn: Bool = at("6+", False)


class InitProducerIdResponse(Response, key=22, versions="0-6", flexible="2+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
    ongoing_txn_producer_id: Int64 = at("6+", -1)
    ongoing_txn_producer_epoch: Int16 = at("6+", -1)

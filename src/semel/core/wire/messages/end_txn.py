"""EndTxn: commit or abort a transaction.

API key 26. Versions 0-5, flexible from 3.
    1  throttled clients delay themselves
    2  the broker may answer PRODUCER_FENCED
    3  flexible
    4  the broker may answer TRANSACTION_ABORTABLE
    5  response +producer_id, +producer_epoch; bumps the epoch (transactions v2)
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Bool, Int16, Int32, Int64, String, at


class EndTxnRequest(Request["EndTxnResponse"], key=26, versions="0-5", flexible="3+"):
    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    committed: Bool = False


class EndTxnResponse(Response, key=26, versions="0-5", flexible="3+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = at("5+", -1, ignorable=True)
    producer_epoch: Int16 = at("5+", -1, ignorable=True)

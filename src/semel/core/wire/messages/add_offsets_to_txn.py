"""AddOffsetsToTxn: a group's offsets join a transaction.

API key 25. Versions 0-4, flexible from 3.
    1  throttled clients delay themselves
    2  the broker may answer PRODUCER_FENCED
    3  flexible
    4  the broker may answer TRANSACTION_ABORTABLE
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Int16, Int32, Int64, String


class AddOffsetsToTxnRequest(Request["AddOffsetsToTxnResponse"], key=25, versions="0-4", flexible="3+"):
    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: String = ""


class AddOffsetsToTxnResponse(Response, key=25, versions="0-4", flexible="3+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0

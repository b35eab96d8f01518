"""ListTransactions: the transactions a broker coordinates.

API key 66. Versions 0-2, flexible from 0.
    1  request +duration_filter
    2  request +transactional_id_pattern
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Int16, Int32, Int64, String, Struct, array, at


class ListTransactionsRequest(Request["ListTransactionsResponse"], key=66, versions="0-2", flexible="0+"):
    state_filters: list[String] = array()
    producer_id_filters: list[Int64] = array()
    duration_filter: Int64 = at("1+", -1)
    transactional_id_pattern: String | None = at("2+", None)


class TransactionState(Struct):
    transactional_id: String = ""
    producer_id: Int64 = 0
    transaction_state: String = ""


class ListTransactionsResponse(Response, key=66, versions="0-2", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: list[String] = array()
    transaction_states: list[TransactionState] = array()

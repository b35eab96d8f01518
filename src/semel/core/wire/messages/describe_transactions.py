"""DescribeTransactions: state and partitions of transactional ids.

API key 65. Version 0, flexible from 0.
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Int16, Int32, Int64, String, Struct, array


class DescribeTransactionsRequest(
    Request["DescribeTransactionsResponse"], key=65, versions="0", flexible="0+"
):
    transactional_ids: list[String] = array()


class TopicData(Struct):
    topic: String = ""
    partitions: list[Int32] = array()


class TransactionState(Struct):
    error_code: Int16 = 0
    transactional_id: String = ""
    transaction_state: String = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: list[TopicData] = array()


class DescribeTransactionsResponse(Response, key=65, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = 0
    transaction_states: list[TransactionState] = array()

"""AddPartitionsToTxn: partitions join a transaction, or a broker verifies that they did.

API key 24. Versions 0-5, flexible from 3.
    1  throttled clients delay themselves
    2  the broker may answer PRODUCER_FENCED
    3  flexible
    4  request +transactions, -v3_and_below_transactional_id, -v3_and_below_producer_id,
       -v3_and_below_producer_epoch, -v3_and_below_topics; response +error_code, +results_by_transaction,
       -results_by_topic_v3_and_below; only brokers send it: several transactions in one request, and
       verification
    5  the broker may answer TRANSACTION_ABORTABLE
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Bool, Int16, Int32, Int64, String, Struct, array, at


class AddPartitionsToTxnTopic(Struct):
    name: String = ""
    partitions: list[Int32] = array()


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    verify_only: Bool = False
    topics: list[AddPartitionsToTxnTopic] = array()


class AddPartitionsToTxnRequest(Request["AddPartitionsToTxnResponse"], key=24, versions="0-5", flexible="3+"):
    transactions: list[AddPartitionsToTxnTransaction] = array("4+")
    v3_and_below_transactional_id: String = at("0-3", "")
    v3_and_below_producer_id: Int64 = at("0-3", 0)
    v3_and_below_producer_epoch: Int16 = at("0-3", 0)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = array("0-3")


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: Int32 = 0
    partition_error_code: Int16 = 0


class AddPartitionsToTxnTopicResult(Struct):
    name: String = ""
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = array()


class AddPartitionsToTxnResult(Struct):
    transactional_id: String = ""
    topic_results: list[AddPartitionsToTxnTopicResult] = array()


class AddPartitionsToTxnResponse(Response, key=24, versions="0-5", flexible="3+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = at("4+", 0, ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = array("4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = array("0-3")

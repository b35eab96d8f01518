"""Rows of __transaction_state: what the coordinator knows of a transactional id.

A record's key starts with 0 as int16, its value with its version as int16. Version 1 (flexible) carries the fields
of transactions v2 as tagged fields.
"""

from semel.core.wire.message import Row
from semel.core.wire.schema import Int8, Int16, Int32, Int64, String, Struct, array, at


class TransactionLogKey(Row, key=0, versions="0", flexible="none"):
    transactional_id: String = ""


class PartitionsSchema(Struct):
    topic: String = ""
    partition_ids: list[Int32] = array()


class TransactionLogValue(Row, key=0, versions="0-1", flexible="1+"):
    producer_id: Int64 = 0
    previous_producer_id: Int64 = at("1+", -1, tag=0)
    next_producer_id: Int64 = at("1+", -1, tag=1)
    producer_epoch: Int16 = 0
    next_producer_epoch: Int16 = at("1+", -1, tag=3)
    transaction_timeout_ms: Int32 = 0
    transaction_status: Int8 = 0
    transaction_partitions: list[PartitionsSchema] | None = array()
    transaction_last_update_timestamp_ms: Int64 = 0
    transaction_start_timestamp_ms: Int64 = 0
    client_transaction_version: Int16 = at("1+", 0, tag=2)

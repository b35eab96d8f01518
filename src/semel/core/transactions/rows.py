"""Transactions as rows of `__transaction_state`, in Kafka's bytes.

Role.   `row_of` and `transaction_of` are each other's reverse; `FORMAT` turns rows into records.
Rules.  * Rows are written in version 1 (transactions v2's fields are tagged) and read in versions 0 and 1.
        * In a cluster with Kafka 3.9 they are written in version 0 (`MEMBER_FORMAT`), without these fields. They are hints there: an
          exhausted epoch leads to a new producer id all the same, and every end follows v1.
        * A transaction in EMPTY has no list of partitions (null); any other has one, perhaps empty.
        * A tombstone ends an id: there is no row for DEAD.
"""

from collections.abc import Mapping
from typing import Final

from semel.core.coordination.outcome import LogRow
from semel.core.coordination.row_format import RowFormat
from semel.core.coordination.row_times import RowTimes
from semel.core.records.build import RecordInput
from semel.core.transactions.states import MOVES, TransactionState
from semel.core.transactions.transaction import NO_PARTITIONS, Transaction
from semel.core.wire.message import Row
from semel.core.wire.messages.transaction_rows import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from semel.errors import CorruptLogError
from semel.types import TopicPartition

TOPIC: Final = "__transaction_state"
_KINDS: Final[Mapping[int, tuple[type[Row], type[Row]]]] = {0: (TransactionLogKey, TransactionLogValue)}
FORMAT: Final = RowFormat(TOPIC, _KINDS)
ROW_TIMES: Final[RowTimes] = {
    TransactionLogValue: ("transaction_last_update_timestamp_ms", "transaction_start_timestamp_ms")
}
_VALUE_VERSION: Final = 1
_STORED: Final = {int(state): state for state, moves in MOVES.items() if moves}


class _MemberFormat(RowFormat):
    """Rows as Kafka 3.9 writes them."""

    def encode(self, row: LogRow, timestamp_ms: int) -> RecordInput:
        if isinstance(row.value, TransactionLogValue):
            row = row._replace(value=_without_later_fields(row.value), value_version=0)
        return super().encode(row, timestamp_ms)


MEMBER_FORMAT: Final = _MemberFormat(TOPIC, _KINDS)


def _without_later_fields(value: TransactionLogValue) -> TransactionLogValue:
    return TransactionLogValue(
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        transaction_timeout_ms=value.transaction_timeout_ms,
        transaction_status=value.transaction_status,
        transaction_partitions=value.transaction_partitions,
        transaction_last_update_timestamp_ms=value.transaction_last_update_timestamp_ms,
        transaction_start_timestamp_ms=value.transaction_start_timestamp_ms,
    )


def row_of(transaction: Transaction) -> LogRow:
    """The row that stores this transaction."""
    partitions = None
    if transaction.state is not TransactionState.EMPTY:
        by_topic: dict[str, list[int]] = {}
        for topic, partition in transaction.partitions:
            by_topic.setdefault(topic, []).append(partition)
        partitions = [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in by_topic.items()]
    return LogRow(
        TransactionLogKey(transactional_id=transaction.transactional_id),
        TransactionLogValue(
            producer_id=transaction.producer_id,
            previous_producer_id=transaction.previous_producer_id,
            next_producer_id=transaction.next_producer_id,
            producer_epoch=transaction.producer_epoch,
            next_producer_epoch=transaction.next_producer_epoch,
            transaction_timeout_ms=transaction.timeout_ms,
            transaction_status=transaction.state,
            transaction_partitions=partitions,
            transaction_last_update_timestamp_ms=transaction.last_update_ms,
            transaction_start_timestamp_ms=transaction.start_ms,
            client_transaction_version=transaction.client_version,
        ),
        _VALUE_VERSION,
    )


def tombstone_of(transactional_id: str) -> LogRow:
    """The row that forgets a transactional id."""
    return LogRow(TransactionLogKey(transactional_id=transactional_id), None)


def id_in(row: LogRow) -> str:
    """The transactional id of the row."""
    if not isinstance(row.key, TransactionLogKey):
        raise CorruptLogError(f"{TOPIC}: {row.key!r} is not a key of this topic")
    return row.key.transactional_id


def transaction_of(row: LogRow) -> Transaction | None:
    """The transaction in a row; None for a tombstone."""
    transactional_id = id_in(row)
    value = row.value
    if value is None:
        return None
    if not isinstance(value, TransactionLogValue):
        raise CorruptLogError(f"{TOPIC}: {value!r} is not a value of this topic")
    state = _STORED.get(value.transaction_status)
    if state is None:
        raise CorruptLogError(
            f"{TOPIC}: {transactional_id} has the status {value.transaction_status}, which is never stored"
        )
    partitions = NO_PARTITIONS  # One shared mapping: most of a million ids have no open transaction.
    if value.transaction_partitions:
        partitions = {
            TopicPartition(one.topic, index): None
            for one in value.transaction_partitions
            for index in one.partition_ids
        }
    return Transaction(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        partitions=partitions,
        start_ms=value.transaction_start_timestamp_ms,
        last_update_ms=value.transaction_last_update_timestamp_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        next_producer_epoch=value.next_producer_epoch,
        client_version=value.client_transaction_version,
    )

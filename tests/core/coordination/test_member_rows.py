"""Rows of coordinators as a member of a cluster with Kafka 3.9 writes them, and as it reads them."""

from semel.core.coordination.outcome import LogRow
from semel.core.coordination.row_format import RowFormat
from semel.core.groups.rows import (
    GROUP_ROWS,
    MEMBER_GROUP_ROWS,
    CommittedOffset,
    offset_row,
    offset_tombstone,
)
from semel.core.records.build import Record, RecordInput
from semel.core.transactions.rows import FORMAT, MEMBER_FORMAT, row_of, transaction_of
from semel.core.transactions.states import TransactionState
from semel.core.transactions.transaction import TRANSACTIONS_V2, Transaction
from semel.core.wire.messages.group_rows import GroupMetadataKey, GroupMetadataValue
from semel.core.wire.primitives import ZERO_UUID


def test_a_member_writes_no_version_that_kafka_3_9_does_not_write() -> None:
    """Transactions in 0 and offsets in 3; what came later is left out, and every version is still read."""
    transaction = Transaction("tx", 7, 3, 60_000).prepared(
        commit=False, client_version=TRANSACTIONS_V2, now_ms=5, next_producer_id=8
    )
    record = MEMBER_FORMAT.encode(row_of(transaction), 5)
    assert record.value is not None
    assert record.value[:2] == b"\0\0"
    read = transaction_of(_read(MEMBER_FORMAT, record))
    assert read is not None
    assert (read.producer_id, read.producer_epoch, read.state) == (7, 4, TransactionState.PREPARE_ABORT)
    assert (read.next_producer_id, read.client_version) == (-1, 0)
    newer = FORMAT.encode(row_of(transaction), 5)
    assert transaction_of(_read(MEMBER_FORMAT, newer)) == transaction

    committed = CommittedOffset(40, 2, "m", 5, topic_id=b"i" * 16)
    with_id = offset_row("g", "orders", 0, committed)
    for version, row in [
        (3, with_id),
        (3, offset_row("g", "orders", 0, committed._replace(topic_id=ZERO_UUID))),
        (1, offset_row("g", "orders", 0, committed._replace(expire_timestamp_ms=9))),
        (3, LogRow(GroupMetadataKey(group="g"), GroupMetadataValue(protocol=None, leader=None), 4)),
    ]:
        value = MEMBER_GROUP_ROWS.encode(row, 5).value
        assert value is not None
        assert value[:2] == version.to_bytes(2)
    assert GROUP_ROWS.encode(with_id, 5).value != MEMBER_GROUP_ROWS.encode(with_id, 5).value
    tombstone = offset_tombstone("g", "orders", 0)
    assert MEMBER_GROUP_ROWS.encode(tombstone, 5) == GROUP_ROWS.encode(tombstone, 5)


def _read(row_format: RowFormat, record: RecordInput) -> LogRow:
    row = row_format.decode(Record(0, 5, record.key, record.value, (), -1))
    assert row is not None
    return row

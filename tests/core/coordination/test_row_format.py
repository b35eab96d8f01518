"""Rows survive as records; what is no row is named; what is newer is passed over."""

import pytest

from semel.core.coordination.outcome import LogRow
from semel.core.coordination.row_format import RowFormat
from semel.core.records.build import Record
from semel.core.wire.messages.group_rows import OffsetCommitKey, OffsetCommitValue
from semel.errors import CorruptLogError

FORMAT = RowFormat("__consumer_offsets", {1: (OffsetCommitKey, OffsetCommitValue)})
KEY = OffsetCommitKey(group="g", topic="t", partition=3)


def record(key: bytes | None, value: bytes | None) -> Record:
    return Record(offset=7, timestamp_ms=5, key=key, value=value, headers=(), sequence=-1)


@pytest.mark.parametrize(
    "row",
    [
        LogRow(KEY, None),
        LogRow(KEY, OffsetCommitValue(offset=9, leader_epoch=2, metadata="m", commit_timestamp=5), 3),
    ],
)
def test_a_row_comes_back_as_it_was_written(row: LogRow) -> None:
    written = FORMAT.encode(row, timestamp_ms=5)
    assert FORMAT.decode(record(written.key, written.value)) == row


def test_the_bytes_are_kafkas() -> None:
    written = FORMAT.encode(LogRow(KEY, OffsetCommitValue(offset=9, commit_timestamp=5), 3), timestamp_ms=5)
    assert written.key == b"\0\1\0\1g\0\1t\0\0\0\3"
    assert written.value == b"\0\3" + (9).to_bytes(8, "big") + b"\xff\xff\xff\xff\0\0" + (5).to_bytes(
        8, "big"
    )


def test_a_kind_of_row_nobody_knows_is_passed_over() -> None:
    assert FORMAT.decode(record(b"\0\x63whatever", b"\0\0")) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"\0\3"),
        (b"\0", b"\0\3"),
        (b"\0\1\0\5g", b"\0\3"),
        (b"\0\1\0\1g\0\1t\0\0\0\3", b"\3"),
        (b"\0\1\0\1g\0\1t\0\0\0\3", b"\0\x63"),
        (b"\0\1\0\1g\0\1t\0\0\0\3", b"\0\3\0"),
    ],
)
def test_what_is_no_row_is_corrupt(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(CorruptLogError, match="record at 7"):
        FORMAT.decode(record(key, value))

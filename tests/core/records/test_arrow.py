"""Columns in, columns out: Arrow tables become the batches the plain builder makes, and come back.

Method: records by property go both ways, and must be equal to the plain Python reference byte for byte and row for
row; then each rule of a reader (offsets, visibility, limits) and each type a writer may hand in.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.records.arrow import decode_batches
from semel.core.records.arrow_encode import encode_batch, encode_batches
from semel.core.records.arrow_schema import HEADERS_TYPE, SCHEMA
from semel.core.records.batch import TimestampType, headers, read_header
from semel.core.records.build import Record, RecordInput, build_batch, iter_records
from semel.core.records.control import build_marker
from semel.core.records.visibility import CommittedOnly
from semel.errors import ConfigError, CorruptBatchError, InvalidRecordError, RecordTooLargeError
from support.records.records_kit import CODECS, SEQUENCE_MAX, expected, record_lists, sequences

pytestmark = pytest.mark.usefixtures("every_way")

ABC = [RecordInput(b"a", b"1", 5), RecordInput(b"b", b"2", 6), RecordInput(b"c", b"3", 7)]


def table_of(records: Sequence[RecordInput]) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "key": pa.array([record.key for record in records], pa.binary()),
            "value": pa.array([record.value for record in records], pa.binary()),
            "timestamp": pa.array([record.timestamp_ms for record in records], pa.timestamp("ms", "UTC")),
            "headers": pa.array(
                [[{"key": k, "value": v} for k, v in record.headers] or None for record in records],
                HEADERS_TYPE,
            ),
        }
    )


def rows_of(batch: pa.RecordBatch) -> list[Record]:
    """The rows as the plain reader would give them (a column knows no sequence)."""
    batch.validate(full=True)
    assert batch.schema == SCHEMA
    columns: list[list[Any]] = [
        batch.column(name).to_pylist() for name in ("offset", "key", "value", "headers")
    ]
    stamps = batch.column("timestamp").cast(pa.int64()).to_pylist()
    return [
        Record(offset, stamp, key, value, tuple((pair["key"], pair["value"]) for pair in pairs or ()), -1)
        for offset, key, value, pairs, stamp in zip(*columns, stamps, strict=True)
    ]


@given(records=record_lists, codec=st.sampled_from(CODECS), base_sequence=sequences)
def test_columns_become_the_same_bytes_as_plain_records(
    records: list[RecordInput], codec: int, base_sequence: int
) -> None:
    settings: dict[str, Any] = {
        "compression": codec, "producer_id": 9, "producer_epoch": 1, "base_sequence": base_sequence,
        "transactional": True, "partition_leader_epoch": 4, "base_offset": 3,
    }  # fmt: skip
    assert encode_batch(table_of(records), **settings) == build_batch(records, **settings)


@given(
    batches=st.lists(st.tuples(record_lists, st.sampled_from(CODECS)), min_size=1, max_size=4),
    skip=st.integers(0, 40),
)
def test_batches_become_the_same_rows_as_plain_records(
    batches: list[tuple[list[RecordInput], int]], skip: int
) -> None:
    buffer, rows, offset = bytearray(b"before"), list[Record](), 10
    for records, codec in batches:
        buffer += build_batch(records, base_offset=offset, compression=codec)
        rows += expected(records, base_offset=offset)
        offset += len(records)
    decoded = decode_batches(buffer, position=6, fetch_offset=10 + skip)
    assert rows_of(decoded.records) == rows[skip:]
    assert decoded.position == len(buffer)
    assert decoded.next_offset == max(offset, 10 + skip)


@given(records=record_lists, size=st.integers(62, 3000), base_sequence=sequences)
def test_rows_are_cut_into_batches_that_keep_the_size_and_the_sequence(
    records: list[RecordInput], size: int, base_sequence: int
) -> None:
    batches = list(
        encode_batches(
            table_of(records),
            batch_size_bytes=size,
            producer_id=1,
            producer_epoch=0,
            base_sequence=base_sequence,
        )
    )
    read = [record for batch in batches for record in iter_records(batch.data, 0, read_header(batch.data))]
    assert [record._replace(offset=0) for record in read] == [
        record._replace(offset=0) for record in expected(records, base_sequence=base_sequence)
    ]
    for batch, after in zip(batches, [*batches[1:], None], strict=True):
        header = read_header(batch.data)
        assert (header.records_count, header.max_timestamp) == (batch.records_count, batch.max_timestamp)
        assert len(batch.data) <= size or batch.records_count == 1
        if after is not None:  # One more row would not have fitted.
            rows = [r for b in (batch, after) for r in iter_records(b.data, 0, read_header(b.data))]
            inputs = [RecordInput(r.key, r.value, r.timestamp_ms, r.headers) for r in rows]
            assert len(build_batch(inputs[: batch.records_count + 1])) > size


def test_a_sequence_wraps_inside_and_between_batches() -> None:
    batches = encode_batches(
        table_of(ABC), batch_size_bytes=72, producer_id=1, producer_epoch=0, base_sequence=SEQUENCE_MAX - 1
    )
    assert [read_header(batch.data).base_sequence for batch in batches] == [SEQUENCE_MAX - 1, SEQUENCE_MAX, 0]
    whole = encode_batch(table_of(ABC), producer_id=1, producer_epoch=0, base_sequence=SEQUENCE_MAX - 1)
    assert [r.sequence for r in iter_records(whole, 0, read_header(whole))] == [
        SEQUENCE_MAX - 1,
        SEQUENCE_MAX,
        0,
    ]


# --- Reading -------------------------------------------------------------------------------------------------


def test_a_broker_s_append_time_is_everybodys() -> None:
    batch = build_batch(ABC, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time_ms=777)
    assert rows_of(decode_batches(batch).records) == expected(ABC, stamp=777)


def test_gaps_and_empty_batches_of_compaction_are_read() -> None:
    buffer = build_batch(ABC[:2], offset_deltas=[1, 4], last_offset_delta=9)
    buffer += build_batch([], last_offset_delta=4, base_offset=10)
    decoded = decode_batches(buffer)
    assert decoded.records.column("offset").to_pylist() == [1, 4]
    assert decoded.next_offset == 15
    assert decode_batches(buffer, fetch_offset=2).records.column("offset").to_pylist() == [4]


def test_nothing_visible_is_an_empty_batch_of_the_same_columns() -> None:
    marker = build_marker(
        producer_id=1, producer_epoch=0, coordinator_epoch=0, commit=True, timestamp_ms=1, base_offset=8
    )
    for buffer, after in ((b"", 0), (marker, 9)):
        decoded = decode_batches(buffer)
        assert decoded.records.num_rows == 0
        assert decoded.records.schema == SCHEMA
        assert decoded.next_offset == after


def test_readers_of_committed_records_see_no_aborted_ones() -> None:
    """Two producers interleave; one aborts, then commits its next transaction; a third is not transactional."""

    def data(producer_id: int, base_offset: int, *, transactional: bool = True) -> bytearray:
        name = b"%d@%d" % (producer_id, base_offset)
        return build_batch(
            [RecordInput(None, name)], base_offset=base_offset, producer_id=producer_id, producer_epoch=0,
            base_sequence=0, transactional=transactional,
        )  # fmt: skip

    def end(producer_id: int, base_offset: int, *, commit: bool) -> bytearray:
        return build_marker(
            producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, commit=commit, timestamp_ms=1,
            base_offset=base_offset,
        )  # fmt: skip

    log = [
        data(1, 0), data(2, 1), data(3, 2, transactional=False), data(1, 3), end(1, 4, commit=False), data(1, 5),
        end(2, 6, commit=True), end(1, 7, commit=True), data(2, 8), end(2, 9, commit=False), build_batch(ABC, base_offset=10),
    ]  # fmt: skip
    buffer = bytearray().join(log)
    aborted = [(2, 8), (1, 0)]
    decoded = decode_batches(buffer, visible=CommittedOnly(aborted))
    assert decoded.records.column("value").to_pylist() == [b"2@1", b"3@2", b"1@5", b"1", b"2", b"3"]
    assert decoded.next_offset == 13
    everything = decode_batches(buffer).records
    assert everything.column("offset").to_pylist() == [
        0,
        1,
        2,
        3,
        5,
        8,
        10,
        11,
        12,
    ]  # Markers are never shown.

    # The same in steps of one batch: the answer for a batch asked twice is the same.
    visible, position, offset, values = CommittedOnly(aborted), 0, 0, list[bytes]()
    while position < len(buffer):
        step = decode_batches(buffer, position=position, fetch_offset=offset, visible=visible, size_max=1)
        values += step.records.column("value").to_pylist()
        position, offset = step.position, step.next_offset
    assert values == decoded.records.column("value").to_pylist()


def test_a_call_stops_at_its_limit_and_goes_on_from_there() -> None:
    batches = [build_batch(ABC, base_offset=3 * n, compression=n % 5) for n in range(7)]
    plain = len(build_batch(ABC)) - 61
    buffer = bytearray().join(batches)
    seen, sizes, position, offset = list[int](), list[int](), 0, 0
    while position < len(buffer):
        step = decode_batches(buffer, position=position, fetch_offset=offset, size_max=2 * plain)
        seen += step.records.column("offset").to_pylist()
        sizes.append(step.records.num_rows)
        position, offset = step.position, step.next_offset
    assert seen == list(range(21))
    assert sizes == [6, 6, 6, 3]
    for size_max in (0, 1 << 31):
        with pytest.raises(ConfigError, match=f"size_max {size_max}"):
            decode_batches(buffer, size_max=size_max)


def test_a_batch_cut_off_by_the_end_is_left_for_later() -> None:
    buffer = build_batch(ABC) + build_batch(ABC, base_offset=3)
    first = read_header(buffer).size_bytes
    for end in range(first, len(buffer)):
        decoded = decode_batches(memoryview(buffer)[:end])
        assert (decoded.records.num_rows, decoded.position, decoded.next_offset) == (3, first, 3)
    assert decode_batches(buffer, end=first).position == first


def test_damage_is_named_with_its_offset() -> None:
    buffer = build_batch(ABC) + build_batch(ABC, base_offset=3)
    buffer[-1] ^= 1
    with pytest.raises(CorruptBatchError, match="at offset 3: checksum"):
        decode_batches(buffer)
    with pytest.raises(CorruptBatchError, match="at offset 3: record 2"):
        decode_batches(buffer, check_crcs=False)
    for base_offset in (-1, (1 << 63) - 1):
        with pytest.raises(CorruptBatchError, match="are outside 0 to"):
            decode_batches(build_batch(ABC, base_offset=base_offset))


def test_a_header_key_that_is_no_text_is_shown_with_replacements() -> None:
    batch = build_batch([RecordInput(None, None, 1, [("é", b"1"), ("ok", b"2")])])
    hurt = bytes(batch).replace("é".encode(), b"\xff\xfe")
    (row,) = rows_of(decode_batches(hurt, check_crcs=False).records)
    assert row.headers == (("\ufffd\ufffd", b"1"), ("ok", b"2"))
    assert row == next(iter_records(hurt, 0, read_header(hurt)))


# --- Writing -------------------------------------------------------------------------------------------------


def values_read(rows: pa.RecordBatch | pa.Table, **settings: Any) -> list[bytes | None]:
    batches = [batch.data for batch in encode_batches(rows, **settings)]
    return [
        record.value
        for data in batches
        for _, header in headers(data)
        for record in iter_records(data, 0, header)
    ]


@pytest.mark.parametrize(
    "kind",
    [pa.binary(), pa.string(), pa.large_binary(), pa.large_string(), pa.binary_view(), pa.string_view(),
     pa.dictionary(pa.int32(), pa.string())],
    ids=str,
)  # fmt: skip
def test_bytes_and_text_of_every_kind_are_taken(kind: pa.DataType) -> None:
    texts = ["one", None, "", "a longer text than fits a view", "zwölf"]
    column = pa.array(texts, pa.string()).cast(kind)
    wanted = [None if text is None else text.encode() for text in texts]
    assert values_read(pa.record_batch({"value": column})) == wanted
    assert (
        values_read(pa.record_batch({"value": column.slice(1, 3)})) == wanted[1:4]
    )  # A slice has an offset.
    assert (
        values_read(pa.table({"value": pa.chunked_array([column, column.slice(2)])})) == wanted + wanted[2:]
    )


def test_fixed_sizes_and_nulls_are_taken() -> None:
    fixed = pa.array([b"abcd", None, b"efgh"], pa.binary(4))
    assert values_read(pa.record_batch({"value": fixed})) == [b"abcd", None, b"efgh"]
    assert values_read(pa.record_batch({"key": fixed, "value": pa.nulls(3)})) == [None] * 3
    assert values_read(pa.record_batch({"key": fixed})) == [None] * 3
    assert values_read(pa.record_batch({"value": pa.array([], pa.binary())})) == []


def test_timestamps_come_from_the_column_or_the_caller() -> None:
    values = pa.array([b"x"] * 3)
    columns = {
        "ms": pa.array([5, None, 7], pa.timestamp("ms")),
        "us": pa.array([5_999, None, 7_000], pa.timestamp("us", "Europe/Paris")),
        "int": pa.array([5, None, 7], pa.int32()),
    }
    for name, column in columns.items():
        for rows in (values, column), (values.slice(1), column.slice(1)):
            batch = encode_batch(pa.record_batch({"value": rows[0], "timestamp": rows[1]}), timestamp_ms=6)
            stamps = [record.timestamp_ms for record in iter_records(batch, 0, read_header(batch))]
            assert stamps == [5, 6, 7][-len(rows[0]) :], name
    without = encode_batch(pa.record_batch({"value": values}), timestamp_ms=6)
    assert read_header(without).base_timestamp == read_header(without).max_timestamp == 6


def test_headers_are_taken_from_slices_and_wide_lists() -> None:
    records = [RecordInput(None, b"%d" % n, n, [("k", b"%d" % n)] * (n % 3)) for n in range(9)]
    rows = table_of(records)
    wide = rows.set_column(3, "headers", rows.column("headers").cast(pa.large_list(HEADERS_TYPE.value_type)))
    for part in (rows, wide):
        batch = encode_batch(part.slice(2, 5))
        assert list(iter_records(batch, 0, read_header(batch))) == expected(records[2:7])
    sliced_inside = pa.ListArray.from_arrays(
        pa.array([0, 1, 3], pa.int32()), pa.StructArray.from_arrays(
            [pa.array(["x", "a", "b", "c"]), pa.array([b"-", b"1", None, b"3"])], ["key", "value"]
        ).slice(1),
    )  # fmt: skip
    batch = encode_batch(pa.record_batch({"value": pa.array([b"p", b"q"]), "headers": sliced_inside}))
    assert [r.headers for r in iter_records(batch, 0, read_header(batch))] == [
        (("a", b"1"),),
        (("b", None), ("c", b"3")),
    ]


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"valu": [b"x"]}, "columns valu: there must be a key or a value column"),
        ({"value": [17]}, "column value has type int64: cast it to binary or string first"),
        ({"value": [b"x"], "timestamp": ["noon"]}, "column timestamp has type string"),
        ({"value": [b"x", b"y"], "timestamp": [0, -5]}, "row 1: its timestamp is negative"),
        (
            {"value": [b"x"], "headers": [["k"]]},
            "column headers has type list<.*: it must be a list of structs",
        ),
        ({"value": [b"x"], "headers": [[{"key": "k"}]]}, "column headers has type"),
        (
            {"value": [b"x", b"y"], "headers": [None, [{"key": None, "value": b""}]]},
            "row 1: a header has no key",
        ),
        ({"value": [b"x"], "headers": [[{"key": "k", "value": b""}, None]]}, "a header is null"),
        ({"value": [b"x"], "headers": [[{"key": 5, "value": b""}]]}, "column headers.key has type int64"),
    ],
)
def test_what_cannot_be_a_record_is_named(columns: dict[str, list[Any]], reason: str) -> None:
    with pytest.raises(InvalidRecordError, match=reason):
        list(encode_batches(pa.record_batch({name: pa.array(cells) for name, cells in columns.items()})))


def test_a_damaged_column_is_refused_not_read() -> None:
    """Arrow itself looks only at the ends of the offsets; a cell in the middle may point anywhere."""
    offsets = pa.py_buffer(b"".join(n.to_bytes(4, "little", signed=True) for n in (0, 1 << 30, 2)))
    column = pa.Array.from_buffers(pa.binary(), 2, [None, offsets, pa.py_buffer(b"ab")])
    with pytest.raises(InvalidRecordError, match="row 0: a cell points outside its column"):
        list(encode_batches(pa.record_batch({"value": column})))


def test_rows_are_counted_over_the_pieces_of_a_table() -> None:
    pieces = [pa.array([b"x"] * 4), pa.array([b"y"] * 3)]
    stamps = pa.chunked_array([pa.array([1, 2, 3, 4]), pa.array([5, -9, 7])])
    with pytest.raises(InvalidRecordError, match="row 5: its timestamp is negative"):
        list(
            encode_batches(
                pa.table({"value": pa.chunked_array(pieces), "timestamp": stamps}), batch_size_bytes=80
            )
        )


def test_sizes_have_limits() -> None:
    rows = pa.record_batch({"value": pa.array([b"x" * 100] * 3)})
    for size in (61, 1 << 31):
        with pytest.raises(ConfigError, match=f"batch_size_bytes {size}"):
            list(encode_batches(rows, batch_size_bytes=size))
    with pytest.raises(InvalidRecordError, match="no rows"):
        encode_batch(rows.slice(3))
    assert [batch.records_count for batch in encode_batches(rows, batch_size_bytes=100)] == [1, 1, 1]


def test_a_record_or_a_batch_beyond_two_gigabytes_is_refused_before_memory_is_taken() -> None:
    """Columns that claim 3 GiB: every cell is the same 1.5 GiB of pages nobody ever touches."""
    import mmap

    size = 3 << 29
    pages = pa.py_buffer(mmap.mmap(-1, size))
    offsets = pa.py_buffer(b"".join(n.to_bytes(8, "little") for n in (0, size)))
    cell = pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, pages])
    with pytest.raises(RecordTooLargeError, match="row 0 is longer than a batch can be"):
        encode_batch(pa.record_batch({"key": cell, "value": cell}))

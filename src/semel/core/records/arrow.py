"""Record batches to Arrow columns, for consumers of many records.

Role.   `decode_batches` turns the bytes of a fetch, many batches long, into one `pyarrow.RecordBatch` without
        an object per record.
Flow.   Fetch -> per batch: checksum, visibility, decompression, `kernels.scan` -> columns of exactly the sizes
        found -> `kernels.fill` per batch. The other way: `arrow_encode`.
Rules.  * Columns: offset, timestamp (UTC, ms), key, value, headers. A record without headers has null headers,
          as in Spark's own connector. Records of a LOG_APPEND_TIME batch carry the time of the append.
        * Control batches, hidden batches and records below the fetch offset are left out; the next fetch offset is
          behind them.
        * A call decodes at most `size_max` bytes of records (but at least one batch) and returns where it stopped. This
          bounds memory per response and keeps columns below Arrow's limit of 2 GiB.
        * Header keys are text. Invalid UTF-8 is shown with replacement characters, as in Kafka.
"""

from collections.abc import Callable
from ctypes import Array, addressof, c_int64
from typing import Final, NamedTuple

import pyarrow as pa

from semel.core.records import kernels
from semel.core.records.arrow_schema import HEADER_TYPE, HEADERS_TYPE, SCHEMA, TIMESTAMP_TYPE
from semel.core.records.batch import TIMESTAMP_TYPE_BIT, BatchHeader, check_crc, headers
from semel.core.records.build import records_section
from semel.core.records.compression import DECOMPRESSED_SIZE_MAX
from semel.core.records.kernels import (
    COLUMN_DATA,
    COLUMN_NULLS,
    COLUMN_OFFSETS,
    COLUMN_VALIDITY,
    FILL_HEADER_KEY,
    FILL_HEADER_VALUE,
    FILL_HEADERS,
    FILL_KEY,
    FILL_OFFSETS,
    FILL_SLOTS,
    FILL_TIMESTAMPS,
    FILL_VALUE,
    FOUND_HEADER_KEY_BYTES,
    FOUND_HEADER_VALUE_BYTES,
    FOUND_HEADERS,
    FOUND_KEPT,
    FOUND_KEY_BYTES,
    FOUND_VALUE_BYTES,
    Found,
)
from semel.errors import ConfigError, CorruptBatchError
from semel.types import BytesLike

_LONG_MAX: Final = (1 << 63) - 1
_Columns: Final = c_int64 * FILL_SLOTS
COLUMN_BYTES_MAX: Final = (1 << 31) - 1  # Offsets of Arrow's binary columns are 32 bits wide.

Visibility = Callable[[BytesLike, int, BatchHeader], bool]


class Decoded(NamedTuple):
    """The records `decode_batches` read, the position where it stopped, and the offset after the last batch it
    passed."""

    records: pa.RecordBatch
    position: int
    next_offset: int


class _Section(NamedTuple):
    """The validated records of one batch, and their sizes from `skip_below` on."""

    data: BytesLike
    header: BatchHeader
    skip_below: int
    found: Found


def decode_batches(
    buffer: BytesLike,
    *,
    position: int = 0,
    end: int | None = None,
    fetch_offset: int = 0,
    visible: Visibility | None = None,
    check_crcs: bool = True,
    size_max: int = DECOMPRESSED_SIZE_MAX,
) -> Decoded:
    """The records of the whole batches in the buffer, from `fetch_offset` on, as columns.

    If `size_max` is reached before the end of the buffer, call again with the returned position and offset. A batch cut
    off by the end is not read; the position stays before it. `visible` is called for each batch in order
    (`visibility.CommittedOnly`). The buffer must not change during the call.
    """
    if not 0 < size_max <= COLUMN_BYTES_MAX:
        raise ConfigError(f"size_max {size_max}: it must be between 1 and {COLUMN_BYTES_MAX}")
    sections: list[_Section] = []
    size = 0
    for at, header in headers(buffer, position, end):
        _check_offsets(header)
        if check_crcs:
            check_crc(buffer, at, header)
        shown = visible is None or visible(buffer, at, header)
        if shown and not header.is_control and header.last_offset >= fetch_offset:
            data = records_section(buffer, at, header)
            if sections and size + len(data) > size_max:
                break
            skip_below = fetch_offset - header.base_offset
            found = kernels.scan(data, header, gaps=True, skip_below=skip_below)
            sections.append(_Section(data, header, skip_below, found))
            size += len(data)
        position = at + header.size_bytes
        fetch_offset = max(fetch_offset, header.next_offset)
    return Decoded(_columns(sections), position, fetch_offset)


def _check_offsets(header: BatchHeader) -> None:
    if not 0 <= header.base_offset <= _LONG_MAX - header.last_offset_delta:
        raise CorruptBatchError(
            f"offsets {header.base_offset} to {header.last_offset} are outside 0 to {_LONG_MAX}",
            base_offset=header.base_offset,
        )


def _columns(sections: list[_Section]) -> pa.RecordBatch:
    """Allocate columns of the scanned sizes and fill them."""

    def total(slot: int) -> int:
        return sum(section.found[slot] for section in sections)

    rows = total(FOUND_KEPT)
    if rows == 0:
        return pa.RecordBatch.from_pylist([], schema=SCHEMA)
    columns = _Columns()
    offsets = pa.allocate_buffer(8 * rows)
    timestamps = pa.allocate_buffer(8 * rows)
    columns[FILL_OFFSETS] = offsets.address
    columns[FILL_TIMESTAMPS] = timestamps.address
    keys = _Column(columns, FILL_KEY, rows, total(FOUND_KEY_BYTES))
    values = _Column(columns, FILL_VALUE, rows, total(FOUND_VALUE_BYTES))
    headers_column = _HeadersColumn(columns, rows, total) if total(FOUND_HEADERS) else None
    address = addressof(columns)
    for section in sections:
        stamped = section.header.attributes & TIMESTAMP_TYPE_BIT
        kernels.fill(
            section.data,
            section.header,
            address,
            skip_below=section.skip_below,
            append_time_ms=section.header.max_timestamp if stamped else None,
        )
    return pa.RecordBatch.from_arrays(
        [
            pa.Array.from_buffers(pa.int64(), rows, [None, offsets], 0),
            pa.Array.from_buffers(TIMESTAMP_TYPE, rows, [None, timestamps], 0),
            keys.binary(),
            values.binary(),
            headers_column.lists() if headers_column else pa.nulls(rows, HEADERS_TYPE),
        ],
        schema=SCHEMA,
    )


class _Column:
    """The buffers of one column while kernels fill it."""

    __slots__ = ("columns", "data", "offsets", "rows", "slot", "validity")

    def __init__(self, columns: Array[c_int64], slot: int, rows: int, data_bytes: int) -> None:
        self.rows = rows
        self.offsets = pa.allocate_buffer(4 * (rows + 1))
        self.data = pa.allocate_buffer(data_bytes)
        self.validity = pa.py_buffer(
            bytearray(b"\xff") * ((rows + 7) // 8)
        )  # Kernels clear the bits of nulls.
        self.columns = columns
        self.slot = slot
        columns[slot + COLUMN_OFFSETS] = self.offsets.address
        columns[slot + COLUMN_DATA] = self.data.address
        columns[slot + COLUMN_VALIDITY] = self.validity.address

    @property
    def nulls(self) -> int:
        return self.columns[self.slot + COLUMN_NULLS]

    def binary(self) -> pa.Array:
        nulls = self.nulls
        buffers = [self.validity if nulls else None, self.offsets, self.data]
        return pa.Array.from_buffers(pa.binary(), self.rows, buffers, nulls)


class _HeadersColumn:
    """The buffers of the headers: a list per record, and below them a key and a value per header."""

    __slots__ = ("keys", "outer", "values")

    def __init__(self, columns: Array[c_int64], rows: int, total: Callable[[int], int]) -> None:
        count = total(FOUND_HEADERS)
        self.outer = _Column(columns, FILL_HEADERS, rows, 0)
        self.keys = _Column(columns, FILL_HEADER_KEY, count, total(FOUND_HEADER_KEY_BYTES))
        self.values = _Column(columns, FILL_HEADER_VALUE, count, total(FOUND_HEADER_VALUE_BYTES))

    def lists(self) -> pa.Array:
        pairs = pa.StructArray.from_arrays(
            [_text(self.keys.binary()), self.values.binary()], fields=list(HEADER_TYPE)
        )
        buffers = [self.outer.validity, self.outer.offsets]
        return pa.Array.from_buffers(
            HEADERS_TYPE, self.outer.rows, buffers, self.outer.nulls, children=[pairs]
        )


def _text(keys: pa.Array) -> pa.Array:
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:  # Some key is not UTF-8: a rare case, which may be slow.
        return pa.array([key.decode(errors="replace") for key in keys.to_pylist()], pa.string())

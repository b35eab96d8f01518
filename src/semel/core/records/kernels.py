"""Reading records at memory speed: validate a section of records, then copy it to Arrow columns.

Role.   The loops that read records. `build.check_records` uses `scan`, `arrow` uses `scan` and `fill`.
Flow.   `scan` checks every bound and adds up sizes -> the caller allocates columns -> `fill` trusts the scan.
Rules.  * `scan` never reads outside the given bytes. It accepts exactly the bytes `build.parse` accepts, and refuses
          with the same finding.
        * `fill` may run only on unchanged bytes that `scan` accepted, with room for exactly the sizes that `scan`
          reported.
        * Records, keys and values may be as large as the format allows: sizes and positions are 64 bits wide.
Elsewhere. Columns to records: `write_kernels`. Compiling and memory access: `memory`.
"""

from ctypes import addressof, c_int64
from typing import Final

from semel.core.records.batch import BatchHeader
from semel.core.records.build import RecordFacts
from semel.core.records.flaws import HEADER_MIN, RECORD_BODY_MIN, RECORD_MIN, Finding, Flaw, corrupt
from semel.core.records.memory import (
    SCRATCH_LONGS,
    copy,
    helper,
    kernel,
    load_byte,
    load_long,
    read_int,
    read_long,
    store_byte,
    store_int,
    store_long,
    take,
)
from semel.core.records.native import address
from semel.core.records.varint import CUT, TOO_LARGE
from semel.types import NO_TIMESTAMP, BytesLike

_COUNT: Final = int(Flaw.COUNT)
_RECORDS_MISSING: Final = int(Flaw.RECORDS_MISSING)
_NUMBER_CUT: Final = int(Flaw.NUMBER_CUT)
_NUMBER_TOO_LARGE: Final = int(Flaw.NUMBER_TOO_LARGE)
_RECORD_LENGTH: Final = int(Flaw.RECORD_LENGTH)
_TIMESTAMP: Final = int(Flaw.TIMESTAMP)
_OFFSET_DELTA: Final = int(Flaw.OFFSET_DELTA)
_KEY_LENGTH: Final = int(Flaw.KEY_LENGTH)
_VALUE_LENGTH: Final = int(Flaw.VALUE_LENGTH)
_HEADER_COUNT: Final = int(Flaw.HEADER_COUNT)
_HEADER_KEY_LENGTH: Final = int(Flaw.HEADER_KEY_LENGTH)
_HEADER_VALUE_LENGTH: Final = int(Flaw.HEADER_VALUE_LENGTH)
_RECORD_REST: Final = int(Flaw.RECORD_REST)
_BATCH_REST: Final = int(Flaw.BATCH_REST)
_BAD_LENGTH: Final = -3  # Besides CUT and TOO_LARGE: a number that was read and is invalid.
_LONG_MIN: Final = -(1 << 63)
_LONG_MAX: Final = (1 << 63) - 1

# The result of `scan`: a flaw (0: none) and its place, and the sizes of the kept records.
FOUND_FLAW, FOUND_RECORD, FOUND_POSITION, FOUND_VALUE = 0, 1, 2, 3
FOUND_KEPT, FOUND_KEY_BYTES, FOUND_VALUE_BYTES = 4, 5, 6
FOUND_HEADERS, FOUND_HEADER_KEY_BYTES, FOUND_HEADER_VALUE_BYTES = 7, 8, 9
FOUND_LARGEST, FOUND_SMALLEST, FOUND_KEYLESS = 10, 11, 12  # As in `build.RecordFacts`, of all records.
Found = list[int]
_Found: Final = c_int64 * SCRATCH_LONGS

# Layout of the columns for `fill`, and their fill levels: six longs per column.
COLUMN_OFFSETS, COLUMN_DATA, COLUMN_VALIDITY, COLUMN_ROWS, COLUMN_USED, COLUMN_NULLS = 0, 1, 2, 3, 4, 5
_COLUMN_SLOTS: Final = 6
FILL_OFFSETS, FILL_TIMESTAMPS = 0, 1
FILL_KEY: Final = 2
FILL_VALUE: Final = FILL_KEY + _COLUMN_SLOTS
FILL_HEADERS: Final = (
    FILL_VALUE + _COLUMN_SLOTS
)  # Lists: no data; offsets at address 0 if no record has headers.
FILL_HEADER_KEY: Final = FILL_HEADERS + _COLUMN_SLOTS
FILL_HEADER_VALUE: Final = FILL_HEADER_KEY + _COLUMN_SLOTS
FILL_SLOTS: Final = FILL_HEADER_VALUE + _COLUMN_SLOTS


def scan(data: BytesLike, header: BatchHeader, *, gaps: bool, skip_below: int = 0) -> Found:
    """Validate the records or raise `CorruptBatchError`; returns the sizes of records with offset deltas from
    `skip_below` on."""
    found = _Found()
    flaw = SCAN.run(
        address(data),
        len(data),
        header.records_count,
        header.last_offset_delta,
        header.base_timestamp,
        gaps,
        skip_below,
        addressof(found),
    )
    if flaw:
        finding = Finding(Flaw(flaw), found[FOUND_RECORD], found[FOUND_POSITION], found[FOUND_VALUE])
        raise corrupt(finding, header.base_offset)
    return found[:]


def fill(
    data: BytesLike, header: BatchHeader, columns: int, *, skip_below: int, append_time_ms: int | None
) -> None:
    """Append records that `scan` accepted, for the same `skip_below`, to the columns described at an address."""
    FILL.run(
        address(data),
        header.records_count,
        header.base_offset,
        header.base_timestamp if append_time_ms is None else append_time_ms,
        append_time_ms is not None,
        skip_below,
        columns,
    )


def survey(data: BytesLike, header: BatchHeader, gaps: bool) -> RecordFacts:
    """The compiled `build.survey_in_python`."""
    found = scan(data, header, gaps=gaps)
    return tuple.__new__(RecordFacts, found[FOUND_LARGEST : FOUND_KEYLESS + 1])


def _scan(
    start: int,
    size: int,
    count: int,
    last_offset_delta: int,
    base_timestamp: int,
    gaps: int,
    skip_below: int,
    found: int,
) -> int:
    """Validate `count` records in `size` bytes. Offset deltas under `skip_below` add no sizes. Returns the flaw, or 0."""
    scan_records(start, start + size, count, last_offset_delta, base_timestamp, gaps, skip_below, found)
    return load_long(found + 8 * FOUND_FLAW)


SCAN: Final = kernel(_scan)


@helper
def scan_records(
    start: int,
    end: int,
    count: int,
    last_offset_delta: int,
    base_timestamp: int,
    gaps: int,
    skip_below: int,
    found: int,
) -> None:
    """Validate the records between two addresses, also for kernels over many batches; write the result to `found`."""
    store_long(found + 8 * FOUND_FLAW, 0)
    fits_offsets = gaps != 0 or (count > 0 and last_offset_delta == count - 1)
    if count < 0 or count > (end - start) // RECORD_MIN or not fits_offsets:
        _fail(found, _COUNT, 0, 0, count)
        return
    position = start
    delta = -1
    largest, smallest, stamped = _LONG_MIN, _LONG_MAX, 0
    keyless = -1
    kept = key_bytes = value_bytes = 0
    for index in range(count):
        highest = last_offset_delta if gaps != 0 else delta + 1
        position, timestamp_delta, delta, key_length, value_length = _scan_record(
            position, start, end, index, base_timestamp, delta + 1, highest, skip_below, found
        )
        if position < 0:
            return
        timestamp = base_timestamp + timestamp_delta
        largest = max(largest, timestamp)
        smallest = min(smallest, _LONG_MAX if timestamp == NO_TIMESTAMP else timestamp)
        stamped += timestamp != NO_TIMESTAMP
        if keyless < 0 and key_length < 0:
            keyless = index
        if delta >= skip_below:
            kept += 1
            key_bytes += max(key_length, 0)
            value_bytes += max(value_length, 0)
    if position != end:
        _fail(found, _BATCH_REST, 0, 0, end - position)
    store_long(found + 8 * FOUND_KEPT, kept)
    store_long(found + 8 * FOUND_KEY_BYTES, key_bytes)
    store_long(found + 8 * FOUND_VALUE_BYTES, value_bytes)
    store_long(found + 8 * FOUND_LARGEST, largest if count > 0 else NO_TIMESTAMP)
    store_long(found + 8 * FOUND_SMALLEST, smallest if stamped > 0 else NO_TIMESTAMP)
    store_long(found + 8 * FOUND_KEYLESS, keyless)


@helper
def _scan_record(
    position: int,
    start: int,
    end: int,
    index: int,
    base_timestamp: int,
    delta_min: int,
    delta_max: int,
    skip_below: int,
    found: int,
) -> tuple[int, int, int, int, int]:
    """(next position or -1, timestamp delta, offset delta, key length, value length)."""
    if position == end:
        return _fail(found, _RECORDS_MISSING, index, position - start, 0), 0, 0, 0, 0
    at = position
    length, position = _read_length(at, end, end, RECORD_BODY_MIN)
    if position < 0:
        return _fail_number(found, _RECORD_LENGTH, position, index, at - start, length), 0, 0, 0, 0
    record_end = position + length

    at = position + 1  # After the attributes, which Kafka ignores.
    timestamp_delta, position = read_long(at, end)
    if position < 0 or position > record_end:
        return _fail_number(found, 0, position, index, at - start, 0), 0, 0, 0, 0
    if _overflows(base_timestamp, timestamp_delta):
        return _fail(found, _TIMESTAMP, index, at - start, timestamp_delta), 0, 0, 0, 0

    at = position
    offset_delta, position = read_int(at, end)
    if position < 0 or position > record_end:
        return _fail_number(found, 0, position, index, at - start, 0), 0, 0, 0, 0
    if offset_delta < delta_min or offset_delta > delta_max:
        return _fail(found, _OFFSET_DELTA, index, at - start, offset_delta), 0, 0, 0, 0

    at = position
    key_length, position = _read_length(at, record_end, end, -1)
    if position < 0:
        return _fail_number(found, _KEY_LENGTH, position, index, at - start, key_length), 0, 0, 0, 0
    at = position + max(key_length, 0)
    value_length, position = _read_length(at, record_end, end, -1)
    if position < 0:
        return _fail_number(found, _VALUE_LENGTH, position, index, at - start, value_length), 0, 0, 0, 0

    at = position + max(value_length, 0)
    position = _scan_headers(at, start, record_end, end, index, offset_delta >= skip_below, found)
    if position != record_end:
        if position >= 0:
            _fail(found, _RECORD_REST, index, position - start, record_end - position)
        return -1, 0, 0, 0, 0
    return record_end, timestamp_delta, offset_delta, key_length, value_length


@helper
def _scan_headers(at: int, start: int, record_end: int, end: int, index: int, keep: bool, found: int) -> int:
    """The position after a record's headers, or -1."""
    count, position = read_int(at, end)
    if position < 0 or position > record_end:
        return _fail_number(found, 0, position, index, at - start, 0)
    if count < 0 or count > (record_end - position) // HEADER_MIN:
        return _fail(found, _HEADER_COUNT, index, at - start, count)
    if count == 0:
        return position
    key_bytes = value_bytes = 0
    for _ in range(count):
        at = position
        key_length, position = _read_length(at, record_end, end, 0)
        if position < 0:
            return _fail_number(found, _HEADER_KEY_LENGTH, position, index, at - start, key_length)
        at = position + key_length
        value_length, position = _read_length(at, record_end, end, -1)
        if position < 0:
            return _fail_number(found, _HEADER_VALUE_LENGTH, position, index, at - start, value_length)
        position += max(value_length, 0)
        key_bytes += key_length
        value_bytes += max(value_length, 0)
    if keep:
        _add(found + 8 * FOUND_HEADERS, count)
        _add(found + 8 * FOUND_HEADER_KEY_BYTES, key_bytes)
        _add(found + 8 * FOUND_HEADER_VALUE_BYTES, value_bytes)
    return position


@helper
def _read_length(position: int, limit: int, end: int, lowest: int) -> tuple[int, int]:
    """The length of bytes that must end by `limit`: (length, where they begin), or (value, reason)."""
    length, after = read_int(position, end)
    if after < 0:
        return 0, after
    if after > limit:
        return 0, CUT
    if length < lowest or length > limit - after:
        return length, _BAD_LENGTH
    return length, after


@helper
def _overflows(base: int, delta: int) -> bool:
    if delta >= 0:
        return base > _LONG_MAX - delta
    return base < _LONG_MIN - delta


@helper
def _add(address: int, value: int) -> None:
    store_long(address, load_long(address) + value)


@helper
def _fail(found: int, flaw: int, record: int, position: int, value: int) -> int:
    """Report a flaw; -1, for the position after it."""
    store_long(found + 8 * FOUND_FLAW, flaw)
    store_long(found + 8 * FOUND_RECORD, record)
    store_long(found + 8 * FOUND_POSITION, position)
    store_long(found + 8 * FOUND_VALUE, value)
    return -1


@helper
def _fail_number(found: int, flaw: int, reason: int, record: int, position: int, value: int) -> int:
    """Report a number that could not be read or, if it could, `flaw` for its value."""
    if reason == _BAD_LENGTH:
        return _fail(found, flaw, record, position, value)
    return _fail(found, _NUMBER_TOO_LARGE if reason == TOO_LARGE else _NUMBER_CUT, record, position, 0)


def _fill(
    start: int,
    count: int,
    base_offset: int,
    base_timestamp: int,
    stamped: int,
    skip_below: int,
    columns: int,
) -> int:
    """Append the validated records to the columns; returns the number of bytes read. `stamped`: all have
    `base_timestamp`."""
    position = start
    offsets = load_long(columns + 8 * FILL_OFFSETS)
    timestamps = load_long(columns + 8 * FILL_TIMESTAMPS)
    key = columns + 8 * FILL_KEY
    value = columns + 8 * FILL_VALUE
    row = load_long(key + 8 * COLUMN_ROWS)
    if row == 0:
        _begin(columns)
    for _ in range(count):
        length, position = take(position)
        record_end = position + length
        timestamp_delta, position = take(position + 1)
        offset_delta, position = take(position)
        if offset_delta >= skip_below:
            store_long(offsets + 8 * row, base_offset + offset_delta)
            store_long(
                timestamps + 8 * row, base_timestamp if stamped != 0 else base_timestamp + timestamp_delta
            )
            row += 1
            position = _fill_bytes(position, key)
            position = _fill_bytes(position, value)
            _fill_headers(position, columns)
        position = record_end
    return position - start


FILL: Final = kernel(_fill)


@helper
def _begin(columns: int) -> None:
    """The first offset of every column."""
    for column in range(FILL_KEY, FILL_SLOTS, _COLUMN_SLOTS):
        offsets = load_long(columns + 8 * (column + COLUMN_OFFSETS))
        if offsets != 0:
            store_int(offsets, 0)


@helper
def _fill_bytes(position: int, column: int) -> int:
    """Append the bytes at `position` to a binary column; the position after them."""
    length, position = take(position)
    row = load_long(column + 8 * COLUMN_ROWS)
    used = load_long(column + 8 * COLUMN_USED)
    if length < 0:
        _set_null(column, row)
    else:
        copy(load_long(column + 8 * COLUMN_DATA) + used, position, length)
        used += length
        position += length
    _end_row(column, row, used)
    return position


@helper
def _fill_headers(position: int, columns: int) -> None:
    """Append a record's headers as one list, or null without headers."""
    lists = columns + 8 * FILL_HEADERS
    if load_long(lists + 8 * COLUMN_OFFSETS) == 0:
        return
    count, position = take(position)
    row = load_long(lists + 8 * COLUMN_ROWS)
    if count == 0:
        _set_null(lists, row)
    for _ in range(count):
        position = _fill_bytes(position, columns + 8 * FILL_HEADER_KEY)
        position = _fill_bytes(position, columns + 8 * FILL_HEADER_VALUE)
    _end_row(lists, row, load_long(lists + 8 * COLUMN_USED) + count)


@helper
def _end_row(column: int, row: int, used: int) -> None:
    store_int(load_long(column + 8 * COLUMN_OFFSETS) + 4 * (row + 1), used)
    store_long(column + 8 * COLUMN_ROWS, row + 1)
    store_long(column + 8 * COLUMN_USED, used)


@helper
def _set_null(column: int, row: int) -> None:
    """Clear a row's bit in the validity bitmap, which begins as all ones."""
    byte = load_long(column + 8 * COLUMN_VALIDITY) + (row >> 3)
    store_byte(byte, load_byte(byte) & ~(1 << (row & 7)))
    _add(column + 8 * COLUMN_NULLS, 1)

"""Writing records at memory speed: Arrow columns to the records of a batch.

Role.   The loops that encode rows, for `arrow_encode`.
Flow.   `plan` gives the number of next rows that fit a batch and their size -> the caller allocates -> `write` writes
        exactly these rows.
Rules.  * `plan` checks that every cell lies inside its column's data; `write` may run only on accepted rows.
        * For an invalid row, `plan` returns the row and the reason, and nothing is written.
        * 32-bit and 64-bit offsets are both read in place, without conversion.
"""

from typing import Final

from semel.core.records.batch import HEADER_SIZE
from semel.core.records.memory import (
    copy,
    helper,
    kernel,
    load_byte,
    load_int,
    load_long,
    put,
    store_byte,
    store_long,
    width,
)
from semel.types import NO_TIMESTAMP

# Layout of the columns, six longs per column; offsets at address 0 mean an absent column, all null.
CELLS_OFFSETS, CELLS_DATA, CELLS_DATA_SIZE, CELLS_VALIDITY, CELLS_FIRST, CELLS_WIDE = 0, 1, 2, 3, 4, 5
_CELLS_SLOTS: Final = 6
SOURCE_TIMESTAMPS, SOURCE_TIMESTAMP = 0, 1  # An address, or 0 with one timestamp for all rows.
SOURCE_KEY: Final = 2
SOURCE_VALUE: Final = SOURCE_KEY + _CELLS_SLOTS
SOURCE_HEADERS: Final = SOURCE_VALUE + _CELLS_SLOTS  # Lists: their data size is the number of headers.
SOURCE_HEADER_KEY: Final = SOURCE_HEADERS + _CELLS_SLOTS
SOURCE_HEADER_VALUE: Final = SOURCE_HEADER_KEY + _CELLS_SLOTS
SOURCE_SLOTS: Final = SOURCE_HEADER_VALUE + _CELLS_SLOTS

# Results of `plan` other than a number of rows, and the layout of its report.
BAD_CELL, BAD_TIMESTAMP, BAD_HEADER_KEY, TOO_LONG = -1, -2, -3, -4
PLAN_ROW, PLAN_SIZE, PLAN_BASE_TIMESTAMP, PLAN_MAX_TIMESTAMP = 0, 1, 2, 3
PLAN_SLOTS: Final = 4
SECTION_SIZE_MAX: Final = (1 << 31) - 1 - HEADER_SIZE  # So that the size of a whole batch fits an int.

_NULL: Final = -1
_OUTSIDE: Final = -2


def _plan(source: int, row: int, rows: int, room: int, plan: int) -> int:
    """Number of the `rows` from `row` on that fit `room` bytes (at least one), or the reason a row cannot be
    written."""
    base_timestamp = _timestamp(source, row)
    largest = base_timestamp
    size = 0
    count = 0
    while count < rows:
        at = row + count
        store_long(plan + 8 * PLAN_ROW, at)
        timestamp = _timestamp(source, at)
        if timestamp < NO_TIMESTAMP:
            return BAD_TIMESTAMP
        key_length = _cell(source + 8 * SOURCE_KEY, at)[1]
        value_length = _cell(source + 8 * SOURCE_VALUE, at)[1]
        first, headers = _cell(source + 8 * SOURCE_HEADERS, at)
        if key_length == _OUTSIDE or value_length == _OUTSIDE or headers == _OUTSIDE:
            return BAD_CELL
        body = _body_size(source, timestamp - base_timestamp, count, key_length, value_length, first, headers)
        if body < 0:
            return body
        grown = size + width(body) + body
        if count > 0 and grown > room:
            break
        if grown > SECTION_SIZE_MAX:
            return TOO_LONG
        size = grown
        largest = max(largest, timestamp)
        count += 1
    store_long(plan + 8 * PLAN_SIZE, size)
    store_long(plan + 8 * PLAN_BASE_TIMESTAMP, base_timestamp)
    store_long(plan + 8 * PLAN_MAX_TIMESTAMP, largest)
    return count


PLAN: Final = kernel(_plan)


def _write(source: int, row: int, count: int, base_timestamp: int, target: int) -> int:
    """Write planned rows at `target`; returns the number of bytes."""
    keys = load_long(source + 8 * (SOURCE_KEY + CELLS_DATA))
    values = load_long(source + 8 * (SOURCE_VALUE + CELLS_DATA))
    position = target
    for delta in range(count):
        at = row + delta
        timestamp_delta = _timestamp(source, at) - base_timestamp
        key, key_length = _cell(source + 8 * SOURCE_KEY, at)
        value, value_length = _cell(source + 8 * SOURCE_VALUE, at)
        first, headers = _cell(source + 8 * SOURCE_HEADERS, at)
        body = _body_size(source, timestamp_delta, delta, key_length, value_length, first, headers)
        position = put(position, body)
        store_byte(position, 0)  # The attributes of a record: none are defined.
        position = put(position + 1, timestamp_delta)
        position = put(position, delta)
        position = _write_bytes(position, keys + key, key_length)
        position = _write_bytes(position, values + value, value_length)
        position = _write_headers(position, source, first, max(headers, 0))
    return position - target


WRITE: Final = kernel(_write)


@helper
def _body_size(
    source: int,
    timestamp_delta: int,
    offset_delta: int,
    key_length: int,
    value_length: int,
    first: int,
    headers: int,
) -> int:
    """Size of a record after its length, or the reason it cannot be written."""
    size = (
        1 + width(timestamp_delta) + width(offset_delta) + _bytes_size(key_length) + _bytes_size(value_length)
    )
    if headers <= 0:  # Null or empty.
        return size + 1
    for header in range(first, first + headers):
        key_length = _cell(source + 8 * SOURCE_HEADER_KEY, header)[1]
        value_length = _cell(source + 8 * SOURCE_HEADER_VALUE, header)[1]
        if key_length == _OUTSIDE or value_length == _OUTSIDE:
            return BAD_CELL
        if key_length == _NULL:
            return BAD_HEADER_KEY
        size += _bytes_size(key_length) + _bytes_size(value_length)
    return size + width(headers)


@helper
def _bytes_size(length: int) -> int:
    return width(length) + max(length, 0)


@helper
def _timestamp(source: int, row: int) -> int:
    timestamps = load_long(source + 8 * SOURCE_TIMESTAMPS)
    if timestamps == 0:
        return load_long(source + 8 * SOURCE_TIMESTAMP)
    return load_long(timestamps + 8 * row)


@helper
def _cell(cells: int, row: int) -> tuple[int, int]:
    """(start of a cell in its column's data, its length): length -1 for null, -2 if it is outside the data."""
    offsets = load_long(cells + 8 * CELLS_OFFSETS)
    if offsets == 0:
        return 0, _NULL
    row += load_long(cells + 8 * CELLS_FIRST)
    validity = load_long(cells + 8 * CELLS_VALIDITY)
    if validity != 0 and (load_byte(validity + (row >> 3)) >> (row & 7)) & 1 == 0:
        return 0, _NULL
    if load_long(cells + 8 * CELLS_WIDE) != 0:
        start = load_long(offsets + 8 * row)
        end = load_long(offsets + 8 * row + 8)
    else:
        start = load_int(offsets + 4 * row)
        end = load_int(offsets + 4 * row + 4)
    if start < 0 or end < start or end > load_long(cells + 8 * CELLS_DATA_SIZE):
        return 0, _OUTSIDE
    return start, end - start


@helper
def _write_headers(position: int, source: int, first: int, headers: int) -> int:
    position = put(position, headers)
    keys = load_long(source + 8 * (SOURCE_HEADER_KEY + CELLS_DATA))
    values = load_long(source + 8 * (SOURCE_HEADER_VALUE + CELLS_DATA))
    for header in range(first, first + headers):
        key, key_length = _cell(source + 8 * SOURCE_HEADER_KEY, header)
        value, value_length = _cell(source + 8 * SOURCE_HEADER_VALUE, header)
        position = _write_bytes(position, keys + key, key_length)
        position = _write_bytes(position, values + value, value_length)
    return position


@helper
def _write_bytes(position: int, start: int, length: int) -> int:
    """Write a length and that many bytes from `start`; returns the next position."""
    position = put(position, length)
    if length > 0:
        copy(position, start, length)
        position += length
    return position

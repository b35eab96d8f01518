"""Writing records at memory speed: Arrow columns to the records of a batch.

Role.   The loops over rows that are encoded, for `arrow`.
Flow.   `plan` says how many of the next rows fit a batch and how many bytes they take -> the caller allocates
        -> `write` writes exactly that many.
Rules.  * `plan` proves that every cell lies inside its column's data; `write` may run only on rows it accepted.
        * A row that cannot be a record is named, with the reason; nothing is written then.
        * Offsets of 32 and of 64 bits are both read as they are: no column is converted.
"""

import sys
from functools import cache
from typing import Any, Final

from semel.core.records import memory
from semel.core.records.batch import HEADER_SIZE
from semel.core.records.memory import (
    LONG,
    Kernel,
    compiled,
    copy,
    helper,
    load_byte,
    load_int,
    load_long,
    put,
    store_byte,
    store_long,
    width,
)
from semel.types import NO_TIMESTAMP

# Where the columns are, in longs. A column is six of them; offsets at address 0: it is absent, all null.
CELLS_OFFSETS, CELLS_DATA, CELLS_DATA_SIZE, CELLS_VALIDITY, CELLS_FIRST, CELLS_WIDE = 0, 1, 2, 3, 4, 5
_CELLS_SLOTS: Final = 6
SOURCE_TIMESTAMPS, SOURCE_TIMESTAMP = 0, 1  # An address, or 0 and one timestamp for all.
SOURCE_KEY: Final = 2
SOURCE_VALUE: Final = SOURCE_KEY + _CELLS_SLOTS
SOURCE_HEADERS: Final = SOURCE_VALUE + _CELLS_SLOTS  # Lists: their data size is the number of headers.
SOURCE_HEADER_KEY: Final = SOURCE_HEADERS + _CELLS_SLOTS
SOURCE_HEADER_VALUE: Final = SOURCE_HEADER_KEY + _CELLS_SLOTS
SOURCE_SLOTS: Final = SOURCE_HEADER_VALUE + _CELLS_SLOTS

# What `plan` answers in place of a number of rows, and what it reports.
BAD_CELL, BAD_TIMESTAMP, BAD_HEADER_KEY, TOO_LONG = -1, -2, -3, -4
PLAN_ROW, PLAN_SIZE, PLAN_BASE_TIMESTAMP, PLAN_MAX_TIMESTAMP = 0, 1, 2, 3
PLAN_SLOTS: Final = 4
SECTION_SIZE_MAX: Final = (1 << 31) - 1 - HEADER_SIZE  # So that the size of a whole batch fits an int.

_NULL: Final = -1
_OUTSIDE: Final = -2


@cache
def plan_kernel() -> Kernel:
    """`_plan`, compiled."""
    return compiled(_plan, LONG(*[LONG] * 5), _sources())


@cache
def write_kernel() -> Kernel:
    """`_write`, compiled."""
    return compiled(_write, LONG(*[LONG] * 5), _sources())


def _sources() -> tuple[Any, ...]:
    return sys.modules[__name__], memory


def _plan(source: int, row: int, rows: int, room: int, plan: int) -> int:
    """How many of the `rows` from `row` on fit `room` bytes (at least one), or why one cannot be written."""
    base_timestamp = _timestamp(source, row)
    largest = base_timestamp
    size = 0
    count = 0
    while count < rows:
        store_long(plan + 8 * PLAN_ROW, row + count)
        timestamp = _timestamp(source, row + count)
        if timestamp < NO_TIMESTAMP:
            return BAD_TIMESTAMP
        body = _body_size(source, row + count, timestamp - base_timestamp, count)
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


def _write(source: int, row: int, count: int, base_timestamp: int, target: int) -> int:
    """Write planned rows at `target`; the number of bytes."""
    position = target
    for delta in range(count):
        at = row + delta
        timestamp_delta = _timestamp(source, at) - base_timestamp
        position = put(position, _body_size(source, at, timestamp_delta, delta))
        store_byte(position, 0)  # The attributes of a record: none are defined.
        position = put(position + 1, timestamp_delta)
        position = put(position, delta)
        position = _write_cell(position, source + 8 * SOURCE_KEY, at)
        position = _write_cell(position, source + 8 * SOURCE_VALUE, at)
        first, headers = _cell(source + 8 * SOURCE_HEADERS, at)
        headers = max(headers, 0)
        position = put(position, headers)
        for header in range(first, first + headers):
            position = _write_cell(position, source + 8 * SOURCE_HEADER_KEY, header)
            position = _write_cell(position, source + 8 * SOURCE_HEADER_VALUE, header)
    return position - target


@helper
def _body_size(source: int, row: int, timestamp_delta: int, offset_delta: int) -> int:
    """The bytes of a record after its length, or why it cannot be written."""
    key = _cell_size(source + 8 * SOURCE_KEY, row)
    value = _cell_size(source + 8 * SOURCE_VALUE, row)
    first, headers = _cell(source + 8 * SOURCE_HEADERS, row)
    if key < 0 or value < 0 or headers == _OUTSIDE:
        return BAD_CELL
    headers = max(headers, 0)
    size = 1 + width(timestamp_delta) + width(offset_delta) + key + value + width(headers)
    for header in range(first, first + headers):
        if _cell(source + 8 * SOURCE_HEADER_KEY, header)[1] == _NULL:
            return BAD_HEADER_KEY
        key = _cell_size(source + 8 * SOURCE_HEADER_KEY, header)
        value = _cell_size(source + 8 * SOURCE_HEADER_VALUE, header)
        if key < 0 or value < 0:
            return BAD_CELL
        size += key + value
    return size


@helper
def _timestamp(source: int, row: int) -> int:
    timestamps = load_long(source + 8 * SOURCE_TIMESTAMPS)
    if timestamps == 0:
        return load_long(source + 8 * SOURCE_TIMESTAMP)
    return load_long(timestamps + 8 * row)


@helper
def _cell(cells: int, row: int) -> tuple[int, int]:
    """(where a cell begins in its column's data, its length): -1 for null, -2 if it is not inside the data."""
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
def _cell_size(cells: int, row: int) -> int:
    """The bytes a cell takes with its length, or -2 if it is not inside the data."""
    length = _cell(cells, row)[1]
    if length == _OUTSIDE:
        return length
    return width(length) + max(length, 0)


@helper
def _write_cell(position: int, cells: int, row: int) -> int:
    """Write a cell with its length; the next position."""
    start, length = _cell(cells, row)
    position = put(position, length)
    if length > 0:
        copy(position, load_long(cells + 8 * CELLS_DATA) + start, length)
        position += length
    return position

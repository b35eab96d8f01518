"""Searching a batch's records at memory speed: the first at or after a time, and the ones a topic refuses.

Role.   The loops behind `search`. They may be compiled late, on a thread; until then `search` uses plain Python.
Rules.  * A scan validates the records first: a batch read from disk may be damaged.
        * The caller bounds the size of a result.
Elsewhere. The scan: `kernels`. Compiling and memory access: `memory`.
"""

from ctypes import addressof, c_int64
from typing import Final

from semel.core.records.batch import BatchHeader
from semel.core.records.kernels import FOUND_FLAW, scan, scan_records
from semel.core.records.memory import (
    SCRATCH_LONGS,
    kernel,
    load_long,
    store_long,
    take,
)
from semel.core.records.native import address
from semel.types import NO_TIMESTAMP, BytesLike

_FOUND_TIMESTAMP: Final = SCRATCH_LONGS
_Found: Final = c_int64 * (SCRATCH_LONGS + 1)
_OUTLAW_LONGS: Final = 3  # Index, timestamp, whether it has no key.
_LISTED_FROM: Final = 1  # After the number of refused timestamps.


def first_at_or_after(
    data: BytesLike, header: BatchHeader, timestamp_ms: int, delta_min: int
) -> tuple[int, int] | None:
    """As `search.first_at_or_after_in_python`."""
    found = _Found()
    delta = FIRST.run(
        address(data),
        len(data),
        header.records_count,
        header.last_offset_delta,
        header.base_timestamp,
        timestamp_ms,
        delta_min,
        addressof(found),
    )
    if found[FOUND_FLAW]:
        scan(data, header, gaps=True)  # Raises with the place of the flaw.
    return None if delta < 0 else (delta, found[_FOUND_TIMESTAMP])


def outlaws(
    data: BytesLike,
    header: BatchHeader,
    *,
    keys_required: bool,
    timestamp_min: int,
    timestamp_max: int,
    count_max: int,
) -> tuple[list[tuple[int, int, bool]], int, int]:
    """As `search.outlaws_in_python`, for records that a survey has validated."""
    listed = (c_int64 * (_LISTED_FROM + count_max * _OUTLAW_LONGS))()
    count = OUTLAWS.run(
        address(data),
        header.records_count,
        header.base_timestamp,
        keys_required,
        timestamp_min,
        timestamp_max,
        addressof(listed),
        count_max,
    )
    longs = iter(listed[_LISTED_FROM : _LISTED_FROM + min(count, count_max) * _OUTLAW_LONGS])
    rows = [
        (index, timestamp, bool(keyless))
        for index, timestamp, keyless in zip(longs, longs, longs, strict=True)
    ]
    return rows, count, listed[0]


def _first(
    start: int,
    size: int,
    count: int,
    last_offset_delta: int,
    base_timestamp: int,
    timestamp_ms: int,
    delta_min: int,
    found: int,
) -> int:
    """The offset delta of the record, or -1; its timestamp, or the flaw, is in `found`."""
    scan_records(start, start + size, count, last_offset_delta, base_timestamp, 1, 0, found)
    if load_long(found + 8 * FOUND_FLAW) != 0:
        return -1
    position = start
    for _ in range(count):
        length, position = take(position)
        record_end = position + length
        timestamp_delta, position = take(position + 1)
        offset_delta, position = take(position)
        if base_timestamp + timestamp_delta >= timestamp_ms and offset_delta >= delta_min:
            store_long(found + 8 * _FOUND_TIMESTAMP, base_timestamp + timestamp_delta)
            return offset_delta
        position = record_end
    return -1


FIRST: Final = kernel(_first)


def _outlaws(
    position: int,
    count: int,
    base_timestamp: int,
    keys_required: int,
    timestamp_min: int,
    timestamp_max: int,
    listed: int,
    count_max: int,
) -> int:
    """How many there are; the number of refused timestamps and the first outlaws are at `listed`."""
    total = out_of_time = 0
    for index in range(count):
        length, position = take(position)
        record_end = position + length
        timestamp_delta, position = take(position + 1)
        _offset_delta, position = take(position)
        key_length, position = take(position)
        timestamp = base_timestamp + timestamp_delta
        keyless = keys_required != 0 and key_length < 0
        outside = timestamp != NO_TIMESTAMP and (timestamp < timestamp_min or timestamp > timestamp_max)
        if keyless or outside:
            if total < count_max:
                at = listed + 8 * (_LISTED_FROM + _OUTLAW_LONGS * total)
                store_long(at, index)
                store_long(at + 8, timestamp)
                store_long(at + 16, 1 if keyless else 0)
            total += 1
            if not keyless:
                out_of_time += 1
        position = record_end
    store_long(listed, out_of_time)
    return total


OUTLAWS: Final = kernel(_outlaws)

"""Searching a batch's records at memory speed: the first at or after a time, and the ones a topic refuses.

Role.   The loops behind `search`. They may be compiled late, on a thread; until then `search` uses plain Python.
Rules.  * A scan validates the records first: a batch read from disk may be damaged.
        * The caller bounds the size of a result.
Elsewhere. The scan: `kernels`. Compiling and memory access: `memory`.
"""

import sys
from functools import cache
from typing import Any, Final

import numpy as np
from numba import types

from semel.core.records import kernels, memory
from semel.core.records.batch import BatchHeader
from semel.core.records.kernels import FOUND_FLAW, Bytes, scan, scan_records
from semel.core.records.memory import (
    BYTES,
    LONG,
    Kernel,
    as_long,
    compiled,
    load_long,
    scratch,
    store_long,
    take,
)
from semel.types import NO_TIMESTAMP, BytesLike

_OUTLAW_LONGS: Final = 3  # Index, timestamp, whether it has no key.


@cache
def first_kernel() -> Kernel:
    """`_first`, compiled."""
    return compiled(_first, types.UniTuple(LONG, 3)(BYTES, *[LONG] * 5), _sources())


@cache
def outlaws_kernel() -> Kernel:
    """`_outlaws`, compiled."""
    return compiled(_outlaws, types.UniTuple(LONG, 2)(BYTES, *[LONG] * 7), _sources())


def _sources() -> tuple[Any, ...]:
    return sys.modules[__name__], kernels, memory


def first_at_or_after(
    data: BytesLike, header: BatchHeader, timestamp_ms: int, delta_min: int
) -> tuple[int, int] | None:
    """As `search.first_at_or_after_in_python`."""
    array = np.frombuffer(data, np.uint8)
    flaw, delta, timestamp = first_kernel()(
        array, header.records_count, header.last_offset_delta, header.base_timestamp, timestamp_ms, delta_min
    )
    if flaw:
        scan(array, header, gaps=True)  # Raises with the place of the flaw.
    return None if delta < 0 else (delta, timestamp)


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
    listed = np.zeros(count_max * _OUTLAW_LONGS, np.int64)
    count, out_of_time = outlaws_kernel()(
        np.frombuffer(data, np.uint8),
        header.records_count,
        header.base_timestamp,
        keys_required,
        timestamp_min,
        timestamp_max,
        listed.ctypes.data,
        count_max,
    )
    rows = listed[: min(count, count_max) * _OUTLAW_LONGS].reshape(-1, _OUTLAW_LONGS).tolist()
    return [(index, timestamp, bool(keyless)) for index, timestamp, keyless in rows], count, out_of_time


def _first(
    data: Bytes,
    count: int,
    last_offset_delta: int,
    base_timestamp: int,
    timestamp_ms: int,
    delta_min: int,
) -> tuple[int, int, int]:
    found = scratch()
    start = as_long(data.ctypes.data)
    scan_records(start, start + data.size, count, last_offset_delta, base_timestamp, 1, 0, found)
    if load_long(found + 8 * FOUND_FLAW) != 0:
        return load_long(found + 8 * FOUND_FLAW), -1, 0
    position = start
    for _ in range(count):
        length, position = take(position)
        record_end = position + length
        timestamp_delta, position = take(position + 1)
        offset_delta, position = take(position)
        if base_timestamp + timestamp_delta >= timestamp_ms and offset_delta >= delta_min:
            return 0, offset_delta, base_timestamp + timestamp_delta
        position = record_end
    return 0, -1, 0


def _outlaws(
    data: Bytes,
    count: int,
    base_timestamp: int,
    keys_required: int,
    timestamp_min: int,
    timestamp_max: int,
    listed: int,
    count_max: int,
) -> tuple[int, int]:
    position = as_long(data.ctypes.data)
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
                at = listed + 8 * _OUTLAW_LONGS * total
                store_long(at, index)
                store_long(at + 8, timestamp)
                store_long(at + 16, as_long(keyless))
            total += 1
            if not keyless:
                out_of_time += 1
        position = record_end
    return total, out_of_time

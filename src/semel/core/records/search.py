"""Searching one batch's records: the first at or after a time, and the ones a topic refuses.

Role.   `first_at_or_after` answers ListOffsets by time; `outlaws` names the records a refusal is about.
Flow.   `log.reading` and `validation` call them. `load_kernels` puts compiled loops in their place.
Rules.  * Plain Python and compiled loops give equal results; for a large batch plain Python belongs on a thread
          (`effort`).
        * The caller bounds the length of a result list.
"""

from semel.core.records import build
from semel.core.records.batch import BatchHeader, TimestampType
from semel.types import NO_TIMESTAMP, BytesLike


def first_at_or_after_in_python(
    data: BytesLike, header: BatchHeader, timestamp_ms: int, delta_min: int
) -> tuple[int, int] | None:
    """Offset delta and timestamp of the first uncompressed record at or after that time, from `delta_min` on."""
    found = None
    for record in build.parse(data, header, gaps=True):
        timestamp = header.base_timestamp + record.timestamp_delta
        if found is None and timestamp >= timestamp_ms and record.offset_delta >= delta_min:
            found = record.offset_delta, timestamp
    return found


def outlaws_in_python(
    data: BytesLike,
    header: BatchHeader,
    *,
    keys_required: bool,
    timestamp_min: int,
    timestamp_max: int,
    count_max: int,
) -> tuple[list[tuple[int, int, bool]], int, int]:
    """The first records with a missing key or a refused timestamp, their total count, and the count of refused
    timestamps.

    Each record has its index, its timestamp and whether it lacks the key.
    """
    listed: list[tuple[int, int, bool]] = []
    total = out_of_time = 0
    for index, record in enumerate(build.parse(data, header, gaps=True)):
        timestamp = header.base_timestamp + record.timestamp_delta
        keyless = keys_required and record.key[1] < 0
        outside = timestamp != NO_TIMESTAMP and not timestamp_min <= timestamp <= timestamp_max
        if keyless or outside:
            if total < count_max:
                listed.append((index, timestamp, keyless))
            total += 1
            out_of_time += not keyless
    return listed, total, out_of_time


_first = first_at_or_after_in_python
outlaws = outlaws_in_python


def load_kernels() -> None:
    """Load the compiled loops, and use them from now on. Safe on a thread, and more than once."""
    global _first, outlaws  # noqa: PLW0603  # One process, one set of kernels: the switch is the module's.
    from semel.core.records import search_kernels
    from semel.core.records.memory import load

    load(search_kernels.FIRST, search_kernels.OUTLAWS)
    _first = search_kernels.first_at_or_after
    outlaws = search_kernels.outlaws


def first_at_or_after(
    batch: BytesLike, header: BatchHeader, timestamp_ms: int, offset_min: int
) -> tuple[int, int] | None:
    """Timestamp and offset of a batch's first record at or after that time, from `offset_min` on."""
    delta_min = max(0, offset_min - header.base_offset)
    data = build.records_section(batch, 0, header)
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        # All records have the batch's time: find the first one that compaction left.
        if header.max_timestamp < timestamp_ms:
            return None
        found = _first(data, header, -(1 << 63), delta_min)
        return None if found is None else (header.max_timestamp, header.base_offset + found[0])
    found = _first(data, header, timestamp_ms, delta_min)
    return None if found is None else (found[1], header.base_offset + found[0])

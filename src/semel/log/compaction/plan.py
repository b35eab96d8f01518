"""Pure decisions: how dirty a log is, and which segments are cleaned together.

Role.   `dirtiness` measures the part a cleaning would process; `grouped` says which segments are merged into one.
Flow.   `broker.cleaner` compares all logs and picks the dirtiest; `cleaning` follows the plan.
Rules.  As in Kafka, three kinds of segments are never cleaned: the active one, the one with the last stable offset, and
        those with records younger than `min.compaction.lag.ms`. Beyond Kafka, unsynced segments are not cleaned either:
        a power cut must not lose a newer record after compaction has removed the older one.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from semel.log.offset_index import ENTRY as OFFSET_ENTRY
from semel.log.partition_log import PartitionLog
from semel.log.segment import RELATIVE_OFFSET_MAX, Segment
from semel.log.time_index import ENTRY as TIME_ENTRY

_LONG_MAX: Final = 2**63 - 1


class Dirtiness(NamedTuple):
    """The part of a log that a cleaning would process."""

    first_dirty_offset: int
    """Offsets below it are clean."""
    first_uncleanable_offset: int
    """Base offset of the first segment that may not be cleaned yet."""
    clean_bytes: int
    cleanable_bytes: int
    overdue: bool
    """Records have waited for longer than `max.compaction.lag.ms`."""

    @property
    def ratio(self) -> float:
        """The share of the bytes that is dirty."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0


def dirtiness(log: PartitionLog, cleaned_offset: int | None, now_ms: int) -> Dirtiness:
    """How dirty a log is that was cleaned up to `cleaned_offset` (None: never)."""
    first_dirty = log.log_start_offset if cleaned_offset is None else cleaned_offset
    if not log.log_start_offset <= first_dirty <= log.log_end_offset:
        first_dirty = (
            log.log_start_offset
        )  # The log was truncated, or its start was deleted: clean all of it.
    bound = min(log.last_stable_offset, log.recovery_point, log.active.base_offset)
    dirty = log.segments[log.segment_index(first_dirty) : -1]
    if (lag_ms := log.config.min_compaction_lag_ms) > 0:
        young = (segment.base_offset for segment in dirty if segment.max_timestamp > now_ms - lag_ms)
        bound = min(bound, next(young, bound))
    first_uncleanable = log.segment_at(max(first_dirty, bound)).base_offset
    return Dirtiness(
        first_dirty_offset=first_dirty,
        first_uncleanable_offset=first_uncleanable,
        clean_bytes=_bytes_between(log, log.segments[0].base_offset, first_dirty),
        cleanable_bytes=_bytes_between(log, first_dirty, first_uncleanable),
        overdue=_is_overdue(log, dirty, now_ms),
    )


def is_due(log: PartitionLog, dirt: Dirtiness) -> bool:
    """Whether to clean a log now."""
    if dirt.cleanable_bytes == 0:
        return False
    return dirt.overdue or dirt.ratio > log.config.min_cleanable_dirty_ratio


def _bytes_between(log: PartitionLog, start: int, end: int) -> int:
    """The bytes of the segments from the one that holds `start` up to the one that begins at or after `end`."""
    if start >= end:
        return 0
    first = log.segment_index(start)
    return sum(segment.size_bytes for segment in log.segments[first:] if segment.base_offset < end)


def _is_overdue(log: PartitionLog, dirty: Sequence[Segment], now_ms: int) -> bool:
    lag_ms = log.config.max_compaction_lag_ms
    if lag_ms == _LONG_MAX:
        return False
    firsts = (segment.header_at(0).max_timestamp for segment in dirty if segment.size_bytes)
    return any(0 < first < now_ms - lag_ms for first in firsts)


def grouped(
    segments: Sequence[Segment], *, segment_bytes: int, index_bytes: int, end_offset: int
) -> list[list[Segment]]:
    """Groups of neighbours that fit one segment even without removals; `end_offset` is the end of the last one."""
    groups: list[list[Segment]] = []
    size = entries = stamps = 0
    for number, segment in enumerate(segments):
        ends = segments[number + 1].base_offset if number + 1 < len(segments) else end_offset
        offset_bytes = segment.offset_index.file.count * OFFSET_ENTRY.size
        time_bytes = segment.time_index.file.count * TIME_ENTRY.size
        fits = (
            bool(groups)
            and size + segment.size_bytes <= segment_bytes
            and entries + offset_bytes <= index_bytes
            and stamps + time_bytes <= index_bytes
            and ends - 1 - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX
        )
        if not fits:
            groups.append([])
            size = entries = stamps = 0
        groups[-1].append(segment)
        size, entries, stamps = size + segment.size_bytes, entries + offset_bytes, stamps + time_bytes
    return groups

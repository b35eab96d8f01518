"""The retention rules: a pure decision over a log's segments, oldest first.

Role.   `retiring` calls it and deletes the segments.
Rules.  * Only a prefix of the log is deleted, and only visible records: up to the high watermark, and never the segment
          where an open transaction begins.
        * By time: the segment's largest timestamp is older than `retention.ms`.
        * By size: without the segment the log still has at least `retention.bytes`.
        * By log start: all records of the segment are below the log start offset.
        * A log without `delete` in its cleanup policy loses only segments below its log start.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from semel.log.config import NO_LIMIT, LogConfig


class SegmentFacts(NamedTuple):
    """The facts of a segment that retention uses."""

    end_offset: int
    """The base offset of the next segment, or the log's end."""
    size_bytes: int
    largest_timestamp: int
    """The largest timestamp of its records; without timestamps, the time of the file's last write."""


def expired_prefix(
    segments: Sequence[SegmentFacts],
    config: LogConfig,
    *,
    now_ms: int,
    log_start_offset: int,
    limit_offset: int,
) -> int:
    """Number of oldest segments that may be deleted; the offset `limit_offset` must stay."""
    excess = sum(segment.size_bytes for segment in segments) - config.retention_bytes
    by_size = config.cleanup_delete and config.retention_bytes != NO_LIMIT
    by_time = config.cleanup_delete and config.retention_ms != NO_LIMIT

    def leaving() -> Iterator[SegmentFacts]:
        nonlocal excess
        for segment in segments:
            too_old = by_time and now_ms - segment.largest_timestamp > config.retention_ms
            too_much = by_size and excess >= segment.size_bytes
            below_start = segment.end_offset <= log_start_offset
            if segment.end_offset > limit_offset or not (too_old or too_much or below_start):
                return
            excess -= segment.size_bytes
            yield segment

    return sum(1 for _segment in leaving())

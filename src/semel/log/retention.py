"""Which segments may go: a pure decision over a log's segments, oldest first.

Role.   `retiring` asks; it does the deleting.
Rules.  * Only a prefix of the log goes, and only what every reader may see: up to the high watermark, and
          never the segment where an open transaction begins.
        * By time: the segment's largest timestamp is older than `retention.ms`.
        * By size: without it the log still has at least `retention.bytes`.
        * By log start: all its records are below the log start offset.
        * A log without `delete` in its cleanup policy loses only what lies below its log start.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from semel.log.config import NO_LIMIT, LogConfig


class SegmentFacts(NamedTuple):
    """What retention needs to know of a segment."""

    end_offset: int
    """The base offset of the next segment, or the log's end."""
    size_bytes: int
    largest_timestamp: int
    """The largest timestamp of its records, or when its file was last written if they carry none."""


def expired_prefix(
    segments: Sequence[SegmentFacts],
    config: LogConfig,
    *,
    now_ms: int,
    log_start_offset: int,
    limit_offset: int,
) -> int:
    """How many segments from the oldest on may be deleted; `limit_offset` is the first that must stay."""
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

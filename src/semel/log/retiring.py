"""Deleting the oldest segments of a log in steps, so that only threads wait for syncs.

Role.   `Retirement` removes the segments `retention` selects. `PartitionLog.delete_old_segments` runs all steps at
        once, for callers that may block; the broker runs them one by one.
Flow.   `plan` (loop) -> `sync_snapshot` (thread) -> `name_snapshot` (loop) -> `sync_names` (thread) -> `drop` (loop) ->
        `sync_names` (thread).
Rules.  * The producers' state outlives deleted batches: a snapshot at the new log start is on disk before the first
          segment is removed. It is rewritten, because a power cut may have torn an existing one.
        * The log start moves first: a crash in between leaves files below the start, never a missing segment above it.
        * The thread's work is harmless if the partition was deleted and recreated meanwhile: it only syncs open files
          and directory names. Files are changed on the loop only, after a check.
        * The log changes between two steps. If it was truncated or compacted, nothing is removed this time.
"""

import contextlib
from typing import TYPE_CHECKING

from semel.core.idempotence.producer_state import ProducerState
from semel.log.retention import SegmentFacts, expired_prefix
from semel.runtime.files import Files

if TYPE_CHECKING:
    from semel.log.partition_log import PartitionLog


class Retirement:
    """The removal of some of the oldest segments of a log."""

    def __init__(self, log: "PartitionLog", files: Files, count: int, now_ms: int) -> None:
        self._log = log
        self._files = files
        self._segments = log.segments[:count]
        self._truncations = log.truncations
        self.start_offset = log.segments[count].base_offset
        producers = ProducerState(producer_id_expiration_ms=log.config.producer_id_expiration_ms)
        log.restore(producers, self.start_offset, now_ms)
        self._snapshot = log.snapshots.write_beside(producers, self.start_offset)

    @classmethod
    def plan(cls, log: "PartitionLog", files: Files, now_ms: int) -> "Retirement | None":
        """The removal that is due now, or None."""
        count = 0 if log.swapping else _expired(log, files, now_ms)
        if count == len(log.segments):
            if log.active.size_bytes == 0:
                count -= 1  # Keep an empty active segment: a log needs one.
            else:
                log.roll(now_ms)
        return cls(log, files, count, now_ms) if count else None

    def sync_snapshot(self) -> None:
        """Blocks."""
        self._snapshot.sync()
        self._snapshot.close()

    def name_snapshot(self) -> None:
        if not self._is_void:
            self._log.snapshots.put_in_place(self.start_offset)

    def sync_names(self) -> None:
        """Blocks."""
        with contextlib.suppress(FileNotFoundError):  # The partition was deleted meanwhile.
            self._files.sync_directory(self._log.directory)

    def drop(self, now_ms: int) -> int:
        """Remove the segments; returns their number. Their files are deleted after `file.delete.delay.ms`."""
        if self._is_void:
            return 0
        log = self._log
        if self.start_offset > log.log_start_offset:
            log.log_start_offset = self.start_offset
            log.leader_epochs.truncate_from_start(self.start_offset)
        log.take_out(self._segments, now_ms)
        del log.segments[: len(self._segments)]
        return len(self._segments)

    @property
    def _is_void(self) -> bool:
        """Whether the log has changed since the plan."""
        log = self._log
        return (
            log.swapping
            or log.truncations != self._truncations
            or log.segments[: len(self._segments)] != self._segments
        )


def _expired(log: "PartitionLog", files: Files, now_ms: int) -> int:
    first_unstable = log.producers.first_unstable_offset
    limit = log.high_watermark if first_unstable is None else min(first_unstable, log.high_watermark)
    facts = [
        SegmentFacts(
            end_offset=following.base_offset if following else log.log_end_offset,
            size_bytes=segment.size_bytes,
            largest_timestamp=(
                segment.max_timestamp if segment.max_timestamp >= 0 else files.modified_ms(segment.file.path)
            ),
        )
        for segment, following in zip(log.segments, [*log.segments[1:], None], strict=True)
    ]
    return expired_prefix(
        facts, log.config, now_ms=now_ms, log_start_offset=log.log_start_offset, limit_offset=limit
    )

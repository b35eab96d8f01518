"""The log of one partition: the only access to its segments, indexes, producers and epochs.

Role.   Append a batch exactly once, read from an offset, track the visible offsets, apply retention.
Flow.   `broker/partitions` owns one per partition. `recovery.open_log` builds it from a directory.
        append:  validate -> judge the producer -> roll if needed -> write -> indexes -> record the producer.
Rules.  * Deciding, writing and recording are one step without waiting, so file order equals offset order.
        * A duplicate is answered with its first offset and not written; a refusal changes nothing.
        * A write that fails leaves the log as it was; if even that cannot be restored, the log is offline and
          refuses everything until it is loaded again.
        * log start <= last stable <= high watermark <= log end, and the last three move back only by truncation.
        * The append path neither waits nor syncs. `begin_flush` returns a job, a thread syncs it, `finish_flush` moves
          the recovery point: records below it survive a power cut.
Elsewhere. Reading: `reading`. Retention: the rules in `retention`, the steps in `retiring`. After a crash: `recovery`.
"""

import logging
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from semel.core.idempotence.producer_state import ProducerState
from semel.core.idempotence.producer_window import Append, Duplicate
from semel.core.records import batch, control
from semel.core.records.batch import BatchHeader, TimestampType
from semel.core.records.control import EndTxnMarker
from semel.core.records.validation import BatchRules, Inspection, finish, validate
from semel.errors import ErrorCode, LogError, OffsetOutOfRangeError, Refuse
from semel.log import names
from semel.log.aborted_counts import write_aborted_counts
from semel.log.config import LogConfig
from semel.log.flush_job import FlushJob
from semel.log.leader_epochs import LeaderEpochs
from semel.log.producers import record_batch, record_marker, replay
from semel.log.retiring import Retirement
from semel.log.segment import Segment
from semel.log.snapshots import Snapshots
from semel.runtime.files import File, Files, join
from semel.types import NO_PRODUCER_ID, NO_TIMESTAMP, TopicPartition

_logger = logging.getLogger(__name__)


class Appended(NamedTuple):
    """A batch is in the log."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    """The broker's time if the topic uses LogAppendTime, else -1."""


AppendResult: TypeAlias = Appended | Duplicate | Refuse


class Replayed(NamedTuple):
    """The state of a log at one of its offsets."""

    producers: ProducerState
    largest: tuple[int, int]
    """The largest timestamp of the segment that ends there, and its offset."""


class PartitionLog:
    """One partition's log."""

    def __init__(
        self,
        *,
        files: Files,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        segments: list[Segment],
        producers: ProducerState,
        snapshots: Snapshots,
        leader_epochs: LeaderEpochs,
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
    ) -> None:
        self._files = files
        self.directory = directory
        self.topic_partition = topic_partition
        self.segments = segments
        self.producers = producers
        self._known_producers = producers.producers  # A live view, read for every batch.
        self.snapshots = snapshots
        self.leader_epochs = leader_epochs
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.high_watermark = log_start_offset
        self.recovery_point = recovery_point
        self.duplicates_dropped = 0
        self.offline: str | None = None
        self.is_released = False
        """Its files are closed, and it cannot be read any more."""
        self.swapping = False
        """Compaction is exchanging segments; retention and truncation must not remove any."""
        self._names_changed = True  # Names of new files are not synced yet.
        self._unflushed_records = 0
        self._flushed_ms = NO_TIMESTAMP
        self.truncations = 0
        """Number of truncations: a batch appended before one may be gone after it."""
        self._deleted: list[tuple[int, list[str]]] = []
        self.config = config
        self.rules: BatchRules = config.batch_rules()
        self._is_stamped = self.rules.timestamp_type is TimestampType.LOG_APPEND_TIME

    def reconfigure(self, config: LogConfig) -> None:
        """Replace the settings."""
        self.config = config
        self.rules = config.batch_rules()
        self._is_stamped = self.rules.timestamp_type is TimestampType.LOG_APPEND_TIME
        self.producers.producer_id_expiration_ms = config.producer_id_expiration_ms
        for segment in self.segments:
            segment.config = config

    @property
    def active(self) -> Segment:
        return self.segments[-1]

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def last_stable_offset(self) -> int:
        """Read_committed consumers see offsets below this: no open transaction begins before it."""
        first_unstable = self.producers.first_unstable_offset
        if first_unstable is None or first_unstable >= self.high_watermark:
            return self.high_watermark
        return max(first_unstable, self.log_start_offset)

    # Appending

    def append(
        self,
        data: bytearray | memoryview,
        *,
        leader_epoch: int,
        now_ms: int,
        from_client: bool = True,
        transactions_v2: bool = False,
        verification_token: int | None = None,
        inspection: Inspection | None = None,
    ) -> AppendResult:
        """Append one batch as the leader: assign its offset and write it, or refuse it.

        The offset is patched into the caller's buffer, and restored if the write fails. `from_client` is False for
        batches of the broker's own coordinators. An `inspection` with the current rules is not repeated.
        """
        if self.offline is not None:
            return Refuse(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition} is offline: {self.offline}")
        if inspection is None or inspection.rules is not self.rules:
            valid = validate(data, self.rules, now_ms, from_client=from_client)
        elif isinstance(inspection.outcome, Refuse):
            return inspection.outcome
        else:
            valid = finish(inspection.outcome, self.rules, now_ms)
        if isinstance(valid, Refuse):
            return valid
        data, header = valid
        if header.producer_id != NO_PRODUCER_ID:
            verdict = self.producers.judge(
                header,
                by_coordinator=not from_client,
                transactions_v2=transactions_v2,
                verification_token=verification_token,
            )
            if not isinstance(verdict, Append):
                if isinstance(verdict, Duplicate):
                    self.duplicates_dropped += 1
                return verdict
            if header.base_sequence > 0 and header.producer_id not in self._known_producers:
                _logger.warning(
                    "%s: unknown producer %d continues at sequence %d; accepted, its state starts with this batch",
                    self.topic_partition,
                    header.producer_id,
                    header.base_sequence,
                    extra={"producer_id": header.producer_id, "producer_epoch": header.producer_epoch},
                )
        base_offset = self.log_end_offset
        refused = self._write(data, batch.place(data, header, base_offset, leader_epoch), now_ms)
        if refused is not None:
            # Assigning offsets mutated the caller's buffer; restore it for a retry.
            batch.place(data, header, header.base_offset, header.partition_leader_epoch)
            return refused
        return Appended(base_offset, self.log_end_offset - 1, now_ms if self._is_stamped else NO_TIMESTAMP)

    def append_marker(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        commit: bool,
        leader_epoch: int,
        now_ms: int,
        transaction_version: int = 0,
    ) -> Appended | Refuse:
        """End a producer's transaction on this partition."""
        if self.offline is not None:
            return Refuse(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition} is offline: {self.offline}")
        verdict = self.producers.judge_marker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction_version,
        )
        if not isinstance(verdict, Append):
            return verdict
        data = control.build_marker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            commit=commit,
            timestamp_ms=now_ms,
            base_offset=self.log_end_offset,
            partition_leader_epoch=leader_epoch,
        )
        header = batch.read_header(data)
        if self._is_stamped:
            batch.set_log_append_time(data, 0, header, now_ms)
            header = batch.read_header(data)
        refused = self._write(data, header, now_ms, EndTxnMarker(commit, coordinator_epoch))
        return refused or Appended(header.base_offset, header.last_offset, NO_TIMESTAMP)

    def append_as_follower(self, data: bytearray | memoryview | bytes, now_ms: int) -> Refuse | None:
        """Append the whole batches in `data` with the leader's offsets; a cut-off last one is ignored."""
        if self.offline is not None:
            return Refuse(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition} is offline: {self.offline}")
        view = memoryview(data)
        found = list(batch.headers(view))
        end_offset = self.log_end_offset
        for position, header in found:
            batch.check_crc(view, position, header)
            if header.base_offset < end_offset:
                raise LogError(
                    f"{self.topic_partition}: the leader sent offset {header.base_offset}, "
                    f"this replica's log ends at {end_offset}"
                )
            end_offset = header.next_offset
        headers = [header for _position, header in found]
        number = 0
        while number < len(found):
            position, header = found[number]
            count = self._count_written_together(headers, number, now_ms)
            run = headers[number : number + count]
            size_bytes = sum(header.size_bytes for header in run)
            refused = self._write_run(view[position : position + size_bytes], run, now_ms)
            if refused is not None:
                return refused
            number += count
        return None

    def _count_written_together(self, headers: Sequence[BatchHeader], first: int, now_ms: int) -> int:
        """How many batches from `first` on one write may take: they are of one leader epoch and end in one segment."""
        header = headers[first]
        segment = self.segments[-1]
        if segment.should_roll(header.size_bytes, header.last_offset, header.max_timestamp, now_ms):
            return 1
        count = 1 + segment.fits(headers, first)
        epoch = header.partition_leader_epoch
        for number in range(first + 1, first + count):
            if headers[number].partition_leader_epoch != epoch:
                return number - first
        return count

    def _write_run(self, data: memoryview, run: Sequence[BatchHeader], now_ms: int) -> Refuse | None:
        """Write batches that fit the active segment as `_write` does each, or one that may need a new segment."""
        if len(run) == 1:
            return self._write(data, run[0], now_ms)
        segment = self.segments[-1]
        try:
            if run[0].partition_leader_epoch != self.leader_epochs.latest:
                self.leader_epochs.assign(run[0].partition_leader_epoch, run[0].base_offset)
            segment.append_run(data, run)
        except OSError as error:
            return self._write_failed(error, segment)
        position = 0
        for header in run:
            self._written(data[position : position + header.size_bytes], header, now_ms)
            position += header.size_bytes
        return None

    def _write(
        self,
        data: bytearray | memoryview,
        header: BatchHeader,
        now_ms: int,
        marker: EndTxnMarker | None = None,
    ) -> Refuse | None:
        """Write a batch with assigned offsets at the end of the log and record it. `marker`: its marker, if known."""
        segment = self.segments[-1]
        last_offset = header.base_offset + header.last_offset_delta
        try:
            if header.partition_leader_epoch != self.leader_epochs.latest:
                self.leader_epochs.assign(header.partition_leader_epoch, header.base_offset)
            if segment.should_roll(len(data), last_offset, header.max_timestamp, now_ms):
                segment = self.roll(now_ms, base_offset=header.base_offset)
            segment.append(data, header)
        except OSError as error:
            return self._write_failed(error, segment)
        self._written(data, header, now_ms, marker)
        return None

    def _written(
        self,
        data: bytearray | memoryview,
        header: BatchHeader,
        now_ms: int,
        marker: EndTxnMarker | None = None,
    ) -> None:
        """Record a batch that is in the active segment."""
        self.log_end_offset = header.base_offset + header.last_offset_delta + 1
        self._unflushed_records += header.last_offset_delta + 1
        if header.producer_id == NO_PRODUCER_ID:
            return
        if marker is not None:
            record_marker(self.producers, header, marker, self.segments[-1].txn_index.append, now_ms)
        elif header.attributes & batch.CONTROL_BIT:
            record_batch(self.producers, header, data, self.segments[-1].txn_index.append, now_ms)
        else:
            self.producers.record(header, now_ms=now_ms)

    def _write_failed(self, error: OSError, segment: Segment) -> Refuse:
        """The write failed. The segment was restored; if not, the file's end is unknown and the log goes offline."""
        _logger.error("%s: append failed: %s", self.topic_partition, error)
        try:
            intact = segment.file.size() == segment.size_bytes
        except OSError:
            intact = False
        if not intact:
            self.offline = (
                f"an append failed and its bytes could not be removed ({error}); load the log again"
            )
        return Refuse(
            ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition}: the disk refused the append: {error}"
        )

    def roll(self, now_ms: int, *, base_offset: int | None = None) -> Segment:
        """Close the active segment and begin a new one at the log's end."""
        base_offset = self.log_end_offset if base_offset is None else base_offset
        if self.active.size_bytes == 0 and self.active.base_offset == base_offset:
            return self.active
        self.snapshots.save(self.producers, base_offset)
        self.active.seal()
        self.segments.append(self._new_segment(base_offset, now_ms))
        self._names_changed = True
        return self.active

    def _new_segment(self, base_offset: int, now_ms: int) -> Segment:
        """Create a segment with all its files, or none of them.

        The next start would take a partial segment for the end of the log, while appends continue in the previous one.
        """
        try:
            return Segment.create(self._files, self.directory, base_offset, self.config, now_ms)
        except OSError:
            try:
                Segment.discard(self._files, self.directory, base_offset)
            except OSError as error:
                self.offline = f"segment {base_offset} could neither be created nor removed ({error}); load the log again"
            raise

    # Visible offsets

    def advance_high_watermark(self, offset: int) -> bool:
        """Every in-sync replica has the log up to `offset`; whether records became visible."""
        offset = min(offset, self.log_end_offset)
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        self.producers.on_high_watermark(offset)
        return True

    def advance_log_start(self, offset: int) -> None:
        """Move the log start to `offset` (DeleteRecords); the next retention pass removes files."""
        self.check_log_start(offset)
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.leader_epochs.truncate_from_start(offset)

    def check_log_start(self, offset: int) -> None:
        """Raise `OffsetOutOfRangeError` if `offset` cannot become the log start."""
        if offset > self.high_watermark:
            raise OffsetOutOfRangeError(
                f"{self.topic_partition}: records can be deleted up to the high watermark {self.high_watermark}, "
                f"not up to {offset}"
            )

    # Durability

    def flush_due(self, now_ms: int) -> bool:
        """Whether `flush.messages` or `flush.ms` asks for a sync now."""
        if not self._unflushed_records:
            return False
        return (
            self._unflushed_records >= self.config.flush_messages
            or now_ms - self._flushed_ms >= self.config.flush_ms
        )

    def begin_flush(self) -> FlushJob:
        """The sync that makes all records appended so far survive a power cut.

        Indexes of the active segment are left out, because recovery scans it after a crash. The segment that ends at
        the recovery point may have been active at its sync, so its indexes are synced now.
        """
        files: list[File] = []
        paths: list[str] = []
        first = self.segment_index(self.recovery_point - 1)
        for segment in self.segments[first:]:
            files.append(segment.file)
            if segment is not self.active:
                segment.flush_indexes()
                paths.extend(segment.index_paths())
        paths.extend(self.snapshots.take_unsynced(segment.base_offset for segment in self.segments[first:]))
        directory = self.directory if self._names_changed else None
        self._names_changed = False
        self._unflushed_records = 0
        epochs = self.leader_epochs.unwritten()
        return FlushJob(self.log_end_offset, self.truncations, files, paths, directory, epochs, self._files)

    def finish_flush(self, job: FlushJob, now_ms: int) -> None:
        """The job succeeded: its records are durable, unless they were truncated meanwhile.

        After a failed sync a later success proves nothing, because the kernel marks dropped pages as clean.
        """
        if job.truncations != self.truncations or self.offline is not None:
            return
        self.recovery_point = max(self.recovery_point, min(job.end_offset, self.log_end_offset))
        self._flushed_ms = now_ms
        if job.epochs is not None:
            self.leader_epochs.wrote(job.epochs)

    def flush_failed(self, error: OSError) -> None:
        """A sync failed: the kernel may have dropped pages, so unsynced bytes cannot be trusted."""
        self.offline = f"a sync failed ({error}); load the log again to see what is on disk"
        _logger.error("%s: sync failed: %s", self.topic_partition, error)
        try:
            # A mark for the next start: after a kill, dropped pages look written. A power cut loses the mark and the
            # pages alike, so the mark needs no sync.
            self._files.open(join(self.directory, names.SYNC_FAILED), create=True).close()
        except OSError as second:
            _logger.error(
                "%s: the mark of the failed sync could not be written for the next start: %s",
                self.topic_partition,
                second,
            )

    def flush(self, now_ms: int) -> None:
        """Sync the whole log now. Blocks; for close, truncation and tests."""
        if self.offline is not None:
            raise LogError(f"{self.topic_partition} is offline: {self.offline}")
        job = self.begin_flush()
        try:
            job.run()
        except OSError as error:
            self.flush_failed(error)
            raise
        self.finish_flush(job, now_ms)

    def close(self, now_ms: int) -> None:
        """Close the log cleanly, so that the next start can trust it."""
        if self.offline is None:
            write_aborted_counts(self._files, self.directory, self.segments)
            self.active.note_largest_timestamp()
            self.active.flush_indexes()
            self.snapshots.save(self.producers, self.log_end_offset)
            self._names_changed = True
            job = self.begin_flush()
            job.paths.extend([*self.active.index_paths(), self.snapshots.path(self.log_end_offset)])
            job.run()
            self.finish_flush(job, now_ms)
        self.release()

    def release(self) -> None:
        """Close the files without a sync."""
        self.is_released = True
        for segment in self.segments:
            segment.close()

    # Retention and truncation

    def delete_old_segments(self, now_ms: int) -> int:
        """Apply retention; returns the number of removed segments. Blocks: the broker takes the steps of a `Retirement`
        one by one."""
        retirement = Retirement.plan(self, self._files, now_ms)
        if retirement is None:
            return 0
        retirement.sync_snapshot()
        retirement.name_snapshot()
        retirement.sync_names()
        count = retirement.drop(now_ms)
        retirement.sync_names()
        return count

    def _drop(self, segments: list[Segment], now_ms: int) -> None:
        """Durably remove segments. Blocks."""
        self.take_out(segments, now_ms)
        self._files.sync_directory(self.directory)

    def take_out(self, segments: list[Segment], now_ms: int) -> None:
        """Rename segments for deletion, in this order, so that a crash leaves a log without a gap.

        Readers with open files are not disturbed. The renames are durable once the directory is synced.
        """
        for segment in segments:
            self._deleted.append((now_ms + self.config.file_delete_delay_ms, segment.mark_deleted()))
        newest = self.snapshots.offsets[-1:]
        for path in self.snapshots.forget({segment.base_offset for segment in segments} - set(newest)):
            self._files.remove(path)

    def remove_later(self, paths: list[str], now_ms: int) -> None:
        """Remove these files after `file.delete.delay.ms`."""
        self._deleted.append((now_ms + self.config.file_delete_delay_ms, paths))

    def remove_deleted_files(self, now_ms: int) -> None:
        """Remove the files of segments deleted long enough ago. Blocks."""
        for path in self.take_deleted_files(now_ms):
            self._files.remove(path)

    def take_deleted_files(self, now_ms: int) -> list[str]:
        """Take the files that are due, for the caller to remove; removing large ones may take long."""
        due = [path for at_ms, paths in self._deleted if at_ms <= now_ms for path in paths]
        self._deleted = [(at_ms, paths) for at_ms, paths in self._deleted if at_ms > now_ms]
        return due

    def end_below(self, offset: int) -> int:
        """Where the log ends once it is truncated to `offset`: a batch that holds it goes as a whole."""
        if offset >= self.log_end_offset:
            return self.log_end_offset
        found = self.segment_at(offset).locate(offset)
        return offset if found is None else min(offset, found[1].base_offset)

    def truncate_to(self, offset: int, now_ms: int, replayed: Replayed | None = None) -> None:
        """Truncate every batch with records at or above `offset`, because a new leader has others.

        `replayed`: the state where the log will end (`end_below`), if it is known already: to find it may take long.
        """
        if offset >= self.log_end_offset:
            # An epoch that began here and wrote nothing goes all the same: the new leader does not know it.
            self.leader_epochs.truncate_from_end(offset)
            return
        self._check_not_swapping()
        if offset < self.segments[0].base_offset:
            self.truncate_fully_and_start_at(offset, now_ms)
            return
        offset = self.end_below(offset)
        self._begin_truncation()
        # Snapshots first: one above the new end would describe batches that no longer exist.
        self.snapshots.remove_above(offset)
        keep = self.segment_index(offset - 1) + 1  # Keep at least the first: a log needs a segment.
        self._drop(list(reversed(self.segments[keep:])), now_ms)
        del self.segments[keep:]
        self.active.truncate_to(offset, None if replayed is None else replayed.largest)
        self.log_end_offset = offset
        self._sync_truncation()
        self.log_start_offset = min(self.log_start_offset, offset)
        self.high_watermark = min(self.high_watermark, offset)
        self.leader_epochs.truncate_from_end(offset)
        if replayed is None:
            self.reload_producers(now_ms)
        else:
            self.producers.take_over(replayed.producers)
            self.producers.on_high_watermark(self.high_watermark)

    def truncate_fully_and_start_at(self, offset: int, now_ms: int) -> None:
        """Remove all records, and all that is known of them; the empty log continues at `offset`."""
        self._check_not_swapping()
        self._begin_truncation()
        self.snapshots.remove_above(self.segments[0].base_offset)
        # Create the new first segment before the old ones are removed: after a crash or a full disk the log still has
        # one.
        first = next((segment for segment in self.segments if segment.base_offset == offset), None)
        kept = first or self._new_segment(offset, now_ms)
        self._drop([segment for segment in reversed(self.segments) if segment is not kept], now_ms)
        if first is not None:
            first.cut(0, offset)
        self.snapshots.remove(list(self.snapshots.offsets))
        self.segments[:] = [kept]
        self.log_end_offset = offset
        self._sync_truncation()
        self.log_start_offset = self.high_watermark = offset
        self.leader_epochs.clear()
        self.producers.clear(offset)

    def _check_not_swapping(self) -> None:
        if self.swapping:
            raise LogError(
                f"{self.topic_partition}: compaction is exchanging segments; pause it before the log is cut back"
            )

    def _begin_truncation(self) -> None:
        """Write a mark until the truncation is synced. After a kill before the sync, a power cut could restore
        truncated records below later appends."""
        self._files.open(join(self.directory, names.BEING_CUT), create=True).close()

    def _sync_truncation(self) -> None:
        self.truncations += 1
        write_aborted_counts(self._files, self.directory, self.segments)
        self.active.file.sync()
        self._files.remove(join(self.directory, names.BEING_CUT))
        self._names_changed = True
        self.recovery_point = min(self.recovery_point, self.log_end_offset)

    def reload_producers(self, now_ms: int) -> None:
        """Rebuild the producers' state from the newest snapshot and the log after it."""
        self.restore(self.producers, self.log_end_offset, now_ms)
        self.producers.on_high_watermark(self.high_watermark)

    def restore(self, producers: ProducerState, up_to: int, now_ms: int) -> None:
        """Set `producers` to the state at the time the log ended at `up_to`."""
        producers.clear()
        start = self.snapshots.load_newest(producers, up_to, now_ms)
        from_offset = self.segments[0].base_offset if start is None else start
        replay(
            producers,
            self.segments[self.segment_index(from_offset) :],
            now_ms,
            from_offset=from_offset,
            up_to=up_to,
        )

    def replaying(self, up_to: int, now_ms: int) -> Callable[[], Replayed]:
        """Find the state at `up_to`, as a call for a thread: it reads batches and snapshots below, which no append changes.

        If the log is truncated or its segments are exchanged meanwhile, the result is of no use, or the call fails.
        """
        segments = self.segments[: self.segment_index(up_to - 1) + 1]
        found = self.snapshots.up_to(up_to)
        producers = ProducerState(producer_id_expiration_ms=self.config.producer_id_expiration_ms)

        def run() -> Replayed:
            start = found.load(producers, now_ms)
            from_offset = segments[0].base_offset if start is None else start
            index = max(0, bisect_right(segments, from_offset, key=lambda one: one.base_offset) - 1)
            replay(producers, segments[index:], now_ms, from_offset=from_offset, up_to=up_to)
            return Replayed(producers, segments[-1].largest_below(up_to))

        return run

    def expire_producers(self, now_ms: int) -> int:
        """Forget producers idle for `producer.id.expiration.ms`; returns their number."""
        return self.producers.expire(now_ms)

    def segment_at(self, offset: int) -> Segment:
        """The segment that would hold `offset`."""
        return self.segments[self.segment_index(offset)]

    def segment_index(self, offset: int) -> int:
        """The index of that segment in `segments`."""
        return max(0, bisect_right(self.segments, offset, key=lambda segment: segment.base_offset) - 1)

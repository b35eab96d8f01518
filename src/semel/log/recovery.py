"""Opening a partition's log from its directory: after a clean stop, after kill -9, after a power cut.

Role.   `open_log` is the only constructor of a `PartitionLog`.
Flow.   leftovers of deletions and compactions are settled -> segments are opened, indexes checked or rebuilt -> after
        an unclean stop the log from the recovery point on is read, checked and cut at the first flaw -> producers and
        epochs are replayed to the log's end.
Rules.  * Synced bytes below the recovery point are trusted; bytes above it are all checked. A trusted segment whose
          indexes are rebuilt is checked too.
        * Above the recovery point the log ends before the first batch that is torn, damaged or out of order: later
          records were never acknowledged as durable. Segments behind a cut are removed.
        * Below it a flaw is damage to durable records. Nothing is cut: `CorruptLogError` names file and position, and
          the log is not opened. (Kafka cuts such a segment there and continues.)
        * After a failed sync the page cache may show bytes the disk never got: they are rewritten before the next sync.
        * A missing or damaged epoch file is rebuilt from the batches. Checked batches correct its epochs, because the
          file is written at a sync, not at an append.
        * Snapshots above the log end, and damaged ones, are removed before the first append.
        * A missing or invalid index is rebuilt from the log. A durable mark is written first: after a crash during the
          rebuild every index is rebuilt, because a partial index looks complete.
        * An owner that must stop early halts recovery (`halt`) at points where a kill is safe as well: no state that
          says "recovered" is written before the whole log is read.
        * A log that never held records is left unchanged, without a sync: a broker may have thousands. A log whose
          truncation was interrupted may look the same, and is synced. Otherwise a power cut might restore truncated
          records behind later ones.
"""

import logging
from dataclasses import dataclass, replace
from typing import Final

from crc32c import crc32c

from semel.core.idempotence.producer_state import ProducerState
from semel.core.records import batch
from semel.core.records.batch import ATTRIBUTES_POSITION, BatchHeader
from semel.errors import CorruptBatchError, CorruptLogError
from semel.log import names
from semel.log.aborted_counts import read_aborted_counts
from semel.log.config import LogConfig
from semel.log.halt import NEVER, Halt
from semel.log.leader_epochs import EpochRuns, LeaderEpochs
from semel.log.leftovers import settle_leftovers
from semel.log.partition_log import PartitionLog
from semel.log.producers import record_batch, replay
from semel.log.segment import RELATIVE_OFFSET_MAX, Segment
from semel.log.snapshots import Snapshots
from semel.runtime.files import Files, join
from semel.types import TopicPartition

_logger = logging.getLogger(__name__)

_OFFSET_MAX: Final = 2**63 - 1
_REWRITE_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Opening:
    """Facts about a log before it is opened."""

    topic_partition: TopicPartition
    directory: str
    config: LogConfig
    now_ms: int
    clean: bool
    """Whether the last owner closed the log cleanly."""
    recovery_point: int = 0
    log_start_offset: int = 0
    cleaned_offset: int = 0
    """The log is compacted up to this offset: offsets below may be missing, offsets above may not."""
    halt: Halt = NEVER
    """The flag by which the owner halts recovery."""


def open_log(files: Files, opening: Opening) -> PartitionLog:
    """Open the log in a directory; create an empty one if there is none.

    Raises `RecoveryHaltedError` if it was halted before the whole log was read.
    """
    files.make_directory(opening.directory)
    sync_failed = join(opening.directory, names.SYNC_FAILED)
    must_rewrite = files.exists(sync_failed)
    if must_rewrite:
        opening = replace(opening, clean=False)
    settle_leftovers(files, opening.directory)
    snapshots = Snapshots(files, opening.directory)
    opened = _open_segments(files, opening)
    recovered = _Recovery(files, opening, snapshots, opened).run()
    if must_rewrite:
        _rewrite(opening, recovered)
    log = PartitionLog(
        files=files,
        directory=opening.directory,
        topic_partition=opening.topic_partition,
        config=opening.config,
        segments=recovered.segments,
        producers=recovered.producers,
        snapshots=snapshots,
        leader_epochs=_open_leader_epochs(files, opening, recovered),
        log_start_offset=recovered.log_start_offset,
        log_end_offset=recovered.log_end_offset,
        recovery_point=recovered.recovery_point,
    )
    snapshots.remove_above(log.log_end_offset)
    if opening.clean or not recovered.checked:
        log.reload_producers(opening.now_ms)  # From an intact snapshot, even without segments.
    snapshots.remove_strays(segment.base_offset for segment in log.segments)
    log.leader_epochs.truncate_from_end(log.log_end_offset)
    log.leader_epochs.truncate_from_start(log.log_start_offset)
    being_cut = join(opening.directory, names.BEING_CUT)
    was_cut = files.exists(being_cut)
    has_nothing_to_keep = opened.is_untouched and log.log_end_offset == 0 and not must_rewrite and not was_cut
    if recovered.checked and not has_nothing_to_keep:
        # Save a snapshot and sync, as the base of a recovery after the next crash.
        snapshots.save(log.producers, log.log_end_offset)
        log.flush(opening.now_ms)
    if was_cut:
        files.remove(being_cut)
    if opened.was_rebuilding or opened.unindexed:
        files.remove(join(opening.directory, names.REBUILDING))
    if must_rewrite:
        files.remove(sync_failed)
        files.sync_directory(opening.directory)
    return log


@dataclass(slots=True)
class _Opened:
    """The segments as found, and the ones without usable indexes."""

    segments: list[Segment]
    unindexed: set[int]
    was_rebuilding: bool
    is_untouched: bool
    """Whether the log is empty, as if it never held records."""


@dataclass(slots=True)
class _Recovered:
    segments: list[Segment]
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    producers: ProducerState
    checked: bool
    """Whether segments were checked; after an unclean stop this has replayed the producers to the log's end."""
    epochs: EpochRuns
    """The leader epochs of the checked batches."""
    knows_all_epochs: bool
    """Whether every batch was checked."""


def _open_segments(files: Files, opening: Opening) -> _Opened:
    segments: list[Segment] = []
    unindexed: set[int] = set()
    aborted_counts = _aborted_counts(files, opening.directory)
    note = join(opening.directory, names.REBUILDING)
    was_rebuilding = files.exists(note)
    for name in files.list_directory(opening.directory):
        parsed = names.parse(name)
        if parsed is None or parsed.kind != names.LOG or parsed.suffix:
            continue
        base_offset = parsed.base_offset
        where = (files, opening.directory, base_offset, opening.config, opening.now_ms)
        try:
            if was_rebuilding:
                raise CorruptLogError("indexes of this log were being rebuilt when its process ended")
            segment = Segment.open(*where)
            listed, noted = len(segment.txn_index.entries), aborted_counts.get(base_offset, 0)
            if listed < noted:
                raise CorruptLogError(f"{noted} aborted transactions were noted, {listed} are listed")
        except (CorruptLogError, FileNotFoundError) as error:
            _logger.warning(
                "%s: indexes of segment %d are rebuilt: %s", opening.topic_partition, base_offset, error
            )
            if not unindexed:  # Also with an existing mark, which may be unsynced.
                files.open(note, create=True).close()
                files.sync_directory(opening.directory)
            segment = Segment.open_without_indexes(*where)
            unindexed.add(base_offset)
        segments.append(segment)
    is_untouched = all(segment.base_offset == 0 and segment.size_bytes == 0 for segment in segments)
    return _Opened(segments, unindexed, was_rebuilding, is_untouched)


def _aborted_counts(files: Files, directory: str) -> dict[int, int]:
    try:
        return read_aborted_counts(files, directory)
    except CorruptLogError as error:
        _logger.warning("%s; the transaction indexes are taken as they are", error)
        return {}


def _rewrite(opening: Opening, recovered: _Recovered) -> None:
    """Rewrite the bytes that were read: after a failed sync the kernel marks pages as clean that the disk does not
    have."""
    _logger.warning(
        "%s: a sync failed when the log was last open: its bytes above offset %d are written again",
        opening.topic_partition,
        recovered.recovery_point,
    )
    ends = [segment.base_offset for segment in recovered.segments[1:]] + [recovered.log_end_offset]
    for segment, end_offset in zip(recovered.segments, ends, strict=True):
        if end_offset <= recovered.recovery_point:
            continue
        for position in range(0, segment.size_bytes, _REWRITE_BYTES):
            wanted = min(_REWRITE_BYTES, segment.size_bytes - position)
            segment.file.write_at(position, segment.file.read_at(position, wanted))


def _open_leader_epochs(files: Files, opening: Opening, recovered: _Recovered) -> LeaderEpochs:
    path = join(opening.directory, names.LEADER_EPOCHS)
    try:
        found = LeaderEpochs.open(files, path)
    except CorruptLogError as error:
        _logger.warning("%s is damaged and rebuilt from the log: %s", path, error)
        found = LeaderEpochs(files, path, [])
    if not found.entries:
        runs = recovered.epochs
        if not recovered.knows_all_epochs:
            runs = _epoch_runs(recovered.segments, opening.halt)
        found.correct(runs)
        return found
    found.correct(recovered.epochs)
    known_from = found.entries[0].start_offset
    if not opening.clean and known_from > recovered.log_start_offset:
        older = [segment for segment in recovered.segments if segment.base_offset < known_from]
        found.extend_down(_epoch_runs(older, opening.halt))
    return found


def _epoch_runs(segments: list[Segment], halt: Halt) -> EpochRuns:
    runs = EpochRuns()
    for segment in segments:
        for _position, header in segment.walk():
            if halt.is_asked:
                raise halt.error(segment.file.path)
            runs.note(header.partition_leader_epoch, header.base_offset)
    return runs


class _Recovery:
    """Checks the segments of one log and cuts them at the first flaw."""

    def __init__(self, files: Files, opening: Opening, snapshots: Snapshots, opened: _Opened) -> None:
        self._files = files
        self._opening = opening
        self._snapshots = snapshots
        self._segments = opened.segments
        self._unindexed = opened.unindexed
        self._first_checked_offset = 0
        self._epochs = EpochRuns()
        self._has_trusted = (
            False  # Whether a segment between checked ones was trusted, so that its epochs are unknown.
        )
        # From this index on, segments may be unsynced.
        self._first_unsynced = len(self._segments) if opening.clean else self._index_at_recovery_point()
        self._producers = ProducerState(producer_id_expiration_ms=opening.config.producer_id_expiration_ms)

    def run(self) -> _Recovered:
        opening = self._opening
        first_unsure = self._first_unsure()
        if first_unsure is not None:
            self._check_from(first_unsure)
        if not self._segments:
            self._start_empty(opening.log_start_offset)
        end_offset = self._end_offset()
        if end_offset < opening.log_start_offset:
            # The log start is above every remaining record: none may become visible again.
            _logger.warning(
                "%s: the log ends at %d, below its start offset %d: it continues, empty, at the start offset",
                opening.topic_partition,
                end_offset,
                opening.log_start_offset,
            )
            self._drop_segments(self._segments)
            self._start_empty(opening.log_start_offset)
            self._producers.clear(end_offset := opening.log_start_offset)
        start_offset = max(opening.log_start_offset, self._segments[0].base_offset)
        recovery_point = end_offset
        if first_unsure is not None:
            # Rebuilt indexes must be synced again, even if the log below the old recovery point was intact.
            recovery_point = min(opening.recovery_point, self._first_checked_offset, end_offset)
        return _Recovered(
            segments=self._segments,
            log_start_offset=start_offset,
            log_end_offset=end_offset,
            recovery_point=recovery_point,
            producers=self._producers,
            checked=first_unsure is not None,
            epochs=self._epochs,
            knows_all_epochs=first_unsure == 0 and not self._has_trusted,
        )

    def _index_at_recovery_point(self) -> int:
        # The segment that ends at the recovery point may have been active then, with unsynced indexes.
        below = [i for i, s in enumerate(self._segments) if s.base_offset < self._opening.recovery_point]
        return below[-1] if below else 0

    def _is_unsure(self, index: int) -> bool:
        """Whether a segment's bytes or indexes must be checked."""
        return index >= self._first_unsynced or self._segments[index].base_offset in self._unindexed

    def _first_unsure(self) -> int | None:
        return next((index for index in range(len(self._segments)) if self._is_unsure(index)), None)

    def _check_from(self, first: int) -> None:
        """Check every unsure segment from `first` on; stop and cut at the first flaw in unsynced bytes."""
        base_offset = self._first_checked_offset = self._segments[first].base_offset
        start = self._snapshots.load_newest(self._producers, base_offset, self._opening.now_ms)
        # The log is trusted up to the first unsure segment.
        trusted = self._segments[:first]
        from_offset = 0 if start is None else start
        self._replay(trusted, from_offset=from_offset, up_to=base_offset)
        next_offset = base_offset
        for index in range(first, len(self._segments)):
            segment = self._segments[index]
            if segment.base_offset < next_offset:
                raise CorruptLogError(
                    f"{self._opening.directory}: segment {segment.base_offset} begins below {next_offset}, where the "
                    "one before it ends; two logs are mixed up in this directory"
                )
            if not self._is_unsure(index):
                self._has_trusted = True
                self._replay([segment], from_offset=segment.base_offset, up_to=_OFFSET_MAX)
                continue
            if index > max(first, self._first_unsynced) and self._lost_before(segment, next_offset):
                self._cut(index, f"offsets {next_offset} to {segment.base_offset - 1} are missing before it")
                return
            segment = self._segments[index] = self._without_indexes(segment)
            synced_up_to = self._opening.recovery_point if index >= self._first_unsynced else _OFFSET_MAX
            next_offset, intact = self._check_segment(segment, next_offset, synced_up_to)
            if not intact and index >= self._first_unsynced:
                self._cut(index + 1, "the log was cut before it")
                return

    def _replay(self, segments: list[Segment], *, from_offset: int, up_to: int) -> None:
        opening = self._opening
        replay(
            self._producers, segments, opening.now_ms, from_offset=from_offset, up_to=up_to, halt=opening.halt
        )

    def _lost_before(self, segment: Segment, next_offset: int) -> bool:
        """Whether offsets between two segments were lost: a power cut may keep the later file and not the earlier.
        Compaction leaves such gaps too: in the compacted part they prove nothing.
        """
        explained_up_to = max(self._opening.recovery_point, self._opening.cleaned_offset)
        return segment.base_offset > max(next_offset, explained_up_to)

    def _cut(self, index: int, why: str) -> None:
        """Remove the segments from `index` on."""
        gone = self._segments[index:]
        for segment in gone:
            _logger.warning(
                "%s: segment %d is removed: %s", self._opening.topic_partition, segment.base_offset, why
            )
        self._drop_segments(gone)
        del self._segments[index:]

    def _without_indexes(self, segment: Segment) -> Segment:
        segment.close()
        opening = self._opening
        return Segment.open_without_indexes(
            self._files, opening.directory, segment.base_offset, opening.config, opening.now_ms
        )

    def _check_segment(self, segment: Segment, next_offset: int, synced_up_to: int) -> tuple[int, bool]:
        """Check every batch and rebuild the indexes; returns the offset after the last good one, and whether all were
        good."""
        next_offset = max(next_offset, segment.base_offset)
        good_bytes = 0
        flaw = "it is cut off"
        producers, halt, now_ms = self._producers, self._opening.halt, self._opening.now_ms
        for position, header, data in segment.scan():
            if halt.is_asked:
                raise halt.error(segment.file.path)
            try:
                _check_batch(segment, header, data, next_offset)
                if header.has_producer_id:
                    record_batch(producers, header, data, segment.txn_index.note, now_ms)
            except CorruptBatchError as error:
                flaw = str(error)
                break
            segment.note(position, header)
            self._epochs.note(header.partition_leader_epoch, header.base_offset)
            next_offset = header.next_offset
            good_bytes = position + header.size_bytes
        intact = good_bytes == segment.size_bytes
        if not intact and next_offset < synced_up_to:
            raise CorruptLogError(
                f"{segment.file.path} is damaged at position {good_bytes}, from offset {next_offset} on, where everything "
                f"had been synced: {flaw}. Bring the file back from a copy, or cut it there (truncate -s {good_bytes}) to "
                "go on without the records behind"
            )
        if not intact:
            _logger.warning(
                "%s: %d bytes from position %d of %s are removed, the log ends at offset %d: %s",
                self._opening.topic_partition,
                segment.size_bytes - good_bytes,
                good_bytes,
                segment.file.path,
                next_offset,
                flaw,
            )
            self._files.open(join(self._opening.directory, names.BEING_CUT), create=True).close()
            segment.file.truncate(good_bytes)
            segment.size_bytes = good_bytes
            segment.file.sync()
        segment.seal()
        return next_offset, intact

    def _end_offset(self) -> int:
        last = self._segments[-1]
        position = last.offset_index.position_before(last.base_offset + RELATIVE_OFFSET_MAX)
        end_offset = last.base_offset
        for _position, header in last.walk(position):
            end_offset = header.next_offset
        return end_offset

    def _start_empty(self, offset: int) -> None:
        opening = self._opening
        self._segments = [
            Segment.create(self._files, opening.directory, offset, opening.config, opening.now_ms)
        ]

    def _drop_segments(self, segments: list[Segment]) -> None:
        for segment in segments:
            for path in segment.mark_deleted():
                self._files.remove(path)
        if segments:
            self._files.sync_directory(self._opening.directory)


def _check_batch(segment: Segment, header: BatchHeader, data: memoryview, next_offset: int) -> None:
    """Raise `CorruptBatchError` unless the batch is intact and follows `next_offset`."""
    if (
        header.magic == batch.MAGIC
        and header.last_offset_delta >= 0
        and header.records_count >= 0
        and next_offset <= header.base_offset
        and header.base_offset + header.last_offset_delta - segment.base_offset <= RELATIVE_OFFSET_MAX
        and crc32c(data[ATTRIBUTES_POSITION:]) == header.crc
    ):
        return  # Fast path for valid batches; the checks below choose the message.
    batch.check_shape(header)
    batch.check_crc(data, 0, header)
    if header.base_offset < next_offset:
        raise CorruptBatchError(f"it follows offset {next_offset - 1}", base_offset=header.base_offset)
    if header.last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:
        raise CorruptBatchError(
            f"too far from its segment's first offset {segment.base_offset}", base_offset=header.base_offset
        )

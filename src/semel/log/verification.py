"""Verification of the files of a closed log, byte by byte.

Role.   Behind `semel log verify`. Reads the files of Semel and of Apache Kafka and reports flaws.
Flow.   a data directory: its partitions and checkpoints; a partition: its segments in order, each with its indexes; the
        producers are replayed on the way and compared with every snapshot and transaction index.
Rules.  * Nothing is written, moved or repaired: flaws that a broker would mend at its start are reported too.
        * An index entry is valid if a search that starts at it misses no record. So indexes of any Kafka version pass.
        * Gaps in the offsets are not a flaw, because compaction leaves them.
        * Memory holds a few megabytes of data at a time, and one entry per batch of a segment.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct
from typing import Final, NamedTuple

from semel.core.idempotence import snapshot
from semel.core.idempotence.producer_state import ProducerState
from semel.core.idempotence.producer_window import ProducerEntry
from semel.core.records import batch
from semel.core.records.batch import HEADER_SIZE, BatchHeader
from semel.errors import CorruptBatchError, CorruptLogError, CorruptSnapshotError, LogError
from semel.log import checkpoints, names, offset_index, time_index
from semel.log.directory import parse_directory_name
from semel.log.leader_epochs import LeaderEpochs
from semel.log.producers import record_batch
from semel.log.segment import RELATIVE_OFFSET_MAX
from semel.log.txn_index import AbortedTxn, TxnIndex
from semel.runtime.files import Files, join, read_whole
from semel.types import NO_TIMESTAMP, TopicPartition

_WINDOW_BYTES: Final = 4 * 1024 * 1024
_FLAWS_PER_FILE_MAX: Final = 10


class Finding(NamedTuple):
    """A flaw, and its file."""

    path: str
    text: str


@dataclass(slots=True)
class Report:
    """The verified files and the findings."""

    partitions: int = 0
    segments: int = 0
    batches: int = 0
    bytes: int = 0
    findings: list[Finding] = field(default_factory=list)


class _NotALogError(LogError):
    """The directory holds no log."""


def verify(files: Files, path: str) -> Report:
    """Verify a partition's or a data directory's files; raises if the directory holds neither."""
    report = Report()
    if _segment_bases(files, path):
        _verify_partition(files, path, report)
        return report
    directories = [
        (name, parsed)
        for name in files.list_directory(path)
        if files.is_directory(join(path, name)) and (parsed := parse_directory_name(name)) is not None
    ]
    if not directories and not files.exists(join(path, checkpoints.META_PROPERTIES)):
        raise _NotALogError(
            f"{path} is not a log: name a partition's directory (with files like {names.file_name(0, names.LOG)}) "
            "or a data directory (with partitions like orders-0)"
        )
    ends = {parsed: _verify_partition(files, join(path, name), report) for name, parsed in directories}
    _verify_checkpoints(files, path, ends, report)
    return report


def _segment_bases(files: Files, path: str) -> list[int]:
    parsed = map(names.parse, files.list_directory(path))
    return sorted(one.base_offset for one in parsed if one and one.kind == names.LOG and not one.suffix)


def _verify_checkpoints(files: Files, path: str, ends: dict[TopicPartition, int], report: Report) -> None:
    """Checkpoints must lie within their logs."""
    for name in (checkpoints.RECOVERY_POINTS, checkpoints.LOG_START_OFFSETS, checkpoints.HIGH_WATERMARKS):
        file = join(path, name)
        try:
            offsets = checkpoints.read_offsets(files, file)
        except CorruptLogError as error:
            report.findings.append(Finding(file, str(error)))
            continue
        for topic_partition, offset in offsets.items():
            end = ends.get(topic_partition)
            if end is not None and offset > end:
                text = f"it says {offset} of {topic_partition}, whose log ends at {end}: records are missing"
                report.findings.append(Finding(file, text))


def _verify_partition(files: Files, directory: str, report: Report) -> int:
    """Verify one partition; returns the offset after its last good batch."""
    report.partitions += 1
    bases = _segment_bases(files, directory)
    replay = _Replay(files, directory, bases[0] if bases else 0, report)
    epochs = _leader_epochs(files, directory, report)
    next_offset = bases[0] if bases else 0
    for base_offset in bases:
        segment = _SegmentCheck(
            files, directory, base_offset, is_last=base_offset == bases[-1], report=report
        )
        if base_offset < next_offset:
            segment.flaw(segment.path, f"it begins below {next_offset}, where the segment before it ends")
        replay.compare_snapshots(base_offset)
        next_offset = segment.run(next_offset, replay, epochs)
        segment.check_indexes()
        replay.compare_aborted(base_offset)
        report.segments += 1
    replay.compare_snapshots(next_offset, is_end=True)
    return next_offset


def _leader_epochs(files: Files, directory: str, report: Report) -> LeaderEpochs | None:
    path = join(directory, names.LEADER_EPOCHS)
    try:
        epochs = LeaderEpochs.open(files, path)
    except CorruptLogError as error:
        report.findings.append(Finding(path, str(error)))
        return None
    return epochs if epochs.entries else None


class _Replay:
    """The producers' state replayed from the log, to compare with snapshots and transaction indexes."""

    def __init__(self, files: Files, directory: str, first_offset: int, report: Report) -> None:
        self._files = files
        self._directory = directory
        self._report = report
        self._aborts: list[AbortedTxn] = []
        parsed = map(names.parse, files.list_directory(directory))
        self._snapshots = sorted(
            one.base_offset for one in parsed if one and one.kind == names.SNAPSHOT and not one.suffix
        )
        self._state = ProducerState()
        self._knows_all = first_offset == 0
        self._load_start(first_offset)

    def _load_start(self, first_offset: int) -> None:
        """Begin with the snapshot at the first segment, because earlier batches are deleted."""
        if first_offset in self._snapshots and first_offset > 0:
            entries = self._read(first_offset)
            if entries is not None:
                self._state.load(entries, map_end_offset=first_offset, now_ms=0)
                self._knows_all = True

    def record(self, header: BatchHeader, data: memoryview) -> None:
        if header.has_producer_id:
            record_batch(self._state, header, data, self._aborts.append, NO_TIMESTAMP)
            self._state.on_high_watermark(header.next_offset)

    def compare_snapshots(self, offset: int, *, is_end: bool = False) -> None:
        """Compare the snapshot at `offset`, if there is one, with the state here; above the end there must be none."""
        if is_end:
            for beyond in (one for one in self._snapshots if one > offset):
                self._flaw(beyond, f"it stands for offset {beyond}, but the log ends at {offset}")
        if offset not in self._snapshots or (entries := self._read(offset)) is None:
            return
        replayed = {entry.producer_id: entry for entry in self._state.entries()}
        for entry in entries:
            own = replayed.get(entry.producer_id)
            if own is None:
                if self._knows_all:
                    self._flaw(offset, f"it knows producer {entry.producer_id}, of which the log has nothing")
                continue
            told = (entry.producer_epoch, entry.last_sequence, entry.current_txn_first_offset)
            true = (own.producer_epoch, own.last_sequence, own.current_txn_first_offset)
            if told != true:
                self._flaw(
                    offset,
                    f"producer {entry.producer_id}: it has (epoch, last sequence, open transaction) {told}, the log {true}",
                )

    def compare_aborted(self, base_offset: int) -> None:
        """Compare what the segment's transaction index lists with the aborts seen since the last call."""
        seen, self._aborts = self._aborts, []
        path = join(self._directory, names.file_name(base_offset, names.TXN_INDEX))
        try:
            listed = {(one.producer_id, one.last_offset) for one in TxnIndex.open(self._files, path).entries}
        except CorruptLogError as error:
            self._report.findings.append(Finding(path, str(error)))
            return
        for one in seen:
            if (one.producer_id, one.last_offset) not in listed:
                text = f"the abort of producer {one.producer_id} at offset {one.last_offset} is missing: readers would see it"
                self._report.findings.append(Finding(path, text))
        if self._knows_all:
            for producer_id, offset in sorted(listed - {(one.producer_id, one.last_offset) for one in seen}):
                text = f"it lists an abort of producer {producer_id} at offset {offset} that the log does not have"
                self._report.findings.append(Finding(path, text))

    def _read(self, offset: int) -> list[ProducerEntry] | None:
        try:
            return snapshot.decode(read_whole(self._files, self._path(offset)))
        except CorruptSnapshotError as error:
            self._flaw(offset, str(error))
            return None

    def _path(self, offset: int) -> str:
        return join(self._directory, names.file_name(offset, names.SNAPSHOT))

    def _flaw(self, offset: int, text: str) -> None:
        self._report.findings.append(Finding(self._path(offset), text))


class _SegmentCheck:
    """One segment: its batches, then its indexes against them."""

    def __init__(
        self, files: Files, directory: str, base_offset: int, *, is_last: bool, report: Report
    ) -> None:
        self._files = files
        self._report = report
        self._is_last = is_last
        self._paths = {
            kind: join(directory, names.file_name(base_offset, kind)) for kind in names.SEGMENT_KINDS
        }
        self.path = self._paths[names.LOG]
        self.base_offset = base_offset
        # For every good batch: its position, its offsets, and the largest timestamp so far.
        self._positions: list[int] = []
        self._base_offsets: list[int] = []
        self._last_offsets: list[int] = []
        self._timestamps: list[int] = []
        self._largest_timestamps: list[int] = []
        self._flaws: dict[str, int] = {}

    def flaw(self, path: str, text: str) -> None:
        """Report a flaw, up to the limit per file."""
        count = self._flaws[path] = self._flaws.get(path, 0) + 1
        if count <= _FLAWS_PER_FILE_MAX:
            self._report.findings.append(Finding(path, text))
        elif count == _FLAWS_PER_FILE_MAX + 1:
            self._report.findings.append(Finding(path, "and more of the kind"))

    def run(self, next_offset: int, replay: _Replay, epochs: LeaderEpochs | None) -> int:
        """Check every batch; returns the offset after the last good one."""
        next_offset = max(next_offset, self.base_offset)
        largest = NO_TIMESTAMP
        for position, header, data in self._scan():
            try:
                batch.check_shape(header)
                batch.check_crc(data, 0, header)
            except CorruptBatchError as error:
                self.flaw(self.path, f"position {position}: {error}")
                continue
            if header.base_offset < next_offset:
                self.flaw(
                    self.path,
                    f"position {position}: offset {header.base_offset} follows offset {next_offset - 1}",
                )
                continue
            if header.last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
                self.flaw(
                    self.path, f"position {position}: offset {header.last_offset} is too far from the first"
                )
            self._check_epoch(position, header, epochs)
            replay.record(header, data)
            next_offset = header.next_offset
            largest = max(largest, header.max_timestamp)
            self._positions.append(position)
            self._base_offsets.append(header.base_offset)
            self._last_offsets.append(header.last_offset)
            self._timestamps.append(header.max_timestamp)
            self._largest_timestamps.append(largest)
        self._report.batches += len(self._positions)
        return next_offset

    def _scan(self) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """The whole batches; bytes behind the last one are a flaw."""
        file = self._files.open(self.path, read_only=True)
        try:
            size = file.size()
            self._report.bytes += size
            position = start = 0
            window = memoryview(b"")
            while size - position >= HEADER_SIZE:
                at = position - start
                if len(window) - at < HEADER_SIZE:
                    start, at, window = position, 0, memoryview(file.read_at(position, _WINDOW_BYTES))
                header = batch.read_header(window, at)
                if not HEADER_SIZE <= header.size_bytes <= size - position:
                    break
                if len(window) - at < header.size_bytes:
                    wanted = max(header.size_bytes, _WINDOW_BYTES)
                    start, at, window = position, 0, memoryview(file.read_at(position, wanted))
                yield position, header, window[at : at + header.size_bytes]
                position += header.size_bytes
            if position < size:
                self.flaw(
                    self.path, f"{size - position} bytes from position {position} on are not a whole batch"
                )
        finally:
            file.close()

    def _check_epoch(self, position: int, header: BatchHeader, epochs: LeaderEpochs | None) -> None:
        if epochs is None or not 0 <= header.partition_leader_epoch <= epochs.latest:
            return  # The file is written at a sync and may lack the latest epochs.
        known = epochs.epoch_for(header.base_offset)
        if known not in (-1, header.partition_leader_epoch):
            self.flaw(
                self.path,
                f"position {position}: offset {header.base_offset} was written in leader epoch "
                f"{header.partition_leader_epoch}, {names.LEADER_EPOCHS} says {known}",
            )

    def check_indexes(self) -> None:
        """Check the offset and time index against the batches."""
        for kind, entry, check in (
            (names.OFFSET_INDEX, offset_index.ENTRY, self._check_offset_entry),
            (names.TIME_INDEX, time_index.ENTRY, self._check_time_entry),
        ):
            path = self._paths[kind]
            before: tuple[int, int] | None = None
            for one in self._entries(path, entry):
                if before is not None and (one[0] <= before[0] or one[1] < before[1]):
                    self.flaw(path, f"the entry {one} does not follow {before}")
                else:
                    check(path, *one)
                before = one
            if kind == names.TIME_INDEX:
                self._check_time_end(path, before)

    def _entries(self, path: str, entry: Struct) -> Iterator[tuple[int, int]]:
        if not self._files.exists(path):
            self.flaw(path, "it is missing")
            return
        content = read_whole(self._files, path)
        if len(content) % entry.size:
            self.flaw(path, f"{len(content)} bytes are not a whole number of {entry.size}-byte entries")
        whole = len(content) // entry.size * entry.size
        # Kafka preallocates the indexes of an active segment with zeros.
        filled = len(content[:whole].rstrip(b"\0"))
        yield from entry.iter_unpack(content[: min(-(-filled // entry.size) * entry.size, whole)])

    def _check_offset_entry(self, path: str, relative: int, position: int) -> None:
        offset = self.base_offset + relative
        at = bisect_left(self._positions, position)
        if at == len(self._positions) or self._positions[at] != position:
            self.flaw(path, f"offset {offset}: no batch begins at position {position}")
        elif not self._base_offsets[at] <= offset <= self._last_offsets[-1]:
            self.flaw(
                path,
                f"offset {offset} points to position {position}, where offset {self._base_offsets[at]} begins",
            )

    def _check_time_entry(self, path: str, timestamp: int, relative: int) -> None:
        offset = self.base_offset + relative
        at = bisect_left(self._last_offsets, offset)
        if at == len(self._last_offsets):
            self.flaw(path, f"timestamp {timestamp}: the segment has no offset {offset}")
        elif at > 0 and self._largest_timestamps[at - 1] > timestamp:
            self.flaw(
                path,
                f"timestamp {timestamp} at offset {offset}: an earlier record has {self._largest_timestamps[at - 1]}",
            )
        elif self._timestamps[at] != timestamp:
            self.flaw(
                path, f"timestamp {timestamp} at offset {offset}: the batch there has {self._timestamps[at]}"
            )

    def _check_time_end(self, path: str, last: tuple[int, int] | None) -> None:
        """A closed segment's index ends with its largest timestamp, or searches by time miss the segment."""
        if self._is_last or not self._largest_timestamps or not self._files.exists(path):
            return
        largest = self._largest_timestamps[-1]
        noted = NO_TIMESTAMP if last is None else last[0]
        if noted < largest:
            self.flaw(path, f"it ends with timestamp {noted}, the segment has {largest}")

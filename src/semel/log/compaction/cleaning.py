"""One cleaning of one log: note the latest offset of every key, then rewrite the segments without superseded records.

Role.   A cleaning as a sequence of small steps that run on a thread.
Flow.   `Cleaning.begin` copies the needed facts from the log, on the loop. Every `next` of `steps` then does one slice
        of work, on a thread, and reports the bytes read and written. A `CleanedGroup` must be swapped in
        (`cleaned_segment.Swap`) before the next slice. At the end the log is clean up to `end_offset`.
Rules.  * As Kafka's `Cleaner`, record for record. Beyond it, the last batch of every new segment keeps its header, so
          that the next segment begins where it ends: compaction never leaves a gap between segments, and a gap
          therefore shows a loss.
        * The last batch of every known producer keeps its header, which carries the producer's last sequence.
        * A batch with a wrong checksum, or with records that do not match its header, ends the cleaning with an error:
          only validated bytes are rewritten.
        * Memory is bounded: the keys by `dedupe_bytes`, the read buffer by `io_bytes` or the largest batch. If not all
          keys fit, only the noted part is cleaned, and the other part stays dirty.
Elsewhere. Choosing a log: `broker.cleaner` and `plan`. Records: `core.records.key_offsets`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from semel.core.records import batch, build
from semel.core.records import compression as codecs
from semel.core.records.batch import (
    COMPRESSION_MASK,
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    LOG_OVERHEAD,
    BatchHeader,
    TimestampType,
)
from semel.core.records.build import RecordInput, build_batch
from semel.core.records.key_offsets import KeyOffsets, Sieving, Stop, empty_batch, key_offsets
from semel.errors import CorruptBatchError, LogError
from semel.log import reading
from semel.log.compaction.cleaned_segment import CleanedSegment
from semel.log.compaction.plan import Dirtiness, grouped
from semel.log.compaction.transactions import TransactionWalk
from semel.log.config import LogConfig
from semel.log.partition_log import PartitionLog
from semel.log.segment import RELATIVE_OFFSET_MAX, Segment
from semel.log.txn_index import AbortedTxn
from semel.runtime.files import Files

IO_BYTES_MIN: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class CleanerLimits:
    """Memory limits of the cleaner threads."""

    dedupe_bytes: int = 128 * 1024 * 1024
    """`log.cleaner.dedupe.buffer.size`, shared by the threads: the latest offsets by key."""
    load_factor: float = 0.9
    """`log.cleaner.io.buffer.load.factor`: the maximum load of the key map."""
    io_bytes: int = 512 * 1024
    """`log.cleaner.io.buffer.size`, shared by the threads: bytes read and written at a time."""


class Worked(NamedTuple):
    """The work of one slice."""

    bytes_read: int
    bytes_written: int


class CleanedGroup(NamedTuple):
    """A written and synced segment, ready to replace these."""

    old: list[Segment]
    cleaned: CleanedSegment


@dataclass(slots=True)
class CleaningStats:
    """Totals of a cleaning so far."""

    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    keys: int = 0


@dataclass(slots=True)
class Cleaning:
    """A cleaning in progress. `begin` on the loop, `steps` on a thread."""

    files: Files
    directory: str
    config: LogConfig
    limits: CleanerLimits
    dirt: Dirtiness
    segments: list[Segment]
    """The cleanable segments, oldest first."""
    aborted: list[AbortedTxn]
    last_offsets: frozenset[int]
    """Last offsets of the last batch of every known producer."""
    marker_epochs: dict[int, int]
    """Epochs of producers of which only a marker is known."""
    secret: bytes
    now_ms: int
    end_offset: int = 0
    """The log is clean up to this offset once all groups are swapped in."""
    stats: CleaningStats = field(default_factory=CleaningStats)
    _cleaned: CleanedSegment | None = None

    @classmethod
    def begin(
        cls,
        log: PartitionLog,
        dirt: Dirtiness,
        *,
        files: Files,
        limits: CleanerLimits,
        secret: bytes,
        now_ms: int,
    ) -> "Cleaning":
        """Plan a cleaning from the log's current state. `secret`: 16 bytes known only to this process."""
        end = dirt.first_uncleanable_offset
        segments = [segment for segment in log.segments[:-1] if segment.base_offset < end]
        last_offsets: set[int] = set()
        marker_epochs: dict[int, int] = {}
        for producer_id, window in log.producers.producers.items():
            if batches := window.batches:
                last_offsets.add(batches[-1].last_offset)
            else:
                marker_epochs[producer_id] = window.producer_epoch
        return cls(
            files=files,
            directory=log.directory,
            config=log.config,
            limits=limits,
            dirt=dirt,
            segments=segments,
            aborted=reading.aborted_transactions(log, segments[0].base_offset, end) if segments else [],
            last_offsets=frozenset(offset for offset in last_offsets if offset < end),
            marker_epochs=marker_epochs,
            secret=secret,
            now_ms=now_ms,
            end_offset=dirt.first_dirty_offset,
        )

    def steps(self) -> Iterator[Worked | CleanedGroup]:
        """The work, slice by slice. Blocks; raises `CorruptBatchError` or `OSError`."""
        dirt = self.dirt
        dirty_offsets = dirt.first_uncleanable_offset - dirt.first_dirty_offset
        keys = key_offsets(
            bytes_max=self.limits.dedupe_bytes,
            load_factor=self.limits.load_factor,
            keys_expected=max(0, dirty_offsets),
            secret=self.secret,
        )
        yield from self._note_keys(keys)
        self.stats.keys = keys.keys
        if keys.latest_offset < dirt.first_dirty_offset:
            return  # No dirty records: no rewrite.
        self.end_offset = keys.latest_offset + 1
        walk = TransactionWalk(self.aborted)
        segments = [segment for segment in self.segments if segment.base_offset < self.end_offset]
        groups = grouped(
            segments,
            segment_bytes=self.config.segment_bytes,
            index_bytes=self.config.segment_index_bytes,
            end_offset=dirt.first_uncleanable_offset,
        )
        for group in groups:
            yield from self._clean(group, keys, walk)

    def discard(self) -> None:
        """Remove the files of an unfinished group. Blocks."""
        if self._cleaned is not None:
            self._cleaned.discard()
            self._cleaned = None

    # Keys

    def _note_keys(self, keys: KeyOffsets) -> Iterator[Worked]:
        start, end = self.dirt.first_dirty_offset, self.dirt.first_uncleanable_offset
        walk = TransactionWalk([entry for entry in self.aborted if entry.last_offset >= start])
        dirty = self.segments[self._index_of(start) :]
        for number, segment in enumerate(dirty):
            position = segment.offset_index.position_before(start) if segment.base_offset < start else 0
            for piece in self._pieces(segment, position):
                full = self._note_piece(piece, keys, walk, start)
                yield Worked(len(piece.data), 0)
                if full:
                    return
            following = dirty[number + 1].base_offset if number + 1 < len(dirty) else end
            keys.reach(following - 1)

    def _index_of(self, offset: int) -> int:
        before = sum(1 for segment in self.segments if segment.base_offset <= offset)
        return max(0, before - 1)

    def _note_piece(self, piece: "_Piece", keys: KeyOffsets, walk: TransactionWalk, start: int) -> bool:
        """Note the keys of whole batches; whether the map is full."""
        while True:
            progress = keys.note(piece.data, piece.position, len(piece.data), start)
            piece.position = progress.position
            if progress.stop is not Stop.HARD:
                return self._stopped(progress.stop, piece) is Stop.FULL
            header, data = piece.next_batch()
            batch.check_crc(data, 0, header)
            if header.is_control:
                walk.on_control(header, data)
            elif not (header.is_transactional and walk.on_data(header)):
                stop = keys.note_one(_plain(header, data), start).stop
                if self._stopped(stop, piece) is Stop.FULL:
                    return True
            if header.last_offset >= start:
                keys.reach(header.last_offset)
            piece.position += header.size_bytes

    # Records

    def _clean(
        self, group: list[Segment], keys: KeyOffsets, walk: TransactionWalk
    ) -> Iterator[Worked | CleanedGroup]:
        cleaned = CleanedSegment(self.files, self.directory, group[0].base_offset, self.config)
        self._cleaned = cleaned
        last_offset = next((_last_offset(s) for s in reversed(group) if s.size_bytes), -1)
        keys.begin_sieving(
            Sieving(
                now_ms=self.now_ms,
                horizon_ms=self.now_ms + self.config.delete_retention_ms,
                kept_when_empty=self.last_offsets | {last_offset},
            )
        )
        keys.begin_entries()
        sieve = _Sieve(self, cleaned, keys, walk, last_offset)
        for segment in group:
            for piece in self._pieces(segment, 0):
                before = cleaned.size_bytes
                sieve.run(piece)
                written = cleaned.size_bytes - before
                self.stats.bytes_written += written
                yield Worked(len(piece.data), written)
        cleaned.finish(keys)
        self._cleaned = None
        yield CleanedGroup(group, cleaned)

    def _pieces(self, segment: Segment, position: int) -> Iterator["_Piece"]:
        """The segment from `position` on, in pieces of whole batches with a cut-off batch behind them."""
        size = max(IO_BYTES_MIN, self.limits.io_bytes // 2)
        end = segment.size_bytes
        while position < end:
            data = segment.file.read_at(position, min(size, end - position))
            piece = _Piece(segment, position, data)
            if (missing := piece.first_size()) > len(data):
                data = segment.file.read_at(position, min(missing, end - position))
                piece = _Piece(segment, position, data)
            yield piece
            if piece.position == 0:
                raise CorruptBatchError(
                    f"{segment.file.path}: a batch at position {position} is cut off by the end of the segment"
                )
            position += piece.position
            self.stats.bytes_read += piece.position

    def _stopped(self, stop: Stop, piece: "_Piece") -> Stop:
        """The reason a run stopped; raises for damage."""
        if stop is Stop.DAMAGED:
            header, data = piece.next_batch()
            batch.check_shape(header)
            batch.check_crc(data, 0, header)
            build.check_records(data, 0, header, gaps=True)
            raise CorruptBatchError("the records do not fit their header", base_offset=header.base_offset)
        return stop


class _Piece:
    """A part of a segment's file, and the position reached in it."""

    __slots__ = ("data", "file_position", "position", "segment")

    def __init__(self, segment: Segment, file_position: int, data: bytes) -> None:
        self.segment = segment
        self.file_position = file_position
        self.data = data
        self.position = 0

    def first_size(self) -> int:
        """The size of its first batch."""
        return batch.read_header(self.data).size_bytes

    def next_batch(self) -> tuple[BatchHeader, memoryview]:
        header = batch.read_header(self.data, self.position)
        return header, memoryview(self.data)[self.position : self.position + header.size_bytes]


class _Sieve:
    """Writes the kept records of one group to its new segment."""

    def __init__(
        self,
        cleaning: Cleaning,
        cleaned: CleanedSegment,
        keys: KeyOffsets,
        walk: TransactionWalk,
        last_offset: int,
    ) -> None:
        self._cleaning = cleaning
        self._cleaned = cleaned
        self._keys = keys
        self._walk = walk
        self._last_offset = last_offset
        self._out = bytearray()

    def run(self, piece: _Piece) -> None:
        """Process the whole batches of a piece."""
        keys, stats = self._keys, self._cleaning.stats
        self._fit(2 * len(piece.data))
        while True:
            progress = keys.sieve(piece.data, piece.position, len(piece.data), self._out)
            stats.records_read += progress.records_read
            stats.records_kept += progress.records_kept
            if progress.used:
                self._cleaned.append(memoryview(self._out)[: progress.used], keys)
            moved = progress.position > piece.position
            piece.position = progress.position
            if progress.stop is Stop.ROOM:
                if not moved:
                    self._fit(2 * len(self._out))
            elif progress.stop is Stop.HARD:
                header, data = piece.next_batch()
                batch.check_crc(data, 0, header)
                kept = self._control(header, data) if header.is_control else self._data(header, data, piece)
                if kept:
                    self._cleaned.append(kept, keys)
                piece.position += header.size_bytes
            else:
                self._cleaning._stopped(progress.stop, piece)
                return

    def _fit(self, size: int) -> None:
        if len(self._out) < size:
            self._out = bytearray(size)

    def _control(self, header: BatchHeader, data: memoryview) -> memoryview | bytearray | None:
        """The control batch to keep, or None."""
        settled, aborted = self._walk.on_control(header, data)
        if aborted is not None:
            self._cleaned.list_aborted(aborted)
        self._cleaning.stats.records_read += header.records_count
        horizon_ms = header.delete_horizon_ms
        expired = settled and horizon_ms is not None and horizon_ms <= self._cleaning.now_ms
        if expired or header.records_count == 0:
            is_last_marker = self._cleaning.marker_epochs.get(header.producer_id) == header.producer_epoch
            stays = is_last_marker or header.last_offset == self._last_offset
            return empty_batch(header) if stays else None
        self._cleaning.stats.records_kept += header.records_count
        if settled and horizon_ms is None:
            return _with_horizon(
                header, data, self._cleaning.now_ms + self._cleaning.config.delete_retention_ms
            )
        return data

    def _data(self, header: BatchHeader, data: memoryview, piece: _Piece) -> memoryview | bytearray | None:
        """The kept part of a compressed or transactional batch, or None."""
        stats = self._cleaning.stats
        stats.records_read += header.records_count
        if header.is_transactional and self._walk.on_data(header):
            stays = (
                header.last_offset == self._last_offset or header.last_offset in self._cleaning.last_offsets
            )
            return empty_batch(header) if stays else None
        plain = _plain(header, data)
        self._fit(2 * len(plain))
        while (progress := self._keys.sieve_one(plain, self._out)).stop is Stop.ROOM:
            self._fit(2 * len(self._out))
        self._cleaning._stopped(progress.stop, piece)
        stats.records_kept += progress.records_kept
        if progress.used == 0:
            return None
        kept = memoryview(self._out)[: progress.used]
        changed = batch.read_header(kept)
        if changed.records_count == header.records_count and not (
            (changed.attributes ^ header.attributes) & DELETE_HORIZON_BIT
        ):
            return data
        return _packed(changed, kept, header.compression)


def _last_offset(segment: Segment) -> int:
    """The last offset of a non-empty segment."""
    position = segment.offset_index.position_before(segment.base_offset + RELATIVE_OFFSET_MAX)
    last = -1
    for _position, header in segment.walk(position):
        last = header.last_offset
    return last


def _plain(header: BatchHeader, data: memoryview) -> memoryview | bytearray:
    """The batch without compression; its checksum is left unchanged."""
    if header.compression == 0:
        return data
    section = build.records_section(data, 0, header)
    out = bytearray(HEADER_SIZE) + section
    attributes = header.attributes & ~COMPRESSION_MASK
    batch.write_header(out, 0, header._replace(batch_length=len(out) - LOG_OVERHEAD, attributes=attributes))
    return out


def _packed(header: BatchHeader, plain: memoryview, codec: int) -> bytearray:
    """A compressed copy of a batch with a new checksum. A batch without records stays uncompressed."""
    section = plain[HEADER_SIZE:]
    codec = codec if header.records_count else 0
    out = bytearray(HEADER_SIZE)
    out += codecs.compress(codec, section) if codec else section
    batch.write_header(
        out,
        0,
        header._replace(batch_length=len(out) - LOG_OVERHEAD, attributes=header.attributes | codec),
    )
    batch.set_crc(out, 0, len(out))
    return out


def _with_horizon(header: BatchHeader, data: memoryview, horizon_ms: int) -> bytearray:
    """The control batch with a delete horizon for its marker."""
    records = list(build.iter_records(data, 0, header))
    if len(records) != 1:
        raise LogError(
            f"a control batch at offset {header.base_offset} has {len(records)} records instead of one"
        )
    record = records[0]
    stamped = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    return build_batch(
        [RecordInput(record.key, record.value, record.timestamp_ms, record.headers)],
        base_offset=header.base_offset,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
        control=True,
        partition_leader_epoch=header.partition_leader_epoch,
        timestamp_type=header.timestamp_type,
        log_append_time_ms=header.max_timestamp if stamped else None,
        delete_horizon_ms=horizon_ms,
        offset_deltas=[record.offset - header.base_offset],
        last_offset_delta=header.last_offset_delta,
    )

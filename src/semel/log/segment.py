"""One segment of a log: a run of batches in a file, with the indexes that find them.

Role.   Append batches that are validated and have their offsets; find the batch of an offset or a time.
Flow.   Only `partition_log` and `recovery` hold segments.
Rules.  * The file's name is the offset of its first record; offsets inside fit 32 bits above it.
        * One synchronous write puts a batch into the page cache; indexes follow in memory (`index_file`).
        * A failed write leaves the segment unchanged: the file is truncated to its former size.
        * `size_bytes` counts the written bytes; bytes behind it are never read.
"""

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final

from crc32c import crc32c

from semel.core.records import batch
from semel.core.records.batch import HEADER_SIZE, LOG_OVERHEAD, SIZE_MIN, BatchHeader
from semel.errors import CorruptBatchError
from semel.log import names
from semel.log.config import LogConfig
from semel.log.offset_index import ENTRY as OFFSET_ENTRY
from semel.log.offset_index import OffsetIndex
from semel.log.time_index import ENTRY as TIME_ENTRY
from semel.log.time_index import TimeIndex
from semel.log.txn_index import TxnIndex
from semel.runtime.files import File, Files, join
from semel.types import NO_TIMESTAMP, BytesLike

RELATIVE_OFFSET_MAX: Final = 0x7FFFFFFF
_PASSING: Final = Struct(">qi11xi")  # Base offset, length and last offset delta of a batch header.
_WALK_BYTES: Final = 16 * 1024  # Headers are read ahead in pieces of this size when walking a segment.
_SCAN_BYTES: Final = 4 * 1024 * 1024  # Whole batches are read in pieces of this size when scanning one.


class Segment:
    """A segment open for reading, and for appending while it is the last one."""

    __slots__ = (
        "_bytes_since_index",
        "_files",
        "_first_timestamp",
        "_jitter_ms",
        "base_offset",
        "config",
        "created_ms",
        "file",
        "max_timestamp",
        "max_timestamp_offset",
        "offset_index",
        "size_bytes",
        "time_index",
        "txn_index",
    )

    def __init__(
        self,
        *,
        files: Files,
        base_offset: int,
        file: File,
        size_bytes: int,
        offset_index: OffsetIndex,
        time_index: TimeIndex,
        txn_index: TxnIndex,
        config: LogConfig,
        now_ms: int,
    ) -> None:
        self._files = files
        self.base_offset = base_offset
        self.file = file
        self.size_bytes = size_bytes
        self.offset_index = offset_index
        self.time_index = time_index
        self.txn_index = txn_index
        self.config = config
        self.created_ms = now_ms
        self._bytes_since_index = 0
        self._first_timestamp: int | None = None
        self._jitter_ms = _jitter_ms(file.path, config) if config.segment_jitter_ms else 0
        self.max_timestamp, self.max_timestamp_offset = time_index.last or (NO_TIMESTAMP, base_offset)

    @classmethod
    def create(
        cls, files: Files, directory: str, base_offset: int, config: LogConfig, now_ms: int
    ) -> "Segment":
        """Create an empty segment; old files of that name are overwritten."""
        path = _paths(directory, base_offset)
        file = files.open(path[names.LOG], create=True)
        file.truncate(0)
        return cls(
            files=files,
            base_offset=base_offset,
            file=file,
            size_bytes=0,
            offset_index=OffsetIndex.empty(files, path[names.OFFSET_INDEX], base_offset),
            time_index=TimeIndex.empty(files, path[names.TIME_INDEX], base_offset),
            txn_index=TxnIndex.empty(files, path[names.TXN_INDEX]),
            config=config,
            now_ms=now_ms,
        )

    @staticmethod
    def discard(files: Files, directory: str, base_offset: int) -> None:
        """Durably remove the files of a segment whose creation failed. Blocks."""
        for path in _paths(directory, base_offset).values():
            files.remove(path)
        files.sync_directory(directory)

    @classmethod
    def open(
        cls, files: Files, directory: str, base_offset: int, config: LogConfig, now_ms: int
    ) -> "Segment":
        """Open a segment with its indexes; raises `CorruptLogError` or `FileNotFoundError` for invalid or missing
        ones."""
        path = _paths(directory, base_offset)
        file = files.open(path[names.LOG])
        size_bytes = file.size()
        return cls(
            files=files,
            base_offset=base_offset,
            file=file,
            size_bytes=size_bytes,
            offset_index=OffsetIndex.open(files, path[names.OFFSET_INDEX], base_offset, size_bytes),
            time_index=TimeIndex.open(files, path[names.TIME_INDEX], base_offset),
            txn_index=TxnIndex.open(files, path[names.TXN_INDEX]),
            config=config,
            now_ms=now_ms,
        )

    @classmethod
    def open_without_indexes(
        cls, files: Files, directory: str, base_offset: int, config: LogConfig, now_ms: int
    ) -> "Segment":
        """Open a segment with empty indexes, which the caller rebuilds."""
        path = _paths(directory, base_offset)
        file = files.open(path[names.LOG])
        return cls(
            files=files,
            base_offset=base_offset,
            file=file,
            size_bytes=file.size(),
            offset_index=OffsetIndex.empty(files, path[names.OFFSET_INDEX], base_offset),
            time_index=TimeIndex.empty(files, path[names.TIME_INDEX], base_offset),
            txn_index=TxnIndex.empty(files, path[names.TXN_INDEX]),
            config=config,
            now_ms=now_ms,
        )

    # Appending

    def append(self, data: BytesLike, header: BatchHeader) -> None:
        """Write one batch whose header (with its final offset) is `header` at the end."""
        position = self.size_bytes
        if self._bytes_since_index > self.config.index_interval_bytes:
            # Fallible steps come before the write: a written batch must be noted.
            self.offset_index.file.load()
            self.time_index.file.load()
        try:
            self.file.write_at(position, data)
        except OSError:
            self.file.truncate(position)
            raise
        self.size_bytes = position + len(data)
        self.note(position, header)

    def append_run(self, data: BytesLike, run: Sequence[BatchHeader]) -> None:
        """Write batches that follow each other, as many as `fits` says, with one write. All of them, or none."""
        position = self.size_bytes
        self.offset_index.file.load()
        self.time_index.file.load()
        try:
            self.file.write_at(position, data)
        except OSError:
            self.file.truncate(position)
            raise
        self.size_bytes = position + len(data)
        for header in run:
            self.note(position, header)
            position += header.size_bytes

    def fits(self, batches: Sequence[BatchHeader], first: int) -> int:
        """How many of the batches from `first` on can surely be appended after that one without a new segment.

        The first one of them has to be asked about with `should_roll`; a batch behind the returned ones, too.
        """
        config, header = self.config, batches[first]
        begun = self._first_timestamp if self.size_bytes else header.max_timestamp
        size_bytes = self.size_bytes + header.size_bytes
        entries = max(self.offset_index.file.count + 1, self.time_index.file.count + 2)
        room = config.segment_index_bytes // TIME_ENTRY.size - entries
        if begun is None or begun < 0:
            return 0
        for number in range(first + 1, len(batches)):
            header = batches[number]
            size_bytes += header.size_bytes
            if (
                size_bytes > config.segment_bytes
                or number - first >= room
                or header.last_offset - self.base_offset > RELATIVE_OFFSET_MAX
                or not 0 <= header.max_timestamp <= begun + config.segment_ms - self._jitter_ms
            ):
                return number - first - 1
        return len(batches) - first - 1

    def note(self, position: int, header: BatchHeader) -> None:
        """Add the batch at `position` to the indexes. Recovery calls it for existing batches."""
        max_timestamp = header.max_timestamp
        if position == 0:
            self._first_timestamp = max_timestamp
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = header.base_offset + header.last_offset_delta
        if self._bytes_since_index > self.config.index_interval_bytes:
            self.offset_index.append(header.last_offset, position)
            self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
            self._bytes_since_index = 0
        self._bytes_since_index += LOG_OVERHEAD + header.batch_length

    def should_roll(self, size_bytes: int, last_offset: int, max_timestamp: int, now_ms: int) -> bool:
        """Whether the next batch must go to a new segment."""
        config = self.config
        if self.size_bytes > config.segment_bytes - size_bytes:
            return True
        if (self.offset_index.file.count + 1) * OFFSET_ENTRY.size > config.segment_index_bytes or (
            self.time_index.file.count + 2
        ) * TIME_ENTRY.size > config.segment_index_bytes:
            return True
        if last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
            return True
        first = self._first_timestamp
        if first is not None and first >= 0 and max_timestamp >= 0:
            return max_timestamp - first > config.segment_ms - self._jitter_ms
        return (
            self.size_bytes > 0
            and self._waited_ms(max_timestamp, now_ms) > config.segment_ms - self._jitter_ms
        )

    def _waited_ms(self, max_timestamp: int, now_ms: int) -> int:
        """Age of the segment: by record timestamps if there are any, else by the clock."""
        if self._first_timestamp is None and self.size_bytes >= HEADER_SIZE:
            self._first_timestamp = self.header_at(0).max_timestamp
        if self._first_timestamp is not None and self._first_timestamp >= 0 and max_timestamp >= 0:
            return max_timestamp - self._first_timestamp
        return now_ms - self.created_ms

    def seal(self) -> None:
        """Close the segment for appends: complete the time index and free the indexes' memory."""
        self.note_largest_timestamp()
        self.offset_index.file.seal()
        self.time_index.file.seal()
        self.txn_index.flush()

    def note_largest_timestamp(self) -> None:
        self.time_index.append(self.max_timestamp, self.max_timestamp_offset)

    def flush_indexes(self) -> None:
        """Write the indexes' new entries, without a sync."""
        self.offset_index.file.flush()
        self.time_index.file.flush()
        self.txn_index.flush()

    def index_paths(self) -> list[str]:
        """The index files that exist."""
        paths = [self.offset_index.file.path, self.time_index.file.path, self.txn_index.path]
        return [path for path in paths if self._files.exists(path)]

    # Reading

    def header_at(self, position: int) -> BatchHeader:
        """The header of the batch that begins at `position`."""
        return batch.read_header(self.file.read_at(position, HEADER_SIZE))

    def walk(
        self, position: int = 0, start: int = 0, window: bytes = b""
    ) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of each batch from `position` on, reading little more than the headers.

        `window` may hold bytes of the file that were read already, from `start` on.
        """
        return ((found[0], found[1]) for found in self._walk(position, start, window))

    def walk_control(self, position: int = 0) -> Iterator[tuple[int, BatchHeader, bytes]]:
        """As `walk`, with the bytes of control batches, which are small and mostly in the window; other batches come
        without bytes."""
        for at_position, header, start, window in self._walk(position, 0, b""):
            data = b""
            if header.is_control:
                at = at_position - start
                data = window[at : at + header.size_bytes]
                if len(data) < header.size_bytes:
                    data = self.read_batch(at_position, header)
            yield at_position, header, data

    def _walk(
        self, position: int, start: int, window: bytes
    ) -> Iterator[tuple[int, BatchHeader, int, bytes]]:
        """(position, header, where the window begins, window) of each batch."""
        while self.size_bytes - position >= HEADER_SIZE:
            at = position - start
            if at + HEADER_SIZE > len(window):
                start, at = position, 0
                window = self.file.read_at(position, min(_WALK_BYTES, self.size_bytes - position))
            header = batch.read_header(window, at)
            batch.check_shape(header)
            if position + header.size_bytes > self.size_bytes:
                raise CorruptBatchError(
                    f"{self.file.path}: {header.size_bytes} bytes at position {position} exceed the segment's "
                    f"{self.size_bytes}",
                    base_offset=header.base_offset,
                )
            yield position, header, start, window
            position += header.size_bytes

    def scan(self, position: int = 0) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """(position, header, bytes) of each whole batch from `position` on; reads all bytes without checks.

        Ends at a batch that is cut off or has an impossible length.
        """
        read_header = batch.read_header
        while self.size_bytes - position >= HEADER_SIZE:
            wanted = min(_SCAN_BYTES, self.size_bytes - position)
            window = memoryview(self.file.read_at(position, wanted))
            at, last = 0, len(window) - HEADER_SIZE
            while at <= last:
                header = read_header(window, at)
                size = LOG_OVERHEAD + header.batch_length
                if size < HEADER_SIZE or size > self.size_bytes - position:
                    return
                if at + size > len(window):
                    break
                yield position, header, window[at : at + size]
                at += size
                position += size
            if at == 0:  # A batch larger than the window: fetch it whole.
                size = read_header(window).size_bytes
                whole = memoryview(self.file.read_at(position, size))
                if len(whole) < size:
                    return
                yield position, read_header(whole), whole
                position += size

    def locate(self, offset: int) -> tuple[int, BatchHeader] | None:
        """The first batch whose last offset is at or above `offset`.

        Every fetch calls this, and small batches are close together: batches that end before the offset are skipped by
        three header fields. `walk` does the remaining steps and raises the errors.
        """
        start = self.offset_index.position_before(offset)
        left = self.size_bytes - start
        window = self.file.read_at(start, min(_WALK_BYTES, left))
        at, last = 0, len(window) - HEADER_SIZE
        while at <= last:
            base_offset, length, last_offset_delta = _PASSING.unpack_from(window, at)
            size = LOG_OVERHEAD + length
            if base_offset + last_offset_delta >= offset or size < SIZE_MIN or at + size > left:
                break
            at += size
        for position, header in self.walk(start + at, start, window):
            if header.last_offset >= offset:
                return position, header
        return None

    def read_batch(self, position: int, header: BatchHeader) -> bytes:
        return self.file.read_at(position, header.size_bytes)

    # Cutting and removing

    def largest_below(self, offset: int) -> tuple[int, int]:
        """The largest timestamp of records below `offset`, and its offset. Where times do not rise, every header is read."""
        timestamp, at_offset = self.time_index.last_below(offset) or (NO_TIMESTAMP, self.base_offset)
        for _position, header in self.walk(self.offset_index.position_before(at_offset)):
            if header.base_offset >= offset:
                break
            if header.max_timestamp > timestamp:
                timestamp, at_offset = header.max_timestamp, header.last_offset
        return timestamp, at_offset

    def truncate_to(self, offset: int, largest: tuple[int, int] | None = None) -> None:
        """Drop every batch that holds records at or above `offset`. `largest`: `largest_below` it, if that is known."""
        found = self.locate(offset)
        if found is not None:
            self.cut(found[0], offset, largest)

    def cut(self, position: int, offset: int, largest: tuple[int, int] | None = None) -> None:
        """Drop the bytes from `position` on; `offset` is the first offset they held."""
        self.max_timestamp, self.max_timestamp_offset = largest or self.largest_below(offset)
        self.file.truncate(position)
        self.size_bytes = position
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.txn_index.truncate_to(offset)
        self._bytes_since_index = 0
        if position == 0:
            self._first_timestamp = None

    def mark_deleted(self) -> list[str]:
        """Rename the files so that no start takes them for a segment; returns the new names, to be removed."""
        renamed = []
        for path in [*self.index_paths(), self.file.path]:
            if self._files.exists(path):
                self._files.rename(path, path + names.DELETED)
                renamed.append(path + names.DELETED)
        return renamed

    def close(self) -> None:
        self.file.close()


def _jitter_ms(path: str, config: LogConfig) -> int:
    """The jitter of this segment's roll time, derived from its name so that it is the same after a restart."""
    return crc32c(path.encode()) % min(config.segment_jitter_ms, config.segment_ms)


def _paths(directory: str, base_offset: int) -> dict[str, str]:
    return {kind: join(directory, names.file_name(base_offset, kind)) for kind in names.SEGMENT_KINDS}

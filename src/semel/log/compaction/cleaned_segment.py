"""Writing a cleaned segment, and swapping it for the segments it replaces.

Role.   `CleanedSegment` is written on a thread under names that end in `.cleaned`; `Swap` puts it into the log.
Flow.   write -> `finish` (synced) -> `Swap.commit` (`.swap`, synced) -> `Swap.replace` (the log reads the new one, the old ones
        become `.deleted`) -> `Swap.retire` (synced) -> `Swap.settle` (the final names) -> `Swap.finish` (synced).
Rules.  * Until `commit`, a crash leaves the log as it was. After `commit`, the next start finishes the swap: the file
          whose name ends in `.log.swap` replaces all segments within its offsets.
        * The old names are durably removed before the new ones are given: after a power cut no start may find an old
          segment beside its replacement.
        * Only `replace` and `settle` change the segments the log reads, so only they run on the loop; they sync
          nothing. A reader of an old segment holds its file open and is not disturbed.
        * A thread never renames or removes a segment by its name: the topic may have been deleted and recreated.
        * Between `commit` and `finish` the log is `swapping`: retention and truncation leave it alone.
"""

import logging
from collections.abc import Sequence

from semel.core.records.key_offsets import KeyOffsets
from semel.errors import LogError
from semel.log import names
from semel.log.aborted_counts import write_aborted_counts
from semel.log.config import LogConfig
from semel.log.offset_index import OffsetIndex
from semel.log.partition_log import PartitionLog
from semel.log.segment import Segment
from semel.log.time_index import TimeIndex
from semel.log.txn_index import AbortedTxn, TxnIndex
from semel.runtime.files import Files, join
from semel.types import BytesLike

_logger = logging.getLogger(__name__)


class CleanedSegment:
    """A new segment being written. All methods block."""

    def __init__(self, files: Files, directory: str, base_offset: int, config: LogConfig) -> None:
        self._files = files
        self.directory = directory
        self.base_offset = base_offset
        self.config = config
        self._file = files.open(self.path(names.LOG, names.CLEANED), create=True)
        self._file.truncate(0)
        self._offset_index = OffsetIndex.empty(
            files, self.path(names.OFFSET_INDEX, names.CLEANED), base_offset
        )
        self._time_index = TimeIndex.empty(files, self.path(names.TIME_INDEX, names.CLEANED), base_offset)
        self._txn_index = TxnIndex.empty(files, self.path(names.TXN_INDEX, names.CLEANED))
        self.size_bytes = 0

    def path(self, kind: str, suffix: str = "") -> str:
        return join(self.directory, names.file_name(self.base_offset, kind) + suffix)

    def append(self, data: BytesLike, keys: KeyOffsets) -> None:
        """Write whole batches."""
        self._file.write_at(self.size_bytes, data)
        for entry in keys.entries(data, self.size_bytes, self.config.index_interval_bytes):
            self._offset_index.append(entry.last_offset, entry.position)
            self._time_index.append(entry.largest_timestamp, entry.largest_offset)
        self.size_bytes += len(data)

    def list_aborted(self, entry: AbortedTxn) -> None:
        self._txn_index.entries.append(entry)

    def finish(self, keys: KeyOffsets) -> None:
        """Make the complete segment durable."""
        self._time_index.append(*keys.largest_timestamp)
        self._offset_index.file.seal()
        self._time_index.file.seal()
        self._txn_index.flush()
        self._file.sync()
        self._file.close()
        for kind in names.SEGMENT_KINDS[1:]:
            path = self.path(kind, names.CLEANED)
            if self._files.exists(path):
                file = self._files.open(path)
                try:
                    file.sync()
                finally:
                    file.close()
        self._files.sync_directory(self.directory)

    def rename(self, before: str, after: str) -> None:
        """Change the files' suffix, the log first: a start decides by it how to treat the others."""
        for kind in names.SEGMENT_KINDS:
            path = self.path(kind, before)
            if self._files.exists(path):
                self._files.rename(path, self.path(kind, after))

    def open(self, suffix: str, now_ms: int) -> Segment:
        """Open the files as a segment for the log."""
        file = self._files.open(self.path(names.LOG, suffix))
        offset_index = OffsetIndex.open(
            self._files, self.path(names.OFFSET_INDEX, suffix), self.base_offset, self.size_bytes
        )
        return Segment(
            files=self._files,
            base_offset=self.base_offset,
            file=file,
            size_bytes=self.size_bytes,
            offset_index=offset_index,
            time_index=TimeIndex.open(self._files, self.path(names.TIME_INDEX, suffix), self.base_offset),
            txn_index=TxnIndex.open(self._files, self.path(names.TXN_INDEX, suffix)),
            config=self.config,
            now_ms=now_ms,
        )

    def discard(self) -> None:
        """Durably remove the unused files."""
        self._file.close()
        for suffix in (names.CLEANED, names.SWAP):
            for kind in names.SEGMENT_KINDS:
                self._files.remove(self.path(kind, suffix))
        self._files.sync_directory(self.directory)


class Swap:
    """The exchange of one cleaned segment for the segments it replaces."""

    def __init__(
        self, files: Files, log: PartitionLog, cleaned: CleanedSegment, old: Sequence[Segment], now_ms: int
    ) -> None:
        self._files = files
        self._log = log
        self._cleaned = cleaned
        self._old = list(old)
        self._now_ms = now_ms
        self._segment: Segment | None = None
        self._deleted: list[str] = []

    def begin(self) -> bool:
        """On the loop. Whether the log still has the segments; if so, it keeps them until `finish`."""
        log = self._log
        first = log.segment_index(self._cleaned.base_offset)
        if (
            log.offline is not None
            or log.swapping
            or log.segments[first : first + len(self._old)] != self._old
        ):
            return False
        log.swapping = True
        return True

    def commit(self) -> None:
        """On a thread. After it returns, the next start uses the new segment."""
        self._segment = self._cleaned.open(names.CLEANED, self._now_ms)
        after = [s for s in self._log.segments if s not in self._old]
        # A count that is too low is harmless, one that is too high causes a rebuild: lower it first.
        write_aborted_counts(self._files, self._cleaned.directory, [*after, self._segment])
        self._cleaned.rename(names.CLEANED, names.SWAP)
        self._files.sync_directory(self._cleaned.directory)
        self._segment = self._cleaned.open(names.SWAP, self._now_ms)

    def replace(self) -> None:
        """On the loop. Switch the log to the new segment and rename the old ones."""
        log = self._log
        if self._segment is None:
            raise LogError(f"{log.topic_partition}: a cleaned segment was not committed before it was used")
        self._segment.created_ms = self._old[-1].created_ms
        self._segment.config = log.config
        first = log.segment_index(self._cleaned.base_offset)
        log.segments[first : first + len(self._old)] = [self._segment]
        gone = {segment.base_offset for segment in self._old[1:]} - set(log.snapshots.offsets[-1:])
        snapshots = log.snapshots.forget(gone)
        for segment in self._old:
            self._deleted.extend(segment.mark_deleted())
        for path in snapshots:
            self._files.remove(path)

    def retire(self) -> None:
        """On a thread. Make the removal of the old names durable."""
        self._files.sync_directory(self._cleaned.directory)

    def settle(self, now_ms: int) -> None:
        """On the loop. Give the new segment the names of the first old one."""
        segment, path = self._segment, self._cleaned.path
        if segment is None:
            raise LogError(f"{self._log.topic_partition}: a cleaned segment was settled before it was used")
        # The log is renamed last: while it is called `.swap`, a start rebuilds its indexes.
        segment.offset_index.file.rename(path(names.OFFSET_INDEX))
        segment.time_index.file.rename(path(names.TIME_INDEX))
        if self._files.exists(segment.txn_index.path):
            self._files.rename(segment.txn_index.path, path(names.TXN_INDEX))
        segment.txn_index.path = path(names.TXN_INDEX)
        self._files.rename(path(names.LOG, names.SWAP), path(names.LOG))
        segment.file = self._files.open(path(names.LOG))
        self._log.remove_later(self._deleted, now_ms)

    def finish(self) -> None:
        """On a thread. Make the new names durable."""
        self._files.sync_directory(self._cleaned.directory)

    def end(self) -> None:
        """On the loop, after `finish`: end the swap."""
        self._log.swapping = False

    def undo(self) -> None:
        """On a thread, if `commit` failed: remove the new files; no segment was replaced."""
        self._cleaned.discard()

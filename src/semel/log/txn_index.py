"""The transaction index of one segment: producer and offset range of each aborted transaction.

Role.   34-byte entries in the order of their abort markers. Only aborts are entered, and the file does not
        exist before the first one.
Flow.   `partition_log` appends when it writes an abort marker, `recovery` notes the aborts it reads and flushes once
        per segment; a read_committed fetch collects them.
Rules.  * An entry holds the partition's last stable offset right after the marker: no transaction with a later marker
          began below it. A collector for offsets below a bound may stop at the first entry whose last stable offset
          reaches the bound.
"""

import logging
from bisect import bisect_left
from collections.abc import Iterator
from operator import attrgetter
from struct import Struct
from typing import Final, NamedTuple

from semel.errors import CorruptLogError
from semel.runtime.files import Files, read_whole

_logger = logging.getLogger(__name__)

_ENTRY: Final = Struct(">hqqqq")
ENTRY_SIZE: Final = _ENTRY.size  # 34 bytes
_VERSION: Final = 0
_marker_offset: Final = attrgetter("last_offset")


class AbortedTxn(NamedTuple):
    """One aborted transaction on this partition; `last_offset` is that of its marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TxnIndex:
    """The transaction index of one segment, held in memory: aborts are rare."""

    __slots__ = ("_files", "_flushed", "entries", "path")

    def __init__(self, files: Files, path: str, entries: list[AbortedTxn]) -> None:
        self.path = path
        self.entries = entries
        self._files = files
        self._flushed = len(entries)

    @classmethod
    def empty(cls, files: Files, path: str) -> "TxnIndex":
        """No entries, and no file."""
        files.remove(path)
        return cls(files, path, [])

    @classmethod
    def open(cls, files: Files, path: str) -> "TxnIndex":
        """Open an existing index; a missing file has no entries. Raises `CorruptLogError` for invalid content."""
        if not files.exists(path):
            return cls(files, path, [])
        content = read_whole(files, path)
        if len(content) % ENTRY_SIZE:
            raise CorruptLogError(
                f"{path}: {len(content)} bytes are not a whole number of {ENTRY_SIZE}-byte entries"
            )
        entries: list[AbortedTxn] = []
        for version, *fields in _ENTRY.iter_unpack(content):
            entry = AbortedTxn(*fields)
            if version != _VERSION or entry.last_offset < entry.first_offset:
                raise CorruptLogError(f"{path}: {entry} of version {version} is invalid")
            if entries and entry.last_offset <= entries[-1].last_offset:
                raise CorruptLogError(f"{path}: {entry} does not follow {entries[-1]}")
            entries.append(entry)
        return cls(files, path, entries)

    def append(self, entry: AbortedTxn) -> None:
        """Add an entry and write it: a reader of the files should find it soon after the marker.

        The marker is already in the log, so this cannot fail: after a disk error the next flush writes the entry.
        """
        self.note(entry)
        try:
            self.flush()
        except OSError as error:
            _logger.warning("%s: an aborted transaction is not written yet: %s", self.path, error)

    def note(self, entry: AbortedTxn) -> None:
        """Add an entry that the next flush writes, for rebuilding an index with many entries."""
        self.entries.append(entry)

    def flush(self) -> None:
        if self._flushed == len(self.entries):
            return
        file = self._files.open(self.path, create=True)
        try:
            new = b"".join(_ENTRY.pack(_VERSION, *entry) for entry in self.entries[self._flushed :])
            file.write_at(self._flushed * ENTRY_SIZE, new)
        finally:
            file.close()
        self._flushed = len(self.entries)

    def collect(self, fetch_offset: int, upper_bound: int) -> Iterator[AbortedTxn | None]:
        """The entries of transactions with records in [fetch_offset, upper_bound); a final None says that no later
        segment has any.

        Entries are in marker order, so the first relevant one is found by binary search.
        """
        first = bisect_left(self.entries, fetch_offset, key=_marker_offset)
        for index in range(first, len(self.entries)):
            entry = self.entries[index]
            if entry.first_offset < upper_bound:
                yield entry
            if entry.last_stable_offset >= upper_bound:
                yield None
                return

    def truncate_to(self, offset: int) -> None:
        """Remove transactions whose marker is at or above `offset`."""
        kept = [entry for entry in self.entries if entry.last_offset < offset]
        if len(kept) == len(self.entries):
            return
        self.entries[:] = kept
        self._flushed = min(self._flushed, len(kept))
        if not kept:
            self._files.remove(self.path)
        elif self._files.exists(self.path):
            file = self._files.open(self.path)
            try:
                file.truncate(self._flushed * ENTRY_SIZE)
            finally:
                file.close()

"""The aborted transactions of one segment: which producer's records, from where to where, are void.

Role.   34-byte entries in the order of their abort markers. Only aborts are entered, and the file does not
        exist before the first one.
Flow.   `partition_log` appends when it writes an abort marker, `recovery` notes what it meets and flushes once per segment; a
        fetch with read_committed collects.
Rules.  * An entry's last stable offset is what the partition's was right after the marker: no transaction
          whose marker comes later began below it. A collector for offsets below some bound may stop at the
          first entry whose last stable offset reaches that bound.
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
        """What the file says; no file means no entries. Raises `CorruptLogError` on what cannot be."""
        if not files.exists(path):
            return cls(files, path, [])
        content = read_whole(files, path)
        if len(content) % ENTRY_SIZE:
            raise CorruptLogError(
                f"{path}: {len(content)} bytes are no whole number of {ENTRY_SIZE}-byte entries"
            )
        entries: list[AbortedTxn] = []
        for version, *fields in _ENTRY.iter_unpack(content):
            entry = AbortedTxn(*fields)
            if version != _VERSION or entry.last_offset < entry.first_offset:
                raise CorruptLogError(f"{path}: {entry} of version {version} cannot be")
            if entries and entry.last_offset <= entries[-1].last_offset:
                raise CorruptLogError(f"{path}: {entry} does not follow {entries[-1]}")
            entries.append(entry)
        return cls(files, path, entries)

    def append(self, entry: AbortedTxn) -> None:
        """Add an entry and write it: a reader of the files must never see a marker without it for long.

        The marker is in the log, so this cannot fail: what the disk refuses now goes with the next flush.
        """
        self.note(entry)
        try:
            self.flush()
        except OSError as error:
            _logger.warning("%s: an aborted transaction is not written yet: %s", self.path, error)

    def note(self, entry: AbortedTxn) -> None:
        """Add an entry that goes to the file with the next flush: for who rebuilds the index, and has many."""
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
        """The entries that void records in [fetch_offset, upper_bound); a last None says no later segment can.

        Markers are in the order of their offsets, so the first one that matters is searched for.
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
        """Forget transactions whose marker is at or above `offset`."""
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

"""A file of fixed-size entries, sorted by their first field: the base of offset and time indexes.

Role.   Holds the bytes of an index: appended to while its segment is active, searched at any time.
Flow.   `offset_index` and `time_index` define the two fields. `segment` owns one of each.
Rules.  * While the segment grows, memory holds the entries in the file's format; `flush` writes the new part. Losing
          that part is harmless: recovery rebuilds an index above the recovery point.
        * A sealed index holds no memory: a look-up reads the few entries its binary search touches.
        * Entries are only appended, or removed from the end.
"""

from collections.abc import Callable
from struct import Struct

from semel.errors import CorruptLogError
from semel.runtime.files import File, Files


class IndexFile:
    """Entries of one index, in memory while they grow, on disk once sealed."""

    __slots__ = ("_content", "_entry", "_files", "_flushed_bytes", "count", "path")

    def __init__(self, files: Files, path: str, entry: Struct) -> None:
        self.path = path
        self._files = files
        self._entry = entry
        self._content: bytearray | None = None
        self._flushed_bytes = 0
        self.count = 0

    @classmethod
    def empty(cls, files: Files, path: str, entry: Struct) -> "IndexFile":
        """A new index; an old file of that name is overwritten."""
        index = cls(files, path, entry)
        index._content = bytearray()
        index._overwrite()
        return index

    @classmethod
    def open(cls, files: Files, path: str, entry: Struct) -> "IndexFile":
        """Open an existing index; raises `CorruptLogError` for an impossible size."""
        index = cls(files, path, entry)
        size = files.size(path)
        if size % entry.size:
            raise CorruptLogError(f"{path}: {size} bytes are not a whole number of {entry.size}-byte entries")
        index.count = size // entry.size
        index._flushed_bytes = size
        return index

    def entry(self, number: int) -> tuple[int, int]:
        """The entry at `number`, counted from 0."""
        if self._content is not None:
            first, second = self._entry.unpack_from(self._content, number * self._entry.size)
            return first, second
        file = self._files.open(self.path, read_only=True)
        try:
            return self._read_entry(file, number)
        finally:
            file.close()

    def append(self, first: int, second: int) -> None:
        """Add an entry; the caller keeps the first field ascending."""
        self.load().extend(self._entry.pack(first, second))
        self.count += 1

    def floor(self, wanted: int) -> tuple[int, int] | None:
        """The last entry whose first field is at most `wanted`."""
        number = self.count_up_to(wanted)
        return self.entry(number - 1) if number else None

    def count_up_to(self, wanted: int, *, field: int = 0) -> int:
        """Number of entries with a field of at most `wanted`; both fields are ascending."""
        if self._content is not None:
            content, size, unpack = self._content, self._entry.size, self._entry.unpack_from
            return _bisect(self.count, lambda number: unpack(content, number * size)[field] <= wanted)
        file = self._files.open(self.path, read_only=True)
        try:
            return _bisect(self.count, lambda number: self._read_entry(file, number)[field] <= wanted)
        finally:
            file.close()

    def truncate(self, count: int) -> None:
        """Keep the first `count` entries."""
        if count >= self.count:
            return
        content = self.load()
        del content[count * self._entry.size :]
        self.count = count
        self._overwrite()

    def flush(self) -> None:
        """Write the entries that are only in memory, without a sync."""
        if self._content is None or self._flushed_bytes == len(self._content):
            return
        file = self._files.open(self.path)
        try:
            # A copy of the tail: writing through a view would pin the bytearray against growing.
            file.write_at(self._flushed_bytes, bytes(self._content[self._flushed_bytes :]))
        finally:
            file.close()
        self._flushed_bytes = len(self._content)

    def seal(self) -> None:
        """Free the memory of a closed segment's index."""
        self.flush()
        self._content = None

    def rename(self, path: str) -> None:
        self._files.rename(self.path, path)
        self.path = path

    def load(self) -> bytearray:
        """Load the entries into memory, where appending cannot fail."""
        if self._content is None:
            file = self._files.open(self.path, read_only=True)
            try:
                self._content = bytearray(file.read_at(0, self.count * self._entry.size))
            finally:
                file.close()
        return self._content

    def _overwrite(self) -> None:
        content = self.load()
        file = self._files.open(self.path, create=True)
        try:
            file.truncate(len(content))
            file.write_at(0, bytes(content))
        finally:
            file.close()
        self._flushed_bytes = len(content)

    def _read_entry(self, file: File, number: int) -> tuple[int, int]:
        first, second = self._entry.unpack(file.read_at(number * self._entry.size, self._entry.size))
        return first, second


def _bisect(count: int, is_below: Callable[[int], bool]) -> int:
    """How many of the numbers 0..count-1 satisfy `is_below`, which holds for a prefix."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if is_below(middle):
            low = middle + 1
        else:
            high = middle
    return low

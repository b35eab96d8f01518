"""The time index, from a timestamp to an offset: 12-byte entries (timestamp, relative offset).

Role.   An entry (t, o) says: no record of this segment up to offset o is later than t. The last entry of a
        sealed segment names its largest timestamp, which decides its retention.
Rules.  Timestamps are strictly ascending; an append that is not larger is skipped.
"""

from struct import Struct
from typing import Final

from semel.errors import CorruptLogError
from semel.log.index_file import IndexFile
from semel.runtime.files import Files

ENTRY: Final = Struct(">qi")


class TimeIndex:
    """The time index of one segment."""

    __slots__ = ("base_offset", "file")

    def __init__(self, base_offset: int, file: IndexFile) -> None:
        self.base_offset = base_offset
        self.file = file

    @classmethod
    def empty(cls, files: Files, path: str, base_offset: int) -> "TimeIndex":
        return cls(base_offset, IndexFile.empty(files, path, ENTRY))

    @classmethod
    def open(cls, files: Files, path: str, base_offset: int) -> "TimeIndex":
        """Open an existing index; raises `CorruptLogError` if its last entries are impossible."""
        index = cls(base_offset, IndexFile.open(files, path, ENTRY))
        if count := index.file.count:
            timestamp, relative = index.file.entry(count - 1)
            before = index.file.entry(count - 2)[0] if count > 1 else -1
            if relative < 0 or timestamp <= before:
                raise CorruptLogError(
                    f"{path}: last entry (timestamp {timestamp}, offset {base_offset + relative}) "
                    f"does not follow timestamp {before}"
                )
        return index

    @property
    def last(self) -> tuple[int, int] | None:
        """The largest timestamp and its offset, or None if nothing is indexed."""
        count = self.file.count
        if not count:
            return None
        timestamp, relative = self.file.entry(count - 1)
        return timestamp, self.base_offset + relative

    def append(self, timestamp: int, offset: int) -> None:
        """Add the largest timestamp so far, if it is above the last entry's."""
        count = self.file.count
        if timestamp >= 0 and (not count or timestamp > self.file.entry(count - 1)[0]):
            self.file.append(timestamp, offset - self.base_offset)

    def offset_before(self, timestamp: int) -> int:
        """An offset up to which no record is later than `timestamp`: where a search by time starts."""
        found = self.file.floor(timestamp)
        return self.base_offset if found is None else self.base_offset + found[1]

    def last_below(self, offset: int) -> tuple[int, int] | None:
        """The largest timestamp that is noted of records below `offset`, and its offset."""
        count = self._count_below(offset)
        if not count:
            return None
        timestamp, relative = self.file.entry(count - 1)
        return timestamp, self.base_offset + relative

    def truncate_to(self, offset: int) -> None:
        """Remove entries at or above `offset`."""
        self.file.truncate(self._count_below(offset))

    def _count_below(self, offset: int) -> int:
        count = self.file.count
        while count and self.base_offset + self.file.entry(count - 1)[1] >= offset:
            count -= 1
        return count

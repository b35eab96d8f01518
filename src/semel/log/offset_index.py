"""The offset index, from an offset to a position in the segment: 8-byte entries (relative offset, position).

Role.   About one entry per `index.interval.bytes`. An entry has a batch's last offset and its position, so a scan for
        an offset may start at the entry at or below it.
Rules.  Offsets are stored relative to the segment's base offset, in 32 bits.
"""

from struct import Struct
from typing import Final

from semel.errors import CorruptLogError
from semel.log.index_file import IndexFile
from semel.runtime.files import Files

ENTRY: Final = Struct(">ii")


class OffsetIndex:
    """The offset index of one segment."""

    __slots__ = ("base_offset", "file")

    def __init__(self, base_offset: int, file: IndexFile) -> None:
        self.base_offset = base_offset
        self.file = file

    @classmethod
    def empty(cls, files: Files, path: str, base_offset: int) -> "OffsetIndex":
        return cls(base_offset, IndexFile.empty(files, path, ENTRY))

    @classmethod
    def open(cls, files: Files, path: str, base_offset: int, log_size: int) -> "OffsetIndex":
        """Open an existing index; raises `CorruptLogError` if its last entry cannot belong to the log."""
        index = cls(base_offset, IndexFile.open(files, path, ENTRY))
        if count := index.file.count:
            relative, position = index.file.entry(count - 1)
            # Kafka preallocates index files with zeros and trims them on a clean stop: an entry at position 0 after
            # another entry is such a zero.
            if relative < 0 or not 0 <= position < log_size or (count > 1 and position == 0):
                raise CorruptLogError(
                    f"{path}: last entry (offset {base_offset + relative}, position {position}) does not fit "
                    f"a log of {log_size} bytes"
                )
        return index

    def append(self, last_offset: int, position: int) -> None:
        """The batch that ends with `last_offset` begins at `position`."""
        self.file.append(last_offset - self.base_offset, position)

    def position_before(self, offset: int) -> int:
        """The position of a batch at or before the one that holds `offset`."""
        found = self.file.floor(offset - self.base_offset)
        return 0 if found is None else found[1]

    def offset_after(self, position: int) -> int | None:
        """An offset below which every batch begins before `position`; None if no entry reaches it."""
        count = self.file.count_up_to(position - 1, field=1)
        return self.base_offset + self.file.entry(count)[0] if count < self.file.count else None

    def truncate_to(self, offset: int) -> None:
        """Remove entries at or above `offset`."""
        self.file.truncate(self.file.count_up_to(offset - self.base_offset - 1))

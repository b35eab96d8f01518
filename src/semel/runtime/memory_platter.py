"""One file's bytes on a simulated disk: the visible bytes, and the ones a power cut leaves.

Role.   `Inode` keeps the page cache (`visible`), the platter (`durable`) and the writes between them.
Flow.   `memory_files.MemoryDisk` makes one per file; `MemoryFile` writes and syncs it; `cut_power` decides which writes
        survive.
Rules.  * Only `sync` moves bytes from the page cache to the platter for certain.
        * A power cut keeps, loses or tears each unsynced write, in any combination: a later write may survive an
          earlier one. A lost write reads as the old bytes, or as zeros where the file grew.
        * A write torn at sectors may miss any sector; a write torn at bytes keeps a prefix.
        * A lost truncation also loses later writes beyond its cut, because file systems journal sizes.
        * After a failed sync the bytes count as clean: a later sync that succeeds does not save them.
"""

import itertools
import random
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

SECTOR_BYTES: Final = 512


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes in the page cache only."""

    position: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Truncation:
    """A change of size that is not journaled yet."""

    size: int


class Mood(Enum):
    """How a power cut treats one file, so that the extremes come as often as the mixtures."""

    LOSE_ALL = auto()
    KEEP_ALL = auto()
    KEEP_PREFIX = auto()
    MIX = auto()


class Inode:
    """A file without a name."""

    __slots__ = ("durable", "linked", "modified_ms", "number", "pending", "visible")

    def __init__(self, number: int, modified_ms: int = 0) -> None:
        self.number = number
        self.modified_ms = modified_ms
        self.visible = bytearray()
        self.durable = bytearray()
        self.pending: list[Write | Truncation] = []
        self.linked = True  # Whether it has a visible name: only then do its bytes count as used space.

    def write(self, position: int, data: bytes) -> None:
        if data:
            _put(self.visible, position, data)
            self.pending.append(Write(position, data))

    def truncate(self, size: int) -> None:
        _resize(self.visible, size)
        self.pending.append(Truncation(size))

    def sync(self) -> None:
        for change in self.pending:
            match change:
                case Write(position, data):
                    _put(self.durable, position, data)
                case Truncation(size):
                    _resize(self.durable, size)
        self.pending.clear()

    def fail_sync(self, dice: random.Random) -> None:
        """A sync that reported an error: some bytes are durable, and the others are never written again."""
        self._settle(dice)

    def cut_power(self, dice: random.Random) -> None:
        self._settle(dice)
        self.visible = bytearray(self.durable)

    def _settle(self, dice: random.Random) -> None:
        pending, self.pending = self.pending, []
        if not pending:
            return
        mood = dice.choice(tuple(Mood))
        kept_count = dice.randint(0, len(pending))  # For KEEP_PREFIX: these are whole, the next one is torn.
        reach: int | None = None  # Where the first lost truncation cut: no write beyond it survives.
        for index, change in enumerate(pending):
            fate = _fate(dice, mood, index, kept_count)
            match change:
                case Truncation(size):
                    if fate == 1.0 and (reach is None or size <= reach):
                        _resize(self.durable, size)
                    else:
                        reach = size if reach is None else min(reach, size)
                case Write(position, data):
                    if reach is not None:
                        data = data[: max(0, reach - position)]
                    if data:
                        self._settle_write(dice, position, data, fate)

    def _settle_write(self, dice: random.Random, position: int, data: bytes, fate: float) -> None:
        if fate == 1.0:
            _put(self.durable, position, data)
        elif fate == 0.0:
            if position + len(data) > len(self.durable) and dice.random() < 0.25:
                _resize(
                    self.durable, position + dice.randint(1, len(data))
                )  # The size survived without the data.
        elif dice.random() < 0.5:
            _put(self.durable, position, data[: dice.randint(0, len(data))])
        else:
            for start, end in _sectors(position, len(data)):
                if dice.random() < 0.5:
                    _put(self.durable, start, data[start - position : end - position])


def _fate(dice: random.Random, mood: Mood, index: int, kept_count: int) -> float:
    """1: the change survives. 0: it does not. In between: it is torn."""
    match mood:
        case Mood.LOSE_ALL:
            return 0.0
        case Mood.KEEP_ALL:
            return 1.0
        case Mood.KEEP_PREFIX:
            return 1.0 if index < kept_count else 0.5 if index == kept_count else 0.0
        case Mood.MIX:
            return dice.choice((0.0, 0.5, 1.0))


def _sectors(position: int, size: int) -> list[tuple[int, int]]:
    """The pieces of [position, position + size) that a disk writes as one."""
    end = position + size
    cuts = [position, *range(position - position % SECTOR_BYTES + SECTOR_BYTES, end, SECTOR_BYTES), end]
    return list(itertools.pairwise(cuts))


def _put(content: bytearray, position: int, data: bytes) -> None:
    if not data:
        return
    if position > len(content):
        _resize(content, position)
    content[position : position + len(data)] = data


def _resize(content: bytearray, size: int) -> None:
    if size <= len(content):
        del content[size:]
    else:
        content.extend(bytes(size - len(content)))

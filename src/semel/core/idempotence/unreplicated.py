"""Transactions that are over but not yet replicated: where the oldest of them begins.

Role.   A completed transaction holds the last stable offset back until its marker is replicated; `ProducerState` asks
        for the first offset of the oldest such transaction.
Flow.   `add` with every marker, `release` when the high watermark moves.
Rules.  * Markers are added in the order of the log. A transaction that began later and ended earlier than another is
          never the oldest, and is not kept. So the kept first offsets rise with the last offsets.
        * No call iterates over all of them: during recovery nothing is replicated yet, and there may be millions.
        * Two integers of eight bytes each are kept per transaction, for the same reason.
"""

from array import array
from bisect import bisect_left
from typing import Final

_GONE_MIN: Final = 1024  # Released entries at the front are compacted away from this many on.


class Unreplicated:
    """First and last offsets of transactions, both rising."""

    __slots__ = ("_first_offsets", "_gone", "_last_offsets")

    def __init__(self) -> None:
        self._first_offsets = array("q")
        self._last_offsets = array("q")
        self._gone = 0  # Released entries at the front.

    def __len__(self) -> int:
        """Number of transactions kept."""
        return len(self._last_offsets) - self._gone

    @property
    def first_offset(self) -> int | None:
        """Where the oldest transaction begins."""
        gone = self._gone
        return self._first_offsets[gone] if gone < len(self._first_offsets) else None

    def add(self, first_offset: int, last_offset: int) -> None:
        """A transaction is over, its marker at `last_offset` behind every other."""
        first_offsets, last_offsets = self._first_offsets, self._last_offsets
        while len(first_offsets) > self._gone and first_offsets[-1] > first_offset:
            first_offsets.pop()
            last_offsets.pop()
        first_offsets.append(first_offset)
        last_offsets.append(last_offset)

    def release(self, high_watermark: int) -> bool:
        """Drop transactions whose marker is below it, that is, replicated; whether there was one."""
        gone = bisect_left(self._last_offsets, high_watermark, self._gone)
        if gone == self._gone:
            return False
        self._gone = gone
        if gone == len(self._last_offsets):
            self.clear()
        elif gone >= _GONE_MIN and 2 * gone >= len(self._last_offsets):
            del self._first_offsets[:gone]
            del self._last_offsets[:gone]
            self._gone = 0
        return True

    def clear(self) -> None:
        """Drop all."""
        del self._first_offsets[:]
        del self._last_offsets[:]
        self._gone = 0

"""Which offset may be committed while records finish out of order: the end of the finished prefix.

Role.   One `FinishedPrefix` per assigned partition remembers what was handed out and what is finished.
Flow.   `workers` calls `started` when a record is handed out, `finished` when its work is done, and commits `position`.
Rules.  * Everything below `position` is finished. A commit of it can lose nothing.
        * Nothing at or above `position` counts as finished, even if it is: after a crash it is done again.
        * Offsets only grow, but may have gaps: compaction and transaction markers leave them.
"""

from collections import deque
from dataclasses import dataclass, field

from semel.errors import InvariantError


@dataclass(slots=True)
class FinishedPrefix:
    """The records of one partition that were handed out, in offset order."""

    position: int | None = None  # The offset to commit; None while nothing was finished.
    _handed_out: deque[int] = field(default_factory=deque)  # From the first unfinished one on.
    _unfinished: set[int] = field(default_factory=set)
    last: int = -1  # The highest offset that was handed out.

    def started(self, offset: int) -> None:
        if offset <= self.last:
            raise InvariantError(f"offset {offset} was handed out after {self.last}")
        self.last = offset
        self._handed_out.append(offset)
        self._unfinished.add(offset)

    def finished(self, offset: int) -> bool:
        """Note a finished record; whether `position` has moved."""
        if offset not in self._unfinished:
            raise InvariantError(f"offset {offset} is not being worked on")
        self._unfinished.remove(offset)
        before = self.position
        while self._handed_out and self._handed_out[0] not in self._unfinished:
            self.position = self._handed_out.popleft() + 1
        return self.position != before

    @property
    def unfinished(self) -> int:
        """How many were handed out and are not finished."""
        return len(self._unfinished)

    @property
    def span(self) -> int:
        """How many records a crash now would have done again, at most: all from the first unfinished one on."""
        return len(self._handed_out)

"""The offset to commit while records finish out of order: the end of the finished prefix.

Role.   One `FinishedPrefix` per assigned partition tracks records in progress and finished ones.
Flow.   `workers` calls `started` when a record is handed out, `finished` when its work is done, and commits `position`.
Rules.  * Every record below `position` is finished, so committing it loses none.
        * Records at or above `position` are repeated after a crash, even finished ones.
        * Offsets are ascending, with gaps from compaction and transaction markers.
"""

from collections import deque
from dataclasses import dataclass, field

from semel.errors import InvariantError


@dataclass(slots=True)
class FinishedPrefix:
    """The started records of one partition, in offset order."""

    position: int | None = None  # The offset to commit; None until a record is finished.
    _handed_out: deque[int] = field(default_factory=deque)  # From the first unfinished record on.
    _unfinished: set[int] = field(default_factory=set)
    last: int = -1  # The highest started offset.

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
        """Number of started and unfinished records."""
        return len(self._unfinished)

    @property
    def span(self) -> int:
        """Upper bound of the records repeated after a crash now: all from the first unfinished one on."""
        return len(self._handed_out)

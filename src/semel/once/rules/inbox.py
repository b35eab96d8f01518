"""The life of a message in the inbox: received, then processed; or given up, with the reason written down.

Role.   Decides what a claim, a success and a failure make of a row. `semel.once.inbox` writes what it decides.

            RECEIVED --claim--> RECEIVED (attempt n, hidden until its lease ends)
               |  '--succeeded--> PROCESSED
               '--failed or claimed too often--> DEAD --revive--> RECEIVED

Rules.  * An attempt is counted before it starts, so a message that kills its worker is given up in the end as well.
        * A row is hidden from others until `due_ms`: the end of a lease, or of a wait before the next attempt.
        * Success needs the attempt it belongs to: a worker that was thought dead changes nothing any more.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from semel.errors import InvariantError
from semel.once.rules.retries import RetryPolicy


class InboxState(StrEnum):
    """Where a message stands."""

    RECEIVED = "received"
    PROCESSED = "processed"
    DEAD = "dead"


# Every legal move. What is not listed here cannot happen.
MOVES: Final[Mapping[InboxState, frozenset[InboxState]]] = {
    InboxState.RECEIVED: frozenset({InboxState.RECEIVED, InboxState.PROCESSED, InboxState.DEAD}),
    InboxState.PROCESSED: frozenset(),
    InboxState.DEAD: frozenset({InboxState.RECEIVED}),
}


@dataclass(frozen=True, slots=True)
class InboxEntry:
    """What the rules need of a row."""

    state: InboxState = InboxState.RECEIVED
    attempts: int = 0
    due_ms: int = 0
    error: str | None = None

    def claimed(self, *, now_ms: int, lease_ms: int, policy: RetryPolicy) -> "InboxEntry | None":
        """The row once a worker has it, or once it is given up; None if it is nobody's turn."""
        if self.state is not InboxState.RECEIVED or self.due_ms > now_ms:
            return None
        if self.attempts >= policy.attempts_max:
            reason = self.error or "its worker died, or its lease ran out"
            tries = "1 attempt" if self.attempts == 1 else f"{self.attempts} attempts"
            return replace(self, state=InboxState.DEAD, error=f"given up after {tries}: {reason}")
        return replace(self, attempts=self.attempts + 1, due_ms=now_ms + lease_ms)

    def succeeded(self) -> "InboxEntry":
        return replace(self, state=self._may_become(InboxState.PROCESSED), error=None)

    def failed(self, error: str, *, now_ms: int, policy: RetryPolicy) -> "InboxEntry":
        """The row after the attempt that it counts has failed."""
        if self.attempts == 0:
            raise InvariantError("a message failed that nobody has claimed")
        wait_ms = policy.wait_ms(self.attempts)
        if wait_ms is None:
            return replace(self, state=self._may_become(InboxState.DEAD), error=error)
        return replace(
            self, state=self._may_become(InboxState.RECEIVED), due_ms=now_ms + wait_ms, error=error
        )

    def revived(self, *, now_ms: int) -> "InboxEntry":
        """A dead message gets all its attempts again."""
        if self.state is not InboxState.DEAD:
            raise InvariantError(f"only a dead message can be revived, this one is {self.state}")
        return replace(self, state=self._may_become(InboxState.RECEIVED), attempts=0, due_ms=now_ms)

    def _may_become(self, state: InboxState) -> InboxState:
        if state not in MOVES[self.state]:
            raise InvariantError(f"a message in the inbox cannot go from {self.state} to {state}")
        return state

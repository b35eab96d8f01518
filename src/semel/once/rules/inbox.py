"""The states of an inbox message: received, then processed, or dead with a stored reason.

Role.   Decides how a claim, a success and a failure change a row. `semel.once.inbox` writes the result.

            RECEIVED --claim--> RECEIVED (attempt n, hidden until its lease ends)
               |  '--succeeded--> PROCESSED
               '--failed or claimed too often--> DEAD --revive--> RECEIVED

Rules.  * An attempt is counted before it starts, so a message that kills its worker is given up eventually.
        * A row is hidden from others until `due_ms`: the end of a lease, or of a wait before the next attempt.
        * A success must name the current attempt: a worker whose lease expired changes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from semel.errors import InvariantError
from semel.once.rules.retries import RetryPolicy


class InboxState(StrEnum):
    """The state of a message."""

    RECEIVED = "received"
    PROCESSED = "processed"
    DEAD = "dead"


# Every legal move; any other move raises.
MOVES: Final[Mapping[InboxState, frozenset[InboxState]]] = {
    InboxState.RECEIVED: frozenset({InboxState.RECEIVED, InboxState.PROCESSED, InboxState.DEAD}),
    InboxState.PROCESSED: frozenset(),
    InboxState.DEAD: frozenset({InboxState.RECEIVED}),
}


@dataclass(frozen=True, slots=True)
class InboxEntry:
    """The fields of a row that the rules use."""

    state: InboxState = InboxState.RECEIVED
    attempts: int = 0
    due_ms: int = 0
    error: str | None = None

    def claimed(self, *, now_ms: int, lease_ms: int, policy: RetryPolicy) -> "InboxEntry | None":
        """The row after a claim, or after too many attempts; None if it is not due."""
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
        """The row after its current attempt failed."""
        if self.attempts == 0:
            raise InvariantError("a message failed that nobody has claimed")
        wait_ms = policy.wait_ms(self.attempts)
        if wait_ms is None:
            return replace(self, state=self._may_become(InboxState.DEAD), error=error)
        return replace(
            self, state=self._may_become(InboxState.RECEIVED), due_ms=now_ms + wait_ms, error=error
        )

    def revived(self, *, now_ms: int) -> "InboxEntry":
        """The row of a dead message with its attempts reset."""
        if self.state is not InboxState.DEAD:
            raise InvariantError(f"only a dead message can be revived, this one is {self.state}")
        return replace(self, state=self._may_become(InboxState.RECEIVED), attempts=0, due_ms=now_ms)

    def _may_become(self, state: InboxState) -> InboxState:
        if state not in MOVES[self.state]:
            raise InvariantError(f"a message in the inbox cannot go from {self.state} to {state}")
        return state

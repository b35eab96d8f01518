"""Sessions: the clients still alive, and until when.

Role.   `machine` opens sessions, hears from them with every request, and asks for the expired ones.
Rules.  * A session ends with the tick in which its time runs out. Expiry is looked at in steps of `tick_ms`, so a session lives
          up to a tick longer than its timeout.
        * Each request moves the end of its session, by the timeout that its present connection was granted.
        * A password is needed to go on with a session over another connection. It is not a secret of the world outside: it is
          derived from the id, so that the machine needs no dice.
"""

import hashlib
from dataclasses import dataclass, field

from semel.core.zookeeper.wire.messages import PASSWORD_BYTES


@dataclass(slots=True)
class Session:
    """One session."""

    session_id: int
    timeout_ms: int
    expires_at_ms: int
    connection: int | None
    """The one that was connected last; None once that is gone."""
    password: bytes


@dataclass(slots=True)
class Sessions:
    """All that are not over."""

    tick_ms: int
    timeout_min_ms: int
    timeout_max_ms: int
    next_id: int
    by_id: dict[int, Session] = field(default_factory=dict)

    def granted(self, timeout_ms: int) -> int:
        return min(max(timeout_ms, self.timeout_min_ms), self.timeout_max_ms)

    def open(self, connection: int, timeout_ms: int, now_ms: int) -> Session:
        session_id, self.next_id = self.next_id, self.next_id + 1
        session = Session(session_id, timeout_ms, 0, connection, _password(session_id))
        self.by_id[session_id] = session
        self.touch(session, now_ms)
        return session

    def touch(self, session: Session, now_ms: int) -> None:
        """It was heard of."""
        session.expires_at_ms = ((now_ms + session.timeout_ms) // self.tick_ms + 1) * self.tick_ms

    def expired(self, now_ms: int) -> list[Session]:
        """The sessions whose time is over, the first one first."""
        over = [one for one in self.by_id.values() if one.expires_at_ms <= now_ms]
        return sorted(over, key=lambda one: (one.expires_at_ms, one.session_id))

    def next_end_ms(self) -> int | None:
        """When the next one ends if nothing is heard of it."""
        return min((one.expires_at_ms for one in self.by_id.values()), default=None)


def _password(session_id: int) -> bytes:
    return hashlib.sha256(f"session {session_id}".encode()).digest()[:PASSWORD_BYTES]

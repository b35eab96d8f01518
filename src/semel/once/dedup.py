"""Deduplication by message id: a repeated message is recognised in every worker.

Role.   `Deduplicator`: claim -> work -> done, over a store in memory, in a database or in Redis.

            dedup = Deduplicator(SqlClaims("sqlite:///seen.db", name="mails"))
            for record in consumer:
                with dedup.claim(record.headers["id"]) as mine:
                    if mine:                      # False: it was done before
                        send_mail(record)

Flow.   Commit the record's offset after the `with`: a record that is not marked done is delivered again.
Rules.  * Check and claim are one atomic step of the store; separate steps would let two workers through.
        * The id is kept after the work for `ttl_ms`, so that later duplicates are recognised.
        * A claim lasts for `lease_ms`. If its owner dies, another worker repeats the work after that.
        * Failed work releases its claim, so that it can be retried at once. Limits. Work outside the store is repeated
if its worker dies between the work and `done`, or exceeds its lease. Work inside a database has no such window:
`SqlClaims.once` marks and works in one transaction.
"""

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from semel.errors import ConfigError
from semel.once.clients import Clock, wall_clock_ms
from semel.once.errors import ClaimBusyError, ClaimLostError, OnceError
from semel.once.rules.claims import AlreadyDone, Busy, Taken, Verdict
from semel.words import kind, shown

WEEK_MS: Final = 7 * 24 * 3600 * 1000
WAIT_MS: Final = 60_000
_LOOK_AGAIN_MS: Final = 100  # A busy claim may end early: its owner finishes or fails.


class ClaimStore(Protocol):
    """The store of ids. Each method is one atomic step."""

    def claim(self, message_id: str, token: str, *, lease_ms: int, now_ms: int) -> Verdict:
        """Take the id if it is free or expired."""
        ...

    def renew(self, message_id: str, token: str, *, lease_ms: int, now_ms: int) -> bool:
        """Extend the claim by a lease, if the token still holds it."""
        ...

    def done(self, message_id: str, token: str, *, ttl_ms: int, now_ms: int) -> bool:
        """Mark the id done, if the token still holds the claim."""
        ...

    def release(self, message_id: str, token: str) -> bool:
        """Release the claim, if the token still holds it."""
        ...


class Claim:
    """The result of a claim; true if the caller must do the work."""

    def __init__(self, dedup: "Deduplicator", message_id: str, token: str | None) -> None:
        self.message_id = message_id
        self.token = token
        self._dedup = dedup

    def __bool__(self) -> bool:
        return self.token is not None

    def renew(self) -> None:
        """Extend the lease, for long work."""
        if self.token is not None:
            self._dedup.renew(self)


class Deduplicator:
    """Lets each message id be processed once."""

    def __init__(
        self,
        store: ClaimStore,
        *,
        ttl_ms: int = WEEK_MS,
        lease_ms: int = 30_000,
        wait_ms: int = WAIT_MS,
        clock: Clock = wall_clock_ms,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        lacking = [name for name in ("claim", "renew", "done", "release") if not hasattr(store, name)]
        if lacking:
            raise ConfigError(
                f"store={shown(store)} is {kind(store)}, which has no {lacking[0]}(): "
                "use MemoryClaims(), SqlClaims(url, name=...) or RedisClaims(client)"
            )
        for key, value in (("ttl_ms", ttl_ms), ("lease_ms", lease_ms)):
            if value < 1:
                raise ConfigError(f"{key} is {value}: an id needs an expiry of at least 1 ms")
        if wait_ms < 0:
            raise ConfigError(f"wait_ms is {wait_ms}: it must not be negative")
        self._store: Final = store
        self._ttl_ms: Final = ttl_ms
        self._lease_ms: Final = lease_ms
        self._wait_ms: Final = wait_ms
        self._clock: Final = clock
        self._sleep: Final = sleep

    @contextmanager
    def claim(self, message_id: str) -> Iterator[Claim]:
        """Claim an id for a `with` block: marked done at its end, released if it raises.

        While another worker holds it, wait for at most `wait_ms`.
        """
        if not isinstance(message_id, str) or not message_id:
            raise OnceError(
                f"message_id={shown(message_id)} is {kind(message_id)}: it must be a text that is not empty, "
                "as record.headers['id'].decode()"
            )
        claim = self._take(message_id)
        if claim.token is None:
            yield claim
            return
        try:
            yield claim
        except BaseException:
            self._store.release(message_id, claim.token)
            raise
        if not self._store.done(message_id, claim.token, ttl_ms=self._ttl_ms, now_ms=self._clock()):
            raise ClaimLostError(
                f"the claim of {message_id!r} ran out after {self._lease_ms} ms, before its work was done: another one may "
                "have done the same work. Use a longer lease_ms, or renew the claim on the way"
            )

    def renew(self, claim: Claim) -> None:
        token = claim.token or ""
        if not self._store.renew(claim.message_id, token, lease_ms=self._lease_ms, now_ms=self._clock()):
            raise ClaimLostError(
                f"the claim of {claim.message_id!r} ran out after {self._lease_ms} ms, before it was renewed: "
                "another one may be working on it"
            )

    def _take(self, message_id: str) -> Claim:
        token = str(uuid.uuid4())
        give_up_ms = self._clock() + self._wait_ms
        while True:
            now_ms = self._clock()
            match self._store.claim(message_id, token, lease_ms=self._lease_ms, now_ms=now_ms):
                case Taken():
                    return Claim(self, message_id, token)
                case AlreadyDone():
                    return Claim(self, message_id, None)
                case Busy(for_ms):
                    left_ms = give_up_ms - now_ms
                    self._sleep(pause_seconds(message_id, for_ms, left_ms=left_ms, wait_ms=self._wait_ms))


def pause_seconds(message_id: str, busy_ms: int, *, left_ms: int, wait_ms: int) -> float:
    """Pause before a busy id is checked again; raises `ClaimBusyError` if `wait_ms` is over."""
    if left_ms <= 0:
        raise ClaimBusyError(
            f"{message_id!r} is being worked on by another one for {busy_ms} ms more, and wait_ms ({wait_ms}) is over: "
            "do not commit its offset, poll it again later"
        )
    return min(busy_ms, _LOOK_AGAIN_MS, left_ms) / 1000

"""Claims in a database table: for workers of many processes, and for work in the same database.

Role.   `SqlClaims` is a store for `Deduplicator`; its own `once` marks and works in one transaction.

            seen = SqlClaims("postgresql+psycopg://…", name="payments")
            for record in consumer:
                with seen.once(record.headers["id"]) as db:
                    if db is not None:            # None: it was done before
                        db.execute(insert(payments), …)

Rules.  * The first statements decide: an insert that ignores existing ids, then an update of expired ones. Concurrent
          claims wait for each other's transaction there.
        * A claimed id is not done yet. `once` waits for the end of the claim, as `Deduplicator` does: then the id is
          done, or free again.
        * Expired ids are deleted in small batches, along with claims.
"""

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import sqlalchemy as sa

from semel.once.clients import Clock, wall_clock_ms
from semel.once.database import checked_name, insert_ignoring, open_database
from semel.once.database import claims as table
from semel.once.dedup import WAIT_MS, WEEK_MS, pause_seconds
from semel.once.rules.claims import AlreadyDone, Busy, ClaimState, Entry, Taken, Verdict, judge

_PURGE_EVERY: Final = 1000  # Claims.
_PURGE_ROWS_MAX: Final = 5000


class SqlClaims:
    """Ids in `semel_claims`, under one name."""

    def __init__(
        self,
        database: str | sa.URL | sa.Engine,
        *,
        name: str,
        clock: Clock = wall_clock_ms,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.engine: Final = open_database(database, table)
        self.name: Final = checked_name(name)
        self._clock: Final = clock
        self._sleep: Final = sleep
        self._claims = 0

    @contextmanager
    def once(
        self, message_id: str, *, ttl_ms: int = WEEK_MS, wait_ms: int = WAIT_MS
    ) -> Iterator[sa.Connection | None]:
        """A transaction in which the id is marked done; None if it was done before.

        The caller's statements and the mark are committed together, or not at all: so a kill can neither repeat nor
        lose the work. No lease is needed, because an uncommitted claim does not exist. While a `Deduplicator` of the
        same name has the id, wait for at most `wait_ms`, outside any transaction.
        """
        token = str(uuid.uuid4())
        give_up_ms = self._clock() + wait_ms
        while True:
            now_ms = self._clock()
            with self.engine.begin() as connection:
                verdict = self._judged(
                    connection, message_id, ClaimState.DONE, token, now_ms + ttl_ms, now_ms
                )
                match verdict:
                    case Taken():
                        yield connection
                        break
                    case AlreadyDone():
                        yield None
                        break
            left_ms = give_up_ms - now_ms
            self._sleep(pause_seconds(message_id, verdict.for_ms, left_ms=left_ms, wait_ms=wait_ms))
        self._purge_now_and_then()

    def claim(self, message_id: str, token: str, *, lease_ms: int, now_ms: int) -> Verdict:
        self._purge_now_and_then()
        with self.engine.begin() as connection:
            expires_ms = now_ms + lease_ms
            return self._judged(connection, message_id, ClaimState.CLAIMED, token, expires_ms, now_ms)

    def renew(self, message_id: str, token: str, *, lease_ms: int, now_ms: int) -> bool:
        return self._change(message_id, token, ClaimState.CLAIMED, now_ms + lease_ms)

    def done(self, message_id: str, token: str, *, ttl_ms: int, now_ms: int) -> bool:
        return self._change(message_id, token, ClaimState.DONE, now_ms + ttl_ms)

    def release(self, message_id: str, token: str) -> bool:
        with self.engine.begin() as connection:
            deleted = connection.execute(
                sa.delete(table).where(
                    *self._is(message_id), table.c.token == token, table.c.state == ClaimState.CLAIMED
                )
            )
            return deleted.rowcount == 1

    def purge(self, *, rows_max: int = _PURGE_ROWS_MAX) -> int:
        """Delete expired ids; returns their number."""
        now_ms = self._clock()
        with self.engine.begin() as connection:
            ids = connection.scalars(
                sa.select(table.c.message_id)
                .where(table.c.name == self.name, table.c.expires_ms <= now_ms)
                .limit(rows_max)
            ).all()
            if not ids:
                return 0
            gone = connection.execute(
                sa.delete(table).where(
                    table.c.name == self.name, table.c.message_id.in_(ids), table.c.expires_ms <= now_ms
                )
            )
            return gone.rowcount

    def _judged(
        self,
        connection: sa.Connection,
        message_id: str,
        state: ClaimState,
        token: str,
        expires_ms: int,
        now_ms: int,
    ) -> Verdict:
        """Take the id if it is free or expired; else return its state."""
        if self._take(connection, message_id, state, token, expires_ms, now_ms):
            return Taken()
        row = connection.execute(
            sa.select(table.c.state, table.c.token, table.c.expires_ms).where(*self._is(message_id))
        ).one_or_none()
        if row is None:  # Released between the two statements: free in a moment.
            return Busy(1)
        return judge(Entry(ClaimState(row.state), row.token, row.expires_ms), now_ms=now_ms)

    def _take(
        self,
        connection: sa.Connection,
        message_id: str,
        state: ClaimState,
        token: str,
        expires_ms: int,
        now_ms: int,
    ) -> bool:
        values = {"state": state, "token": token, "expires_ms": expires_ms}
        inserted = connection.execute(
            insert_ignoring(self.engine, table).values(name=self.name, message_id=message_id, **values)
        )
        if inserted.rowcount == 1:
            return True
        overdue = connection.execute(
            sa.update(table).where(*self._is(message_id), table.c.expires_ms <= now_ms).values(**values)
        )
        return overdue.rowcount == 1

    def _change(self, message_id: str, token: str, state: ClaimState, expires_ms: int) -> bool:
        with self.engine.begin() as connection:
            changed = connection.execute(
                sa.update(table)
                .where(*self._is(message_id), table.c.token == token, table.c.state == ClaimState.CLAIMED)
                .values(state=state, expires_ms=expires_ms)
            )
            return changed.rowcount == 1

    def _is(self, message_id: str) -> tuple[sa.ColumnElement[bool], ...]:
        return (table.c.name == self.name, table.c.message_id == message_id)

    def _purge_now_and_then(self) -> None:
        self._claims += 1
        if self._claims % _PURGE_EVERY == 0:
            self.purge()

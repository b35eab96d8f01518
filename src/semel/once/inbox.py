"""An inbox table: every message is stored before it is processed, and no stored message is lost.

Role.   `Inbox`. Receiving (from a topic into the table) and processing (from the table) are two steps; after a crash
        between them the next sweep finds the row.

            inbox = Inbox("sqlite:///shop.db", name="orders")
            inbox.subscribe(consumer, ["orders"])
            inbox.run(consumer, lambda db, message: db.execute(insert(bills), …))

Flow.   poll -> transaction {rows, positions} -> find due messages -> per message: claim it (transaction), then
        transaction {mark processed, the user's statements}. `rules.inbox` decides every state change.
Rules.  * Positions are stored with the rows: a message is inserted once, even after its row was deleted.
        * With `message_id`, a message with a known id is not inserted again.
        * A message is claimed right before its work, so that earlier messages cost it neither lease time nor an
          attempt, even if their worker dies.
        * A failed message is retried after a wait; after `attempts_max` attempts it is dead: its row stays, with the
          error, and `revive` resets it. `on_dead` runs in the transaction that marks it dead.
        * Other messages overtake a waiting one: order is kept only while no message fails. Limits. Effects outside the
          database may be repeated, if the worker dies before the transaction ends.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import sqlalchemy as sa

from semel.errors import ConfigError
from semel.once.clients import Clock, Record, SeekingConsumer, wall_clock_ms
from semel.once.database import as_bytes, checked_name, insert_ignoring, open_database
from semel.once.database import inbox as table
from semel.once.errors import PositionMovedError
from semel.once.headers import Header, headers_from_text, headers_to_text
from semel.once.positions import ExactlyOnceSink
from semel.once.rules.inbox import InboxEntry, InboxState
from semel.once.rules.retries import RetryPolicy

_LEASE_MS: Final = 60_000
_SWEPT_MAX: Final = 100
_ERROR_MAX: Final = 2_000  # Characters.


@dataclass(frozen=True, slots=True)
class InboxMessage:
    """A stored message."""

    id: int
    message_id: str
    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    attempts: int
    state: InboxState
    error: str | None


@dataclass(frozen=True, slots=True)
class Worked:
    """The counts of one sweep."""

    processed: int = 0
    failed: int = 0  # To be retried.
    buried: int = 0

    def __bool__(self) -> bool:
        return bool(self.processed or self.failed or self.buried)


Work = Callable[[sa.Connection, InboxMessage], object]
OnDead = Callable[[sa.Connection, InboxMessage], object]


class Inbox:
    """Messages in `semel_inbox`, under one name. Any number of processes may sweep one inbox."""

    def __init__(
        self,
        database: str | sa.URL | sa.Engine,
        *,
        name: str,
        message_id: Callable[[Any], str] | None = None,
        retries: RetryPolicy | None = None,
        lease_ms: int = _LEASE_MS,
        on_dead: OnDead | None = None,
        clock: Clock = wall_clock_ms,
    ) -> None:
        if lease_ms < 1:
            raise ConfigError(f"lease_ms is {lease_ms}: a claim must last for at least 1 ms")
        self.engine: Final = open_database(database, table)
        self.name: Final = checked_name(name)
        self.sink: Final = ExactlyOnceSink(self.engine, name=f"inbox:{name}")
        self._message_id: Final = message_id or _place
        self._retries: Final = retries or RetryPolicy()
        self._lease_ms: Final = lease_ms
        self._on_dead: Final = on_dead
        self._clock: Final = clock

    # ---- receiving

    def subscribe(self, consumer: SeekingConsumer, topics: Collection[str]) -> None:
        self.sink.subscribe(consumer, topics)

    def assign(self, consumer: SeekingConsumer, partitions: Collection[tuple[str, int]]) -> None:
        self.sink.assign(consumer, partitions)

    def receive(self, consumer: SeekingConsumer, *, timeout_ms: int = 500) -> int:
        """Store the records and positions of one poll; returns the number of records."""
        batch = self.sink.poll(consumer, timeout_ms=timeout_ms)
        if batch is None:
            return 0
        rows = self._rows(batch)
        with batch as db:
            db.execute(insert_ignoring(self.engine, table), rows)
        return len(rows)

    def run(
        self,
        consumer: SeekingConsumer,
        work: Work,
        *,
        timeout_ms: int = 500,
        until: Callable[[], bool] = lambda: False,
    ) -> None:
        """Receive and sweep, by turns."""
        while not until():
            swept = self.sweep(work)
            try:
                self.receive(consumer, timeout_ms=0 if swept else timeout_ms)
            except PositionMovedError:
                continue  # Another worker has received them. The next poll starts at the stored positions.

    # ---- working

    def sweep(self, work: Work, *, limit: int = _SWEPT_MAX) -> Worked:
        """Process at most `limit` due messages: new ones, failed ones after their wait, and ones with an expired
        lease."""
        processed = failed = buried = 0
        for row_id in self._due(limit):
            message = self._claim(row_id)
            if message is None:
                continue  # Another worker has claimed it.
            if message.state is InboxState.DEAD:
                buried += 1
                continue
            try:
                processed += self._process(message, work)
            except Exception as error:  # Any error is stored, and the message retried.
                if self._fail(message, error):
                    buried += 1
                else:
                    failed += 1
        return Worked(processed, failed, buried)

    def unfinished(self) -> list[InboxMessage]:
        """Received messages that are neither processed nor dead."""
        return self._messages(InboxState.RECEIVED)

    def dead(self) -> list[InboxMessage]:
        """Dead messages, each with its error."""
        return self._messages(InboxState.DEAD)

    def revive(self, ids: Iterable[int]) -> int:
        """Reset the attempts of dead messages; returns their number."""
        alive = InboxEntry(InboxState.DEAD).revived(now_ms=self._clock())
        with self.engine.begin() as db:
            changed = db.execute(
                sa.update(table)
                .where(table.c.name == self.name, table.c.id.in_(list(ids)), table.c.state == InboxState.DEAD)
                .values(state=alive.state, attempts=alive.attempts, due_ms=alive.due_ms)
            )
            return changed.rowcount

    def forget(self, *, processed_before_ms: int) -> int:
        """Delete messages processed before a time; returns their number. Their message ids are then unknown, but their
        offsets stay counted."""
        with self.engine.begin() as db:
            gone = db.execute(
                sa.delete(table).where(
                    table.c.name == self.name,
                    table.c.state == InboxState.PROCESSED,
                    table.c.processed_ms < processed_before_ms,
                )
            )
            return gone.rowcount

    def counts(self) -> dict[InboxState, int]:
        with self.engine.connect() as db:
            rows = db.execute(
                sa.select(table.c.state, sa.func.count())
                .where(table.c.name == self.name)
                .group_by(table.c.state)
            )
            found = {InboxState(state): int(count) for state, count in rows}
        return {state: found.get(state, 0) for state in InboxState}

    # ---- inside

    def _rows(self, records: Iterable[Record]) -> list[dict[str, object]]:
        now_ms = self._clock()
        fresh = InboxEntry()
        return [
            {
                "name": self.name,
                "message_id": self._message_id(record),
                "topic": record.topic,
                "partition": record.partition,
                "record_offset": record.offset,
                "timestamp_ms": record.timestamp,
                "key": as_bytes("key", record.key),
                "value": as_bytes("value", record.value),
                "headers": headers_to_text(record.headers),
                "state": fresh.state,
                "attempts": fresh.attempts,
                "due_ms": fresh.due_ms,
                "received_ms": now_ms,
            }
            for record in records
        ]

    def _due(self, limit: int) -> Sequence[int]:
        """Ids of due rows; another worker may claim them first."""
        with self.engine.connect() as db:
            return db.scalars(
                sa.select(table.c.id)
                .where(
                    table.c.name == self.name,
                    table.c.state == InboxState.RECEIVED,
                    table.c.due_ms <= self._clock(),
                )
                .order_by(table.c.id)
                .limit(limit)
            ).all()

    def _claim(self, row_id: int) -> InboxMessage | None:
        """Claim a message, or mark it dead after too many attempts; None if it is no longer due."""
        with self.engine.begin() as db:
            # A transaction must begin with a write (see `database`); this one changes no row.
            db.execute(sa.update(table).where(sa.false()).values(due_ms=table.c.due_ms))
            row = db.execute(
                sa.select(table)
                .where(table.c.id == row_id)
                .with_for_update(skip_locked=True)  # SQLite has one writer and ignores this.
            ).one_or_none()
            if row is None:
                return None
            entry = _entry(row).claimed(now_ms=self._clock(), lease_ms=self._lease_ms, policy=self._retries)
            if entry is None:
                return None
            self._write(db, row_id, entry)
            message = _message(row, entry)
            if entry.state is InboxState.DEAD:
                self._tell_dead(db, message)
        return message

    def _process(self, message: InboxMessage, work: Work) -> int:
        """Mark and process in one transaction; 0 if the claim expired and another worker took the message."""
        entry = InboxEntry(message.state, message.attempts).succeeded()
        with self.engine.begin() as db:
            marked = db.execute(
                sa.update(table)
                .where(*self._still_ours(message))
                .values(state=entry.state, error=entry.error, processed_ms=self._clock())
            )
            if marked.rowcount != 1:
                return 0
            work(db, message)
        return 1

    def _fail(self, message: InboxMessage, error: Exception) -> bool:
        """Store the failure; whether it was the last attempt."""
        text = f"{type(error).__name__}: {error}"[:_ERROR_MAX]
        before = InboxEntry(message.state, message.attempts)
        entry = before.failed(text, now_ms=self._clock(), policy=self._retries)
        with self.engine.begin() as db:
            changed = db.execute(
                sa.update(table)
                .where(*self._still_ours(message))
                .values(state=entry.state, due_ms=entry.due_ms, error=entry.error)
            )
            buried = entry.state is InboxState.DEAD and changed.rowcount == 1
            if buried:
                self._tell_dead(db, _changed(message, entry))
        return buried

    def _still_ours(self, message: InboxMessage) -> Sequence[sa.ColumnElement[bool]]:
        """The attempt number tells the current worker from one whose lease expired."""
        return (
            table.c.id == message.id,
            table.c.state == InboxState.RECEIVED,
            table.c.attempts == message.attempts,
        )

    def _write(self, db: sa.Connection, row_id: int, entry: InboxEntry) -> None:
        db.execute(
            sa.update(table)
            .where(table.c.id == row_id)
            .values(state=entry.state, attempts=entry.attempts, due_ms=entry.due_ms, error=entry.error)
        )

    def _tell_dead(self, db: sa.Connection, message: InboxMessage) -> None:
        if self._on_dead is not None:
            self._on_dead(db, message)

    def _messages(self, state: InboxState) -> list[InboxMessage]:
        with self.engine.connect() as db:
            rows = db.execute(
                sa.select(table).where(table.c.name == self.name, table.c.state == state).order_by(table.c.id)
            ).all()
        return [_message(row, _entry(row)) for row in rows]


def _place(record: Record) -> str:
    """The identity of a message without an id: its partition and offset."""
    return f"{record.topic}-{record.partition}@{record.offset}"


def _entry(row: "sa.Row[Any]") -> InboxEntry:
    return InboxEntry(InboxState(row.state), row.attempts, row.due_ms, row.error)


def _message(row: "sa.Row[Any]", entry: InboxEntry) -> InboxMessage:
    return InboxMessage(
        id=row.id,
        message_id=row.message_id,
        topic=row.topic,
        partition=row.partition,
        offset=row.record_offset,
        timestamp=row.timestamp_ms,
        key=row.key,
        value=row.value,
        headers=headers_from_text(row.headers),
        attempts=entry.attempts,
        state=entry.state,
        error=entry.error,
    )


def _changed(message: InboxMessage, entry: InboxEntry) -> InboxMessage:
    return replace(message, state=entry.state, error=entry.error)

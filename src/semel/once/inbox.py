"""An inbox table: every message is written down before it is worked on, and nothing that was written down is forgotten.

Role.   `Inbox`. Receiving (from a topic into the table) and working (from the table) are two steps; a crash between them
        leaves a row that the next sweep finds.

            inbox = Inbox("sqlite:///shop.db", name="orders")
            inbox.subscribe(consumer, ["orders"])
            inbox.run(consumer, lambda db, message: db.execute(insert(bills), …))

Flow.   poll -> transaction {rows, positions} -> look for what is due -> per message: claim it (transaction), then transaction
        {mark processed, the user's statements}. `rules.inbox` decides every move.
Rules.  * Positions are stored with the rows: a message enters once, also after its row was deleted.
        * With `message_id`, a message whose id is in the table already does not enter again.
        * A message is claimed when its work is about to begin, and not before: its lease and its attempt are spent on nothing
          else, however long those before it took, and whatever happened to their worker.
        * A failed message waits and is tried again; after `attempts_max` it is dead: it stays, with its error, and
          `revive` gives it another life. `on_dead` runs in the transaction that buries it.
        * Others pass a message that waits: the order of messages is kept only while none fails.
Limits. What work does outside the database may happen again, if its worker dies before the transaction ends.
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
    """A message as the table has it."""

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
    """What one sweep did."""

    processed: int = 0
    failed: int = 0  # Will be tried again.
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
        """One poll into the table, with its positions; how many records it brought."""
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
                continue  # Another worker has received them. The next poll starts where the table says.

    # ---- working

    def sweep(self, work: Work, *, limit: int = _SWEPT_MAX) -> Worked:
        """Work on at most `limit` messages that are due: new ones, failed ones whose wait is over, and those left by the dead."""
        processed = failed = buried = 0
        for row_id in self._due(limit):
            message = self._claim(row_id)
            if message is None:
                continue  # Another worker was here first.
            if message.state is InboxState.DEAD:
                buried += 1
                continue
            try:
                processed += self._process(message, work)
            except Exception as error:  # Whatever it was, it is written down and tried again.
                if self._fail(message, error):
                    buried += 1
                else:
                    failed += 1
        return Worked(processed, failed, buried)

    def unfinished(self) -> list[InboxMessage]:
        """What was received and is neither processed nor dead."""
        return self._messages(InboxState.RECEIVED)

    def dead(self) -> list[InboxMessage]:
        """What was given up, each with its error."""
        return self._messages(InboxState.DEAD)

    def revive(self, ids: Iterable[int]) -> int:
        """Give dead messages all their attempts again; how many."""
        alive = InboxEntry(InboxState.DEAD).revived(now_ms=self._clock())
        with self.engine.begin() as db:
            changed = db.execute(
                sa.update(table)
                .where(table.c.name == self.name, table.c.id.in_(list(ids)), table.c.state == InboxState.DEAD)
                .values(state=alive.state, attempts=alive.attempts, due_ms=alive.due_ms)
            )
            return changed.rowcount

    def forget(self, *, processed_before_ms: int) -> int:
        """Delete processed messages of the past; how many. Their ids are not recognised any more, their offsets are."""
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
        """Rows whose turn it is; others may take them before we do."""
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
        """Take a message, so that no other worker does, or bury it if it was taken too often; None if it is not due any more."""
        with self.engine.begin() as db:
            # The first statement of a transaction writes (see `database`); this one changes nothing.
            db.execute(sa.update(table).where(sa.false()).values(due_ms=table.c.due_ms))
            row = db.execute(
                sa.select(table)
                .where(table.c.id == row_id)
                .with_for_update(skip_locked=True)  # SQLite has one writer anyway, and leaves this out.
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
        """Mark and work in one transaction; 0 if the claim ran out and another one has it."""
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
        """Write the failure down; whether it was the last attempt."""
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
        """The attempt is what tells a worker from the one that was thought dead."""
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
    """A message without an id of its own is known by its place in the log."""
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

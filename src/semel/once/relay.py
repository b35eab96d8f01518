"""Publishes the rows of an outbox to their topics, each exactly once, across any crash.

Role.   `Outbox.relay`. A transactional producer publishes; a group's committed offset is the ledger.
Flow.   start: init_transactions (fences the previous relay, ends its open transaction) -> read the ledger -> compare
        (`rules.ledger`). step: number committed rows (database) -> transaction {records, ledger = last number} (topics)
        -> delete the rows (database).
Rules.  * The ledger is committed in the transaction of the records: both become visible, or neither. After a crash the
          ledger says which rows are published, and only the others are sent.
        * The relay numbers committed rows; the database's insert ids would not do. A row of a transaction that began
          earlier and committed later has a lower id, and would be skipped.
        * The transactional.id of an outbox never changes, because it fences the previous relay. Another one is refused.
        * A lost ledger is never guessed: see `in_doubt`. Limits. Consumers must use read_committed. The offsets of an
          unused group expire (`offsets.retention.minutes`, a week): a relay that died between its two commits and was
          down for longer raises `InDoubtError`.
"""

import logging
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Literal, NamedTuple, Protocol

import sqlalchemy as sa

from semel.errors import ConfigError, SemelError
from semel.once.clients import Committed
from semel.once.database import insert_ignoring, relays
from semel.once.database import outbox as table
from semel.once.errors import InDoubtError, LedgerMismatchError
from semel.once.headers import headers_from_text
from semel.once.rules.ledger import InDoubt, Mismatch, settle
from semel.once.rules.retries import RetryPolicy
from semel.types import TopicPartition

WhenInDoubt = Literal["raise", "publish", "skip"]
_COMMIT_ATTEMPTS: Final = 5
_IDLE_SECONDS: Final = 0.2
_BACKOFF: Final = RetryPolicy(attempts_max=1_000_000, backoff_ms=100, backoff_max_ms=10_000)
_log = logging.getLogger(__name__)


class LedgerOffset(NamedTuple):
    """An offset with its metadata, for `send_offsets_to_transaction`."""

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None


class TransactionalProducer(Protocol):
    """The methods of a transactional producer that the relay uses."""

    @property
    def config(self) -> Mapping[str, Any]: ...
    def partitions_for(self, topic: str) -> Any: ...
    def init_transactions(self) -> object: ...
    def begin_transaction(self) -> None: ...
    def send(
        self,
        topic: str,
        value: Any = ...,
        *,
        key: Any = ...,
        partition: Any = ...,
        timestamp: Any = ...,
        headers: Any = ...,
    ) -> Any: ...
    def send_offsets_to_transaction(self, offsets: Any, group_metadata: Any) -> None: ...
    def commit_transaction(self) -> None: ...
    def abort_transaction(self) -> None: ...


class LedgerConsumer(Protocol):
    """The consumer methods the relay uses: its group and committed offsets. The consumer never subscribes."""

    def committed(self, partitions: Any) -> Mapping[TopicPartition, Committed | None]: ...
    def group_metadata(self) -> Any: ...


class Relay:
    """Publishes one outbox."""

    def __init__(
        self,
        engine: sa.Engine,
        *,
        name: str,
        topic: str,
        producer: TransactionalProducer,
        consumer: LedgerConsumer,
        in_doubt: WhenInDoubt,
        rows_max: int,
        sleep: Callable[[float], None] | None = None,
    ) -> None:
        if in_doubt not in ("raise", "publish", "skip"):
            raise ConfigError(f"in_doubt is {in_doubt!r}: it must be 'raise', 'publish' or 'skip'")
        if rows_max < 1:
            raise ConfigError(f"rows_max is {rows_max}: a transaction carries at least one row")
        self._engine: Final = engine
        self._name: Final = name
        self._ledger: Final = TopicPartition(topic, 0)
        self._producer: Final = producer
        self._consumer: Final = consumer
        self._in_doubt: Final = in_doubt
        self._rows_max: Final = rows_max
        self._sleep: Final = sleep or time.sleep
        self._outbox_id = ""
        self._initialized = False
        self._published: int | None = None  # Rows up to this number are published; None before `start`.

    def run(self, *, until: Callable[[], bool] = lambda: False) -> None:
        """Publish rows until `until` returns True. Retriable errors are retried after a pause."""
        failures = 0
        while not until():
            try:
                moved = self.step()
            except SemelError as error:
                if not (getattr(error, "retriable", False) or getattr(error, "abortable", False)):
                    raise
                failures += 1
                _log.warning("outbox %s: %s; trying again", self._name, error)
                self._sleep((_BACKOFF.wait_ms(failures) or 0) / 1000)
                continue
            failures = 0
            if not moved:
                self._sleep(_IDLE_SECONDS)

    def step(self) -> int:
        """Publish at most `rows_max` rows in one transaction; returns their number."""
        if self._published is None:
            self.start()
        self._number()
        rows = self._unpublished()
        if not rows:
            return 0
        self._publish(rows)
        self._confirm(rows[-1].number)
        return len(rows)

    def start(self) -> None:
        """Fence the previous relay, and read its progress."""
        book = self._open_book()
        if not self._initialized:
            self._producer.partitions_for(
                self._ledger.topic
            )  # Offsets can be committed only for an existing topic.
            self._producer.init_transactions()
            self._initialized = True
        # From here on no other relay can commit for this transactional.id, so the ledger is final.
        committed = self._consumer.committed([self._ledger]).get(self._ledger)
        found = settle(
            committed=None if committed is None else committed.offset,
            owner=None if committed is None else committed.metadata,
            outbox=book.outbox_id,
            numbered=book.numbered,
            confirmed=book.confirmed,
        )
        if isinstance(found, Mismatch):
            raise LedgerMismatchError(
                f"outbox {self._name!r}: {found.reason}. Give the relay a group of its own, or the database that belongs to it"
            )
        published = self._decide(found) if isinstance(found, InDoubt) else found.to
        if isinstance(found, InDoubt) or found.write:
            self._write_ledger(published)
        self._confirm(published)
        self._published = published

    # ---- the database

    def _open_book(self) -> "sa.Row[Any]":
        transactional_id = self._producer.config.get("transactional.id")
        if not transactional_id:
            raise ConfigError(
                "the relay's producer has no transactional.id: without one it cannot publish exactly once"
            )
        with self._engine.begin() as db:
            db.execute(
                insert_ignoring(self._engine, relays).values(
                    name=self._name,
                    outbox_id=str(uuid.uuid4()),
                    transactional_id=transactional_id,
                    numbered=0,
                    confirmed=0,
                )
            )
            book = db.execute(sa.select(relays).where(relays.c.name == self._name)).one()
        if book.transactional_id != transactional_id:
            raise ConfigError(
                f"outbox {self._name!r} is published by transactional.id {book.transactional_id!r}; {transactional_id!r} would "
                "not fence it, and rows could be published twice"
            )
        self._outbox_id = book.outbox_id
        return book

    def _number(self) -> None:
        """Assign the next numbers to committed rows without one."""
        with self._engine.begin() as db:
            # Lock the outbox's state row, so that a fenced relay that does not know it yet cannot number rows at the
            # same time.
            db.execute(
                sa.update(relays).where(relays.c.name == self._name).values(numbered=relays.c.numbered)
            )
            ids = db.scalars(
                sa.select(table.c.id)
                .where(table.c.name == self._name, table.c.number.is_(None))
                .order_by(table.c.id)
                .limit(self._rows_max)
            ).all()
            if not ids:
                return
            numbered = db.scalar(sa.select(relays.c.numbered).where(relays.c.name == self._name)) or 0
            db.execute(
                sa.update(table)
                .where(table.c.id == sa.bindparam("row_id"))
                .values(number=sa.bindparam("row_number")),
                [{"row_id": row_id, "row_number": numbered + at} for at, row_id in enumerate(ids, 1)],
            )
            db.execute(
                sa.update(relays).where(relays.c.name == self._name).values(numbered=numbered + len(ids))
            )

    def _unpublished(self) -> "list[sa.Row[Any]]":
        with self._engine.connect() as db:
            rows = db.execute(
                sa.select(table)
                .where(table.c.name == self._name, table.c.number > self._published)
                .order_by(table.c.number)
                .limit(self._rows_max)
            )
            return list(rows.all())

    def _confirm(self, published: int) -> None:
        with self._engine.begin() as db:
            db.execute(
                sa.update(relays)
                .where(relays.c.name == self._name, relays.c.confirmed < published)
                .values(confirmed=published)
            )
            db.execute(sa.delete(table).where(table.c.name == self._name, table.c.number <= published))

    # ---- the topics

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """One transaction. After a failure it is aborted, and the ledger is read again before the next one."""
        published, self._published = self._published, None
        self._producer.begin_transaction()
        try:
            yield
            self._commit()
        except BaseException as error:
            self._abort_after(error)
            raise
        self._published = published

    def _abort_after(self, error: BaseException) -> None:
        """Abort without hiding the original error."""
        try:
            self._producer.abort_transaction()
        except SemelError as second:
            error.add_note(f"and the transaction could not be aborted: {second}")

    def _commit(self) -> None:
        """Commit; after a timeout ask again, because the coordinator repeats its answer."""
        for _ in range(_COMMIT_ATTEMPTS - 1):
            try:
                return self._producer.commit_transaction()
            except SemelError as error:
                if not getattr(error, "retriable", False) or getattr(error, "abortable", False):
                    raise
                _log.warning("outbox %s: %s; asking again for the outcome", self._name, error)
        return self._producer.commit_transaction()

    def _publish(self, rows: "Collection[sa.Row[Any]]") -> None:
        last = 0
        with self._transaction():
            for row in rows:
                self._producer.send(
                    row.topic,
                    row.value,
                    key=row.key,
                    partition=row.partition,
                    timestamp=row.timestamp_ms,
                    headers=list(headers_from_text(row.headers)),
                )
                last = row.number
            self._send_ledger(last)
        self._published = last

    def _write_ledger(self, published: int) -> None:
        with self._transaction():
            self._send_ledger(published)

    def _send_ledger(self, published: int) -> None:
        self._producer.send_offsets_to_transaction(
            {self._ledger: LedgerOffset(published, self._outbox_id)}, self._consumer.group_metadata()
        )

    def _decide(self, doubt: InDoubt) -> int:
        match self._in_doubt:
            case "publish":
                return doubt.first - 1
            case "skip":
                return doubt.last
            case "raise":
                raise InDoubtError(
                    f"outbox {self._name!r}: {doubt.reason}; rows {doubt.first} to {doubt.last} may or may not be in their "
                    "topics. Look there, then start the relay once with in_doubt='publish' or in_doubt='skip'"
                )

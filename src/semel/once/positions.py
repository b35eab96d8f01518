"""Positions stored with the results, in one database transaction: each record counts once in the database.

Role.   `exactly_once_sink`. The database, not the group, stores the positions.

            sink = exactly_once_sink("sqlite:///bills.db", name="billing")
            sink.subscribe(consumer, ["orders"])
            for batch in sink.batches(consumer):
                with batch as db:                     # one transaction: your rows and the position
                    db.execute(insert(bills), [{"order": r.key, "amount": r.value} for r in batch])

Flow.   Partitions are assigned -> their positions are read and sought -> poll -> transaction {move the positions, the
        user's statements} -> poll …
Rules.  * A position is the next offset to read (the last one + 1); the consumer seeks to it when partitions are
          assigned.
        * A position moves only from the value this worker stored last. A worker that lost its partitions unnoticed
          finds another value, and its whole transaction is rolled back: two workers cannot count one record.
        * After any failure, also an unknown commit outcome, the positions are read from the database again.
        * A record below the stored position is refused, never skipped: the topic was recreated, or the consumer was sought.
Limits. Effects outside the database (a mail, a request) are not part of the transaction.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Final, Literal

import sqlalchemy as sa

from semel.errors import ConfigError
from semel.once.clients import Record, SeekingConsumer
from semel.once.database import checked_name, insert_ignoring, open_database
from semel.once.database import positions as table
from semel.once.errors import OnceError, PositionError, PositionMovedError
from semel.types import TopicPartition

Start = Literal["earliest", "latest"]
_POLL_MS: Final = 500


class Batch:
    """The records of one poll and their transaction. Iterate over it for the records."""

    def __init__(self, sink: "ExactlyOnceSink", records: list[Any]) -> None:
        self.records = records
        self.moves = sink.moves(records)
        self.closed = False
        self._sink = sink
        self._begun: AbstractContextManager[sa.Connection] | None = None

    def __iter__(self) -> Iterator[Any]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def __enter__(self) -> sa.Connection:
        if self.closed or self._begun is not None:
            raise OnceError("a batch has one transaction, and this one was used already")
        self._begun = self._sink.engine.begin()
        connection = self._begun.__enter__()
        try:
            self._sink.move(connection, self.moves)
        except BaseException as failure:
            self.__exit__(type(failure), failure, failure.__traceback__)
            raise
        return connection

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._begun is None:
            raise OnceError("this batch was never begun")
        begun, self._begun, self.closed = self._begun, None, True
        self._sink.in_doubt(self.moves)  # Until the commit returns, only the database knows.
        begun.__exit__(kind, error, trace)
        if kind is None:
            self._sink.moved(self.moves)


class ExactlyOnceSink:
    """Stores a consumer's positions beside the results of its records. One sink per consumer and thread."""

    def __init__(self, database: str | sa.URL | sa.Engine, *, name: str, start: Start = "earliest") -> None:
        if start not in ("earliest", "latest"):
            raise ConfigError(f"start is {start!r}: it must be 'earliest' or 'latest'")
        self.engine = open_database(database, table)
        self.name = checked_name(name)
        self._start: Final = start
        self._consumer: SeekingConsumer | None = None
        self._known: dict[
            TopicPartition, int | None
        ] = {}  # The values this worker stored last; None: no row yet.
        self._in_doubt: set[TopicPartition] = set()

    # ---- the consumer's side

    def subscribe(self, consumer: SeekingConsumer, topics: Collection[str]) -> None:
        """Join the consumer's group; every assigned partition starts at its stored position."""
        self._consumer = consumer
        consumer.subscribe(list(topics), listener=_Seeker(self))

    def assign(self, consumer: SeekingConsumer, partitions: Collection[tuple[str, int]]) -> None:
        """Read these partitions, without a group, from their stored positions."""
        self._consumer = consumer
        owned = [TopicPartition(*partition) for partition in partitions]
        consumer.assign(owned)
        self.assigned(owned)

    def batches(self, consumer: SeekingConsumer, *, timeout_ms: int = _POLL_MS) -> Iterator[Batch]:
        """Poll for ever; each returned batch must be entered with `with`."""
        while True:
            batch = self.poll(consumer, timeout_ms=timeout_ms)
            if batch is None:
                continue
            yield batch
            if not batch.closed:
                raise OnceError(
                    "a batch was left without its transaction: enter it with `with batch as db`, also to skip it"
                )

    def poll(self, consumer: SeekingConsumer, *, timeout_ms: int = _POLL_MS) -> Batch | None:
        """One poll; None without records."""
        self._settle()
        records = list(consumer.poll(timeout_ms=timeout_ms))
        return Batch(self, records) if records else None

    def run(
        self,
        consumer: SeekingConsumer,
        work: Callable[[sa.Connection, list[Any]], None],
        *,
        timeout_ms: int = _POLL_MS,
        until: Callable[[], bool] = lambda: False,
    ) -> None:
        """Pass every batch to `work(db, records)`; skip a batch that another worker has counted."""
        while not until():
            batch = self.poll(consumer, timeout_ms=timeout_ms)
            if batch is None:
                continue
            try:
                with batch as db:
                    work(db, batch.records)
            except PositionMovedError:
                continue  # Rolled back. The next poll reads the positions again, and the group reports the revocation.

    # ---- the database's side

    def positions(self) -> dict[TopicPartition, int]:
        """The stored positions of this name: the next offset of each partition."""
        with self.engine.connect() as connection:
            rows = connection.execute(
                sa.select(table.c.topic, table.c.partition, table.c.position).where(table.c.name == self.name)
            )
            return {TopicPartition(row.topic, row.partition): row.position for row in rows}

    def moves(self, records: Iterable[Record]) -> dict[TopicPartition, tuple[int | None, int]]:
        """Old and new position of each partition for these records."""
        firsts: dict[TopicPartition, int] = {}
        lasts: dict[TopicPartition, int] = {}
        for record in records:
            partition = TopicPartition(record.topic, record.partition)
            firsts.setdefault(partition, record.offset)
            lasts[partition] = record.offset
        moves: dict[TopicPartition, tuple[int | None, int]] = {}
        for partition in sorted(firsts):
            if partition not in self._known:
                raise PositionError(
                    f"{partition} was delivered without being assigned through the sink: "
                    "use sink.subscribe or sink.assign instead of the consumer's own"
                )
            known = self._known[partition]
            if known is not None and firsts[partition] < known:
                raise PositionError(
                    f"{partition} delivered offset {firsts[partition]}, but {self.name!r} has counted up to {known}: "
                    "the topic was recreated, or the consumer was sought. Delete its row of semel_positions to count it again"
                )
            moves[partition] = (known, lasts[partition] + 1)
        return moves

    def move(self, connection: sa.Connection, moves: Mapping[TopicPartition, tuple[int | None, int]]) -> None:
        """Move the positions inside a transaction; raises if one differs from the value this worker stored."""
        for partition, (known, position) in moves.items():
            if known is None:
                statement = insert_ignoring(self.engine, table).values(
                    name=self.name, topic=partition.topic, partition=partition.partition, position=position
                )
                changed = connection.execute(statement).rowcount
            else:
                changed = connection.execute(
                    sa.update(table)
                    .where(*self._is(partition), table.c.position == known)
                    .values(position=position)
                ).rowcount
            if changed != 1:
                raise PositionMovedError(
                    f"the position of {partition} for {self.name!r} is not {known or 0} any more: another worker has it. "
                    "Nothing of this batch was stored"
                )

    def in_doubt(self, partitions: Iterable[TopicPartition]) -> None:
        self._in_doubt.update(partitions)

    def moved(self, moves: Mapping[TopicPartition, tuple[int | None, int]]) -> None:
        for partition, (_, position) in moves.items():
            self._known[partition] = position
            self._in_doubt.discard(partition)

    # ---- the group's side

    def assigned(self, partitions: Iterable[TopicPartition]) -> None:
        """Read the stored positions of these partitions and seek to them."""
        if self._consumer is None:
            raise OnceError("the sink has no consumer yet: call subscribe or assign first")
        wanted = sorted(TopicPartition(*partition) for partition in partitions)
        stored = self.positions()
        fresh = [partition for partition in wanted if partition not in stored]
        if fresh and self._start == "latest":
            stored |= self._begin_at(self._consumer.end_offsets(fresh))
            fresh = []
        for partition in wanted:
            self._known[partition] = stored.get(partition)
            if partition in stored:
                self._consumer.seek(partition, stored[partition])
        if fresh:
            self._consumer.seek_to_beginning(fresh)
        self._in_doubt.difference_update(wanted)

    def taken(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions belong to another worker now."""
        for partition in partitions:
            self._known.pop(TopicPartition(*partition), None)
            self._in_doubt.discard(TopicPartition(*partition))

    def _begin_at(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Store the end offsets at the first assignment, so that a crash before the first batch skips no records."""
        rows = [
            {"name": self.name, "topic": topic, "partition": partition, "position": end}
            for (topic, partition), end in sorted(ends.items())
        ]
        with self.engine.begin() as connection:
            connection.execute(insert_ignoring(self.engine, table), rows)
        stored = self.positions()
        return {TopicPartition(*partition): stored[TopicPartition(*partition)] for partition in ends}

    def _settle(self) -> None:
        """Read positions again that a failed transaction left in doubt."""
        if self._in_doubt and self._consumer is not None:
            owned = {TopicPartition(*partition) for partition in self._consumer.assignment()}
            self.taken(self._in_doubt - owned)
            self.assigned(self._in_doubt & owned)

    def _is(self, partition: TopicPartition) -> tuple[sa.ColumnElement[bool], ...]:
        return (
            table.c.name == self.name,
            table.c.topic == partition.topic,
            table.c.partition == partition.partition,
        )


class _Seeker:
    """Tells the sink of assigned and revoked partitions."""

    def __init__(self, sink: ExactlyOnceSink) -> None:
        self._sink = sink

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self._sink.assigned(partitions)

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self._sink.taken(partitions)

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        self._sink.taken(partitions)


def exactly_once_sink(
    database: str | sa.URL | sa.Engine, *, name: str, start: Start = "earliest"
) -> ExactlyOnceSink:
    """A sink that counts every record once in this database (SQLite or PostgreSQL)."""
    return ExactlyOnceSink(database, name=name, start=start)

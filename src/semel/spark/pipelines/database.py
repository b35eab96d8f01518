"""Rows of a stream into a database, exactly once: the rows of a micro-batch and its number in one transaction.

Role.   `DatabaseSink`, a function for `foreachBatch`. PostgreSQL and SQLite.

            sink = DatabaseSink("postgresql+psycopg://…", name="revenue", table="revenue", key=["product"])
            df.writeStream.foreachBatch(sink).option("checkpointLocation", …).outputMode("update").start()

Flow.   begin -> look into the book (`semel_batches`), locked -> next batch? -> rows -> the book -> commit.
Rules.  * A batch that Spark repeats (its driver died after our commit, before Spark's) finds its number in the book. Nothing is
          stored, but the rows are computed, for the sake of a query's state. Two drivers at once wait for each other at the book.
        * Whether a batch is owed is decided by the rule of the sink for topics (`sink.common.batch_ledger`): a lost checkpoint or
          a second query is refused, never guessed at. A gap is refused as well: databases are restored from backups.
        * Without `key` rows are inserted; with `key` they replace the row of that key, and a row whose `_deleted` is true
          deletes it. `write=` does what you like instead, in the same transaction.
        * Rows come to the driver partition by partition and are sent in pieces: memory does not grow with the batch.
        * Times are stored in UTC. A TIMESTAMP_NTZ is a reading of some clock: it is stored as it is, on whatever machine.
        * The target table is yours and must exist; a column it does not have is refused by name.
Limits. One connection writes: the database's transaction is one. Effects of `write=` elsewhere are not part of it.
"""

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from semel.errors import ConfigError
from semel.once.database import checked_name, insert_ignoring, open_database
from semel.spark.pipelines.column_names import names_of
from semel.spark.pipelines.records import DELETED
from semel.spark.plain_errors import in_foreach_batch
from semel.spark.sink.atomic.stage import Driver
from semel.spark.sink.common.batch_ledger import DATABASE, Entry, Refuse, Skip, Write, owed
from semel.spark.sink.common.errors import CallRefusedError, SinkRefusedError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Writer = Callable[[sa.Connection, "DataFrame"], object]
_PIECE_ROWS: Final = 5_000
_BEFORE_THE_FIRST: Final = -1

books: Final = sa.Table(
    "semel_batches",
    sa.MetaData(),
    sa.Column("name", sa.String(200), primary_key=True),
    sa.Column("query_id", sa.String(64), nullable=False),
    sa.Column("batch_id", sa.BigInteger, nullable=False),
)


class DatabaseSink:
    """Writes each micro-batch once. Give it to `foreachBatch`."""

    def __init__(
        self,
        database: str | sa.URL,
        *,
        name: str,
        table: str | None = None,
        key: str | Sequence[str] = (),
        write: Writer | None = None,
        continues: str | None = None,
    ) -> None:
        """`name` is the book's: one for each query. `continues`: permission to go on after another query, as an error told."""
        if (table is None) == (write is None):
            raise ConfigError(
                "a DatabaseSink needs either table= to write rows to, or write= to write them itself"
            )
        if key and table is None:
            raise ConfigError(f"key={key!r} is for table=: what write= does with a key is its own affair")
        self.name: Final = checked_name(name)
        self._url: Final = sa.make_url(database).render_as_string(hide_password=False)
        self._table: Final = table
        self._key: Final = names_of(key)
        self._write: Final = write
        self._continues: Final = continues
        self._engine: sa.Engine | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_engine": None}  # Connections stay where they were made.

    @in_foreach_batch
    def __call__(self, batch: "DataFrame", batch_id: int) -> None:
        """One micro-batch."""
        query_id = Driver(batch).query_id()
        if query_id is None:
            raise CallRefusedError(
                f"sink {self.name}: a DatabaseSink writes micro-batches of a streaming query",
                "give it to foreachBatch",
            )
        self.write_batch(batch, batch_id, query_id)

    def write_batch(self, batch: "DataFrame", batch_id: int, query_id: str) -> bool:
        """Store a batch unless it is stored; whether it was written now."""
        with self.engine.begin() as connection:
            is_next = self._enter(connection, batch_id, query_id)
            if is_next and self._write is not None:
                self._write(connection, batch)
            elif is_next:
                self._write_rows(connection, batch)
        if not is_next:
            _evaluate(batch)
        return is_next

    @property
    def engine(self) -> sa.Engine:
        if self._engine is None:
            # A micro-batch is rare enough for a connection of its own: none is left idle, or broken, between two.
            self._engine = open_database(self._url, books, pooled=False)
        return self._engine

    def stored(self) -> Entry | None:
        """The last batch that is stored, and the query it was of."""
        with self.engine.connect() as connection:
            row = connection.execute(sa.select(books).where(books.c.name == self.name)).one_or_none()
        return None if row is None else Entry(row.query_id, row.batch_id)

    # ---- the book

    def _enter(self, connection: sa.Connection, batch_id: int, query_id: str) -> bool:
        """Write the batch into the book. From the first statement on, no other driver can."""
        fresh = connection.execute(
            insert_ignoring(self.engine, books).values(
                name=self.name, query_id=query_id, batch_id=_BEFORE_THE_FIRST
            )
        ).rowcount
        row = connection.execute(sa.select(books).where(books.c.name == self.name).with_for_update()).one()
        book = None if fresh else Entry(row.query_id, row.batch_id)
        what = f"sink {self.name}, query {query_id}, batch {batch_id}"
        match owed(book, Entry(query_id, batch_id), kind=DATABASE, continues=self._continues):
            case Skip():
                return False
            case Refuse(reason, way_out):
                raise SinkRefusedError(f"{what}: {reason}. Nothing of this batch was stored", way_out)
            case Write(missed):
                if missed:
                    raise SinkRefusedError(
                        f"{what}: the sink has stored batch {row.batch_id}, and the {missed} between them are missing, as after "
                        "restoring a backup of the database. Nothing of this batch was stored",
                        "start a new query where the stored rows end, with a new checkpoint and "
                        f"{DATABASE.continues.format(row.query_id)}. A sink must be called for every batch, also for an empty one",
                    )
        connection.execute(
            sa.update(books).where(books.c.name == self.name).values(query_id=query_id, batch_id=batch_id)
        )
        return True

    # ---- the rows

    def _write_rows(self, connection: sa.Connection, batch: "DataFrame") -> None:
        table = self._target(connection, batch.columns)
        columns = [table.c[name] for name in batch.columns if name != DELETED]
        upsert = self._upsert(connection, table, columns)
        delete = sa.delete(table).where(*(table.c[name] == sa.bindparam(f"of_{name}") for name in self._key))
        zoneless = _zoneless(batch)

        def stored(row: Mapping[str, Any], name: str) -> Any:
            return _value(table.c[name], row[name], is_zoneless=name in zoneless)

        for piece in _pieces(batch):
            for gone, rows in _runs(piece):
                if gone:
                    connection.execute(
                        delete, [{f"of_{name}": stored(row, name) for name in self._key} for row in rows]
                    )
                else:
                    connection.execute(
                        upsert, [{c.name: stored(row, c.name) for c in columns} for row in rows]
                    )

    def _target(self, connection: sa.Connection, names: Sequence[str]) -> sa.Table:
        if self._table is None:
            raise ConfigError(f"{self.name!r} has no table")
        try:
            table = sa.Table(self._table, sa.MetaData(), autoload_with=connection)
        except sa.exc.NoSuchTableError:
            raise ConfigError(
                f"there is no table {self._table!r} in {self.engine.url!r}: make it with columns for {', '.join(names)}"
            ) from None
        known = set(table.c.keys())
        if unknown := [name for name in names if name not in known and name != DELETED]:
            raise ConfigError(
                f"table {self._table!r} has no column {', '.join(unknown)}: it has {', '.join(sorted(known))}"
            )
        if missing := [name for name in self._key if name not in names]:
            raise ConfigError(
                f"the key column {', '.join(missing)} is not among the rows' columns: {', '.join(names)}"
            )
        if DELETED in names and not self._key:
            raise ConfigError(f"rows with {DELETED} delete by key: say key=[…]")
        return table

    def _upsert(
        self, connection: sa.Connection, table: sa.Table, columns: Sequence["sa.Column[Any]"]
    ) -> sa.Insert:
        if not self._key:
            return sa.insert(table)
        insert = sqlite.insert(table) if connection.dialect.name == "sqlite" else postgresql.insert(table)
        changed = {c.name: insert.excluded[c.name] for c in columns if c.name not in self._key}
        if not changed:
            return insert.on_conflict_do_nothing(index_elements=list(self._key))
        return insert.on_conflict_do_update(index_elements=list(self._key), set_=changed)


def _evaluate(batch: "DataFrame") -> None:
    """Compute a batch that is stored already: a query with state commits it only for batches that were computed."""
    batch.write.format("noop").mode("overwrite").save()


def _pieces(batch: "DataFrame") -> Iterator[Sequence[Mapping[str, Any]]]:
    rows = (row.asDict(recursive=True) for row in batch.toLocalIterator())
    while piece := list(islice(rows, _PIECE_ROWS)):
        yield piece


def _runs(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[bool, list[Mapping[str, Any]]]]:
    """Rows in their order, those to delete apart from those to store."""
    run: list[Mapping[str, Any]] = []
    gone = False
    for row in rows:
        if run and bool(row.get(DELETED)) != gone:
            yield gone, run
            run = []
        gone = bool(row.get(DELETED))
        run.append(row)
    if run:
        yield gone, run


def _zoneless(batch: "DataFrame") -> frozenset[str]:
    """The columns of times that are in no zone."""
    from pyspark.sql.types import TimestampNTZType

    return frozenset(one.name for one in batch.schema.fields if isinstance(one.dataType, TimestampNTZType))


def _value(column: "sa.Column[Any]", value: Any, *, is_zoneless: bool) -> Any:
    """Spark hands out moments in the zone of this machine, without saying so; a database wants UTC."""
    if isinstance(value, dt.datetime):
        aware = value.replace(tzinfo=dt.UTC) if is_zoneless else value.astimezone(dt.UTC)
        return aware if getattr(column.type, "timezone", False) else aware.replace(tzinfo=None)
    return value

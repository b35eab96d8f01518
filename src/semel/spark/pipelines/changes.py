"""A database's changes as a stream: every row that is inserted, updated or deleted becomes a record, exactly once.

Role.   `ChangeCapture`: triggers write each change of a table into the outbox, in the transaction that makes it; the outbox's
        relay publishes it. A reader of the topic can keep a copy of the table that needs the database no more.

            capture = ChangeCapture("postgresql+psycopg://…", table="customers", topic="customers")
            capture.install()                                  # triggers, and the rows that are there already
            capture.relay(producer, ledger_consumer).run()     # anywhere, any time later

Flow.   the application's transaction {its statement, the trigger's row in `semel_outbox`} -> `once.relay` -> topic -> a table:
        `LocalTable`, `semel.spark.table`.
Rules.  * A change that is rolled back is never seen, a change that is committed is never missed; nobody polls the database.
        * The record's key is the primary key (its text; a JSON object of several columns). Its value is the row as a JSON
          object, null for a row that is gone. A changed primary key is a row that is gone and another one.
        * The header `op` says insert, update, delete or snapshot.
        * Rows that are there when the triggers are made are published first, and nothing can come between.
        * Columns of bytes have no JSON: leave them out with `columns=`.
Limits. Statements that go past row triggers are not seen: TRUNCATE is refused on PostgreSQL; SQLite's INSERT OR REPLACE is seen as
        an insert, and the row it removes because of another unique column is not seen.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from semel.errors import ConfigError
from semel.once.headers import headers_to_text
from semel.once.outbox import Outbox

if TYPE_CHECKING:
    from semel.once.relay import LedgerConsumer, Relay, TransactionalProducer

_TOPIC: Final = re.compile(r"[A-Za-z0-9_.-]{1,249}")
_NAME: Final = re.compile(
    r"[A-Za-z0-9_.-]{1,45}"
)  # It is part of the triggers' names, which PostgreSQL cuts at 63.
_OPERATIONS: Final = ("insert", "update", "delete")


class ChangeCapture:
    """The changes of one table, for one topic."""

    def __init__(
        self,
        database: str | sa.URL | sa.Engine,
        *,
        table: str,
        topic: str,
        name: str | None = None,
        columns: Sequence[str] | None = None,
    ) -> None:
        """`name` is the outbox's, the table's own if none is given; `columns` those to publish, all if none are given."""
        name = table if name is None else name
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"the name {name!r}: 1 to 45 letters, digits, '.', '_' and '-' are allowed; say name="
            )
        if not _TOPIC.fullmatch(topic):
            raise ConfigError(f"the topic {topic!r}: 1 to 249 letters, digits, '.', '_' and '-' are allowed")
        self.outbox: Final = Outbox(database, name=name, topic=topic)
        self.engine: Final = self.outbox.engine
        self.table: Final = _reflected(self.engine, table)
        self.columns: Final = _columns(self.table, columns)
        self._sql: Final = _SQL[self.engine.dialect.name](self)

    def install(self, *, snapshot: bool = True) -> None:
        """Make the triggers, anew if they are there, and publish the rows that are there already."""
        with self.engine.begin() as db:
            for statement in (*self._sql.lock(), *self._sql.drop(), *self._sql.create()):
                db.exec_driver_sql(statement)
            if snapshot:
                db.exec_driver_sql(self._sql.snapshot())

    def remove(self) -> None:
        """Drop the triggers. Changes they have written are still published."""
        with self.engine.begin() as db:
            for statement in (*self._sql.lock(), *self._sql.drop()):
                db.exec_driver_sql(statement)

    def relay(self, producer: "TransactionalProducer", consumer: "LedgerConsumer", **options: Any) -> "Relay":
        """The outbox's relay, which publishes the changes."""
        return self.outbox.relay(producer, consumer, **options)


class _Sqlite:
    """Triggers in SQLite's words."""

    def __init__(self, of: ChangeCapture) -> None:
        self._of = of
        self._table = _quoted(of.table.name)

    def create(self) -> list[str]:
        moved = " OR ".join(
            f"OLD.{_quoted(c.name)} IS NOT NEW.{_quoted(c.name)}" for c in self._of.table.primary_key.columns
        )
        gone = self._insert("OLD", "delete")
        return [
            self._trigger("insert", f"{self._insert('NEW', 'insert')};"),
            self._trigger("update", f"{gone} WHERE {moved}; {self._insert('NEW', 'update')};"),
            self._trigger("delete", f"{gone};"),
        ]

    def lock(self) -> list[str]:
        return [
            "BEGIN IMMEDIATE"
        ]  # Python's driver would begin no transaction for the statements that follow.

    def drop(self) -> list[str]:
        return [f"DROP TRIGGER IF EXISTS {self._name(operation)}" for operation in _OPERATIONS]

    def snapshot(self) -> str:
        return f"{self._insert(self._table, 'snapshot')} FROM {self._table}"

    def _trigger(self, operation: str, body: str) -> str:
        return f"CREATE TRIGGER {self._name(operation)} AFTER {operation.upper()} ON {self._table} BEGIN {body} END"

    def _name(self, operation: str) -> str:
        return _quoted(f"semel_{self._of.outbox.name}_{operation}")

    def _insert(self, row: str, operation: str) -> str:
        keys = [c.name for c in self._of.table.primary_key.columns]
        key = f"{row}.{_quoted(keys[0])}" if len(keys) == 1 else self._object(row, keys)
        value = "NULL" if operation == "delete" else f"CAST({self._object(row, self._of.columns)} AS BLOB)"
        return _into_outbox(self._of, operation, f"CAST(CAST({key} AS TEXT) AS BLOB)", value)

    def _object(self, row: str, columns: Sequence[str]) -> str:
        return f"json_object({', '.join(f'{_literal(c)}, {self._exact(row, c)}' for c in columns)})"

    def _exact(self, row: str, column: str) -> str:
        """SQLite's JSON keeps 15 digits of a number, a double has 17. An infinite number stays as SQLite writes it."""
        value = f"{row}.{_quoted(column)}"
        finite = f"typeof({value}) = 'real' AND abs({value}) <= 1.7976931348623157e308"
        return f"CASE WHEN {finite} THEN json(printf('%!.17g', {value})) ELSE {value} END"


class _Postgresql:
    """Triggers in PostgreSQL's words."""

    def __init__(self, of: ChangeCapture) -> None:
        self._of = of
        self._table = _quoted(of.table.name)

    def create(self) -> list[str]:
        keys = [c.name for c in self._of.table.primary_key.columns]
        moved = " OR ".join(f"OLD.{_quoted(c)} IS DISTINCT FROM NEW.{_quoted(c)}" for c in keys)
        function, capture, truncate = (self._name(word) for word in ("capture", "row", "truncate"))
        return [
            f"""CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $capture$
            BEGIN
                IF TG_OP = 'TRUNCATE' THEN
                    RAISE EXCEPTION 'TRUNCATE is not seen by the capture of changes: use DELETE, or remove the capture first';
                END IF;
                IF TG_OP = 'DELETE' THEN {self._insert("OLD", "delete")};
                ELSIF TG_OP = 'INSERT' THEN {self._insert("NEW", "insert")};
                ELSE
                    IF {moved} THEN {self._insert("OLD", "delete")}; END IF;
                    {self._insert("NEW", "update")};
                END IF;
                RETURN NULL;
            END $capture$""",
            f"""CREATE TRIGGER {capture} AFTER INSERT OR UPDATE OR DELETE ON {self._table}
            FOR EACH ROW EXECUTE FUNCTION {function}()""",
            f"""CREATE TRIGGER {truncate} BEFORE TRUNCATE ON {self._table}
            FOR EACH STATEMENT EXECUTE FUNCTION {function}()""",
        ]

    def lock(self) -> list[str]:
        # Two installations at once wait for each other here; nobody writes between the triggers and the snapshot.
        return [f"LOCK TABLE {self._table} IN SHARE ROW EXCLUSIVE MODE"]

    def drop(self) -> list[str]:
        return [
            *(f"DROP TRIGGER IF EXISTS {self._name(word)} ON {self._table}" for word in ("row", "truncate")),
            f"DROP FUNCTION IF EXISTS {self._name('capture')}()",
        ]

    def snapshot(self) -> str:
        return f"{self._insert(self._table, 'snapshot')} FROM {self._table}"

    def _name(self, word: str) -> str:
        return _quoted(f"semel_{self._of.outbox.name}_{word}")

    def _insert(self, row: str, operation: str) -> str:
        keys = [c.name for c in self._of.table.primary_key.columns]
        key = f"CAST({row}.{_quoted(keys[0])} AS text)" if len(keys) == 1 else self._object(row, keys)
        value = "NULL" if operation == "delete" else self._bytes(self._object(row, self._of.columns))
        return _into_outbox(self._of, operation, self._bytes(key), value)

    def _bytes(self, text: str) -> str:
        return f"convert_to({text}, 'UTF8')"

    def _object(self, row: str, columns: Sequence[str]) -> str:
        pairs = ", ".join(f"{_literal(c)}, {row}.{_quoted(c)}" for c in columns)
        return f"CAST(json_build_object({pairs}) AS text)"


_SQL: Final[dict[str, Any]] = {"sqlite": _Sqlite, "postgresql": _Postgresql}


def _into_outbox(of: ChangeCapture, operation: str, key: str, value: str) -> str:
    """A statement that may be followed by FROM or WHERE."""
    headers = _literal(headers_to_text([("op", operation.encode())]))
    name, topic = _literal(of.outbox.name), _literal(of.outbox.topic)
    return (
        "INSERT INTO semel_outbox (name, topic, key, value, headers) "
        f"SELECT {name}, {topic}, {key}, {value}, {headers}"
    )


def _reflected(engine: sa.Engine, name: str) -> sa.Table:
    try:
        table = sa.Table(name, sa.MetaData(), autoload_with=engine)
    except sa.exc.NoSuchTableError:
        raise ConfigError(f"there is no table {name!r} in {engine.url!r}") from None
    if not table.primary_key.columns:
        raise ConfigError(
            f"table {name!r} has no primary key: without one nobody can say which row has changed"
        )
    return table


def _columns(table: sa.Table, wanted: Sequence[str] | None) -> tuple[str, ...]:
    chosen = tuple(table.c.keys()) if wanted is None else tuple(wanted)
    if unknown := [name for name in chosen if name not in table.c]:
        raise ConfigError(
            f"table {table.name!r} has no column {', '.join(unknown)}: it has {', '.join(table.c.keys())}"
        )
    if raw := [name for name in chosen if isinstance(table.c[name].type, sa.LargeBinary)]:
        raise ConfigError(
            f"columns of bytes have no JSON: {', '.join(raw)} of {table.name!r}. Leave them out with columns=[…]"
        )
    for name in (*chosen, table.name):
        if "%" in name or "\0" in name:
            raise ConfigError(f"the name {name!r} cannot be captured: no '%' or zero byte is allowed in it")
    return chosen


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"

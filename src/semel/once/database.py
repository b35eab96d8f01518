"""The database of exactly-once consumers: its tables, and one transaction for work and bookkeeping.

Role.   The only module that knows SQLAlchemy's engine and the two supported dialects, SQLite and PostgreSQL.
Rules.  * Table names begin with `semel_`. The tables are in the user's database, and are created if missing.
        * Each transaction begins with a write. On SQLite this takes the write lock at once, so that no transaction
          fails half-way for it; on PostgreSQL it locks the affected rows.
        * A connection in autocommit mode is refused, because a failed transaction could not roll back the position.
        * Times are milliseconds since 1970 as integers, in both dialects.
"""

from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from semel.errors import ConfigError
from semel.once.errors import OnceError
from semel.words import a, kind

DIALECTS: Final = ("sqlite", "postgresql")
_SQLITE_TIMEOUT_SECONDS: Final = 30
_NAME_MAX: Final = 200

_metadata = sa.MetaData()
_number = sa.BigInteger().with_variant(sa.Integer, "sqlite")  # SQLite counts up in `INTEGER` only.
_name = sa.String(_NAME_MAX)

positions = sa.Table(
    "semel_positions",
    _metadata,
    sa.Column("name", _name, primary_key=True),
    sa.Column("topic", sa.String(249), primary_key=True),
    sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("position", sa.BigInteger, nullable=False),  # The next offset to read.
)

inbox = sa.Table(
    "semel_inbox",
    _metadata,
    sa.Column("id", _number, primary_key=True, autoincrement=True),
    sa.Column("name", _name, nullable=False),
    sa.Column("message_id", sa.Text, nullable=False),
    sa.Column("topic", sa.String(249), nullable=False),
    sa.Column("partition", sa.Integer, nullable=False),
    sa.Column("record_offset", sa.BigInteger, nullable=False),
    sa.Column("timestamp_ms", sa.BigInteger, nullable=False),
    sa.Column("key", sa.LargeBinary),
    sa.Column("value", sa.LargeBinary),
    sa.Column("headers", sa.Text, nullable=False),
    sa.Column("state", sa.String(10), nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("due_ms", sa.BigInteger, nullable=False),
    sa.Column("error", sa.Text),
    sa.Column("received_ms", sa.BigInteger, nullable=False),
    sa.Column("processed_ms", sa.BigInteger),
    sa.UniqueConstraint("name", "message_id", name="semel_inbox_message"),
    sa.Index("semel_inbox_due", "name", "state", "due_ms", "id"),
)

outbox = sa.Table(
    "semel_outbox",
    _metadata,
    sa.Column("id", _number, primary_key=True, autoincrement=True),
    sa.Column("name", _name, nullable=False),
    sa.Column("number", sa.BigInteger),  # Set by the relay, for committed rows.
    sa.Column("topic", sa.String(249), nullable=False),
    sa.Column("partition", sa.Integer),
    sa.Column("timestamp_ms", sa.BigInteger),
    sa.Column("key", sa.LargeBinary),
    sa.Column("value", sa.LargeBinary),
    sa.Column("headers", sa.Text, nullable=False),
    sa.Index("semel_outbox_number", "name", "number", "id"),
)

relays = sa.Table(
    "semel_relays",
    _metadata,
    sa.Column("name", _name, primary_key=True),
    sa.Column("outbox_id", sa.String(36), nullable=False),
    sa.Column("transactional_id", sa.Text),
    sa.Column("numbered", sa.BigInteger, nullable=False),
    sa.Column("confirmed", sa.BigInteger, nullable=False),
)

claims = sa.Table(
    "semel_claims",
    _metadata,
    sa.Column("name", _name, primary_key=True),
    sa.Column("message_id", sa.Text, primary_key=True),
    sa.Column("state", sa.String(10), nullable=False),
    sa.Column("token", sa.String(36), nullable=False),
    sa.Column("expires_ms", sa.BigInteger, nullable=False),
    sa.Index("semel_claims_expiry", "name", "expires_ms"),
)


def open_database(database: str | sa.URL | sa.Engine, *tables: sa.Table, pooled: bool = True) -> sa.Engine:
    """The engine of a URL, or the given one, with these tables created. Without `pooled`, each transaction gets a new
    connection."""
    if isinstance(database, sa.Engine):
        engine = database
    else:
        url = _url(database)
        sqlite_only = {"timeout": _SQLITE_TIMEOUT_SECONDS} if url.get_backend_name() == "sqlite" else {}
        pool = {} if pooled else {"poolclass": sa.NullPool}
        try:
            engine = sa.create_engine(url, connect_args=sqlite_only, **pool)
        except (sa.exc.NoSuchModuleError, ImportError) as error:
            raise ConfigError(
                f"no driver for the database {url.render_as_string()} is installed ({error}): exactly-once processing supports "
                f"{' and '.join(DIALECTS)}; pip install 'semel[postgresql]' brings PostgreSQL's"
            ) from error
    if engine.dialect.name not in DIALECTS:
        raise ConfigError(
            f"the database is {engine.dialect.name}: exactly-once processing supports {' and '.join(DIALECTS)} only"
        )
    try:
        _refuse_autocommit(engine)
        for table in tables:
            _create(engine, table)
    except sa.exc.OperationalError as error:
        raise OnceError(
            f"the database {engine.url.render_as_string()} cannot be used: {str(error.orig).strip()}: "
            "see that it is there, and that this user may create tables in it"
        ) from error
    return engine


def _url(database: object) -> sa.URL:
    if isinstance(database, str | sa.URL):
        try:
            return sa.make_url(database)
        except sa.exc.ArgumentError:
            pass  # Told below, with an example; the text may hold a password, so it is not repeated.
    raise ConfigError(
        f"database is {kind(database)} that is neither a URL, as sqlite:///file.db or postgresql+psycopg://user@host/name, "
        "nor an engine of SQLAlchemy"
    )


def checked_name(name: str) -> str:
    """Check the name of stored state; two programs with the same name share it."""
    if not name or len(name) > _NAME_MAX:
        raise ConfigError(f"the name {name!r} has {len(name)} characters: from 1 to {_NAME_MAX} are allowed")
    return name


def insert_ignoring(engine: sa.Engine, table: sa.Table) -> sqlite.Insert | postgresql.Insert:
    """An insert that ignores existing rows; its row count says whether it inserted."""
    insert = sqlite.insert(table) if engine.dialect.name == "sqlite" else postgresql.insert(table)
    return insert.on_conflict_do_nothing().execution_options(preserve_rowcount=True)


def as_bytes(what: str, value: object) -> bytes | None:
    """A key or value as bytes for a column."""
    match value:
        case None:
            return None
        case bytes():
            return value
        case bytearray() | memoryview():
            return bytes(value)
        case str():
            return value.encode()
    raise ConfigError(
        f"{a(what)} of type {type(value).__name__} cannot be stored: bytes, text and None can; "
        "use a consumer without deserializers, or serialize it first"
    )


def _refuse_autocommit(engine: sa.Engine) -> None:
    """Test the connection's actual behaviour, because SQLAlchemy and each driver have several autocommit switches."""
    with engine.begin() as connection:
        if engine.dialect.name == "sqlite":
            driver: Any = connection.connection.driver_connection
            # By default the driver begins a transaction with the first write; with SQLAlchemy's recipe it has begun by
            # now.
            begins = driver.isolation_level is not None and getattr(driver, "autocommit", None) is not True
            is_one = driver.in_transaction or begins
        else:
            ids = [connection.scalar(sa.select(sa.func.txid_current())) for _ in range(2)]
            is_one = ids[0] == ids[1]
    if not is_one:
        raise ConfigError(
            "the engine is in AUTOCOMMIT mode, so work and bookkeeping cannot be one transaction: "
            'give a database URL, or an engine without isolation_level="AUTOCOMMIT". Where your own code needs that mode, use '
            'engine.execution_options(isolation_level="AUTOCOMMIT") of the same engine'
        )


def _create(engine: sa.Engine, table: sa.Table) -> None:
    try:
        table.create(engine, checkfirst=True)
    except (sa.exc.IntegrityError, sa.exc.ProgrammingError, sa.exc.OperationalError):
        # Another process may have created the table since the check; if it is still missing, raise.
        if not sa.inspect(engine).has_table(table.name):
            raise

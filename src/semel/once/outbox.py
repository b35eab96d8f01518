"""An outbox table: messages are written in the database transaction they belong to, and published exactly once.

Role.   `Outbox.put` writes a row beside the user's own; `Relay` moves rows to their topics.

            outbox = Outbox("sqlite:///shop.db", name="orders", topic="orders")
            with outbox.engine.begin() as db:
                db.execute(insert(orders), …)
                outbox.put(db, key=b"17", value=b"paid")      # both, or none
            outbox.relay(producer, consumer).run()            # a transactional producer; a consumer for its group only

Rules.  * A row that is rolled back is never published.
Elsewhere. Publishing rows exactly once: `relay`.
"""

from collections.abc import Callable
from typing import Any, Final, Protocol

import sqlalchemy as sa

from semel.core.metadata.topic_names import flaw
from semel.errors import ConfigError
from semel.once.clients import Headers
from semel.once.database import as_bytes, checked_name, open_database, relays
from semel.once.database import outbox as table
from semel.once.headers import headers_to_text
from semel.once.relay import LedgerConsumer, Relay, TransactionalProducer, WhenInDoubt


class Executes(Protocol):
    """A connection or a session of SQLAlchemy, inside a transaction."""

    def execute(self, statement: Any, parameters: Any = ...) -> Any: ...


class Outbox:
    """The rows of `semel_outbox` with one name."""

    def __init__(self, database: str | sa.URL | sa.Engine, *, name: str, topic: str) -> None:
        self.engine: Final = open_database(database, table, relays)
        self.name: Final = checked_name(name)
        if (wrong := flaw(topic)) is not None:
            raise ConfigError(f"topic={topic!r} is no name of a topic: {wrong}")
        self.topic: Final = topic  # The topic of rows without one; its partition 0 identifies the ledger.

    def put(
        self,
        db: Executes,
        *,
        value: bytes | str | None,
        key: bytes | str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> None:
        """Write a message in the caller's transaction."""
        db.execute(
            sa.insert(table).values(
                name=self.name,
                topic=topic or self.topic,
                partition=partition,
                timestamp_ms=timestamp_ms,
                key=as_bytes("key", key),
                value=as_bytes("value", value),
                headers=headers_to_text(headers),
            )
        )

    def waiting(self) -> int:
        """Number of rows not yet known to be published."""
        with self.engine.connect() as db:
            count = db.scalar(sa.select(sa.func.count()).where(table.c.name == self.name))
        return int(count or 0)

    def relay(
        self,
        producer: TransactionalProducer,
        consumer: LedgerConsumer,
        *,
        in_doubt: WhenInDoubt = "raise",
        rows_max: int = 500,
        sleep: Callable[[float], None] | None = None,
    ) -> Relay:
        """A relay that publishes the rows. Only one is active; another with the same transactional.id takes over."""
        return Relay(
            self.engine,
            name=self.name,
            topic=self.topic,
            producer=producer,
            consumer=consumer,
            in_doubt=in_doubt,
            rows_max=rows_max,
            sleep=sleep,
        )

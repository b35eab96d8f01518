"""Databases for the consumers that count once: SQLite in a file, and a real PostgreSQL server."""

import sqlite3
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from support.peers.database_fixtures import database_url, postgresql_url

__all__ = ["database_url", "engine", "postgresql_url"]


@pytest.fixture
def engine(database_url: str) -> Iterator[sa.Engine]:
    """For crashes inside the process: the file need not wait for the disk."""
    engine = sa.create_engine(database_url)
    if engine.dialect.name == "sqlite":
        sa.event.listen(engine, "connect", _do_not_wait_for_the_disk)
    yield engine
    engine.dispose()


def _do_not_wait_for_the_disk(connection: sqlite3.Connection, _: object) -> None:
    connection.execute("PRAGMA synchronous = OFF")

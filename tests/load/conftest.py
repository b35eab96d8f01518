"""The broker that is loaded and abused: one for all tests of a process, for each leaves it as it was."""

from collections.abc import Iterator

import pytest

from semel.peers.processes import SemelProcess
from support.broker.load_kit import loaded_broker


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SemelProcess]:
    """Files of deleted topics go at once: a test looks for what is left."""
    settings = {"log.segment.delete.delay.ms": "0", "log.retention.check.interval.ms": "200"}
    with loaded_broker(tmp_path_factory.mktemp("loaded"), **settings) as running:
        yield running

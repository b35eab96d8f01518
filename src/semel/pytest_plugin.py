"""Fixtures for tests that need a broker: installed with Semel, nothing to configure.

Role.   `semel_broker` is a running broker, `semel_topic` a topic of the test's own. See docs/testing.md.
Flow.   pytest finds this module by its entry point in every project where Semel is installed.
Rules.  * Importing it must cost next to nothing: the broker is imported by the first test that asks for one.
        * One broker per process: under xdist every worker has its own, with its own port and data.
        * A project that wants other settings defines its own `semel_broker`; `semel_topic` uses that one.
"""

import re
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from semel.client.blocking import BlockingCluster
    from semel.embedded import Broker

_TEST_NAME_MAX: Final = 200  # A topic's name has at most 249 characters.


@pytest.fixture(scope="session")
def semel_broker() -> "Iterator[Broker]":
    """A broker in this process, with temporary data and a free port: `semel_broker.bootstrap`."""
    from semel.broker.dispatch import import_handlers
    from semel.embedded import Broker

    # pytest reads the source of what a plugin's package imports, and CPython 3.11 cannot always do that on two
    # threads at a time; so nothing is left to be imported on the broker's.
    import_handlers()
    with Broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def _semel_client(semel_broker: "Broker") -> "Iterator[BlockingCluster]":
    from semel.client.blocking import BlockingCluster
    from semel.client.config import ClientConfig

    with BlockingCluster(ClientConfig.of({"bootstrap.servers": semel_broker.bootstrap})) as client:
        yield client


@pytest.fixture
def semel_topic(request: pytest.FixtureRequest, _semel_client: "BlockingCluster") -> Iterator[str]:
    """The name of a new, empty topic that no other test has; it is deleted after the test."""
    from semel.client import admin

    legal = re.sub(r"[^a-zA-Z0-9_-]+", "-", request.node.name).strip("-")[:_TEST_NAME_MAX]
    name = f"{legal}-{uuid.uuid4().hex[:12]}"
    _semel_client.run(admin.create_topic, name)
    yield name
    _semel_client.run(admin.delete_topic, name)

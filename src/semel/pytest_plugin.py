"""Pytest fixtures for tests that need a broker, installed with Semel and without configuration.

Role.   `semel_broker` is a running broker, `semel_topic` a new topic for the test, `semel_producer` and
        `semel_consumer` are clients of it, `semel_chaos` is a connection with injected faults. See docs/testing.md.
Flow.   pytest finds this module by its entry point in every project where Semel is installed.
Rules.  * Importing the plugin must be cheap: the first test that uses a broker imports it.
        * One broker per process: under xdist every worker has its own port and data.
        * A project with other settings defines its own `semel_broker`, which the other fixtures then use.
        * The fixtures close their clients after each test.
"""

import re
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from semel.client.sync.admin import Admin
    from semel.client.sync.consumer import Consumer
    from semel.client.sync.producer import Producer
    from semel.embedded import Broker
    from semel.verify.fault_proxy import FaultProxy

_TEST_NAME_MAX: Final = 200  # A topic's name has at most 249 characters.


@pytest.fixture(scope="session")
def semel_broker() -> "Iterator[Broker]":
    """A broker in this process, with temporary data and a free port: `semel_broker.bootstrap`."""
    from semel.broker.dispatch import import_handlers
    from semel.embedded import Broker

    # Pytest reads the source of modules a plugin's package imports, which CPython 3.11 cannot always do on two threads.
    # So import all handlers here, before the broker's thread does.
    import_handlers()
    with Broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def _semel_admin(semel_broker: "Broker") -> "Iterator[Admin]":
    from semel.client.sync.admin import Admin

    with Admin(bootstrap_servers=semel_broker.bootstrap) as admin:
        yield admin


@pytest.fixture
def semel_topic(request: pytest.FixtureRequest, _semel_admin: "Admin") -> Iterator[str]:
    """The name of a new, empty topic for this test; it is deleted after the test."""
    legal = re.sub(r"[^a-zA-Z0-9_-]+", "-", request.node.name).strip("-")[:_TEST_NAME_MAX]
    name = f"{legal}-{uuid.uuid4().hex[:12]}"
    _semel_admin.create_topics(name)
    yield name
    _semel_admin.delete_topics(name)


@pytest.fixture
def semel_producer(semel_broker: "Broker") -> "Iterator[Producer]":
    """An idempotent producer of the broker; it flushes its records when the test ends."""
    from semel.client.sync.producer import Producer

    with Producer(bootstrap_servers=semel_broker.bootstrap) as producer:
        yield producer


@pytest.fixture
def semel_consumer(semel_broker: "Broker") -> "Iterator[Consumer]":
    """A consumer in a new group, which reads topics from the beginning: subscribe it, or assign partitions."""
    from semel.client.sync.consumer import Consumer

    with Consumer(
        bootstrap_servers=semel_broker.bootstrap,
        group_id=f"semel-test-{uuid.uuid4().hex[:12]}",
        auto_offset_reset="earliest",
    ) as consumer:
        yield consumer


@pytest.fixture
def semel_chaos(semel_broker: "Broker") -> "Iterator[FaultProxy]":
    """A connection that fails on demand: clients connect to `semel_chaos.bootstrap`, `semel_chaos.harm` injects
    faults."""
    from semel.verify.fault_proxy import FaultProxy

    with FaultProxy(semel_broker.bootstrap) as proxy:
        yield proxy

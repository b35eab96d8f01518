"""A broker, and every client, for the tests of this folder."""

import itertools
from collections.abc import Iterator

import pytest

from compat_clients import PYTHON_CLIENTS, Client
from compat_java import JavaClient, JavaShell
from compat_kit import ThreadBroker
from semel.bench.kafka_peer import KafkaHome

PARTITIONS = 3
_numbers = itertools.count()
_NAMES = [client.name for client in PYTHON_CLIENTS]


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadBroker]:
    """One broker for all tests; topics have three partitions and appear when they are first asked for."""
    with ThreadBroker(tmp_path_factory.mktemp("broker"), num_partitions=str(PARTITIONS)) as running:
        yield running


@pytest.fixture(scope="session")
def java_shell(kafka_home: KafkaHome, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaShell]:
    """One JVM for all tests."""
    with (
        (tmp_path_factory.mktemp("java") / "jvm.log").open("wb") as log,
        JavaShell(kafka_home, log) as shell,
    ):
        yield shell


@pytest.fixture
def java_client(java_shell: JavaShell) -> Client:
    return JavaClient(java_shell)


@pytest.fixture(params=[*_NAMES, pytest.param("java", marks=pytest.mark.java)])
def client(request: pytest.FixtureRequest) -> Client:
    """Each client in turn."""
    if request.param == "java":
        return JavaClient(request.getfixturevalue("java_shell"))
    return PYTHON_CLIENTS[_NAMES.index(request.param)]


@pytest.fixture
def topic() -> str:
    """A name no other test has."""
    return f"topic-{next(_numbers)}"

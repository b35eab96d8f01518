"""A broker, and every client, for the tests of this folder."""

import itertools
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from semel.peers.kafka import KafkaHome, PeerMissingError
from support.compat.compat_clients import PYTHON_CLIENTS, Client
from support.compat.compat_go import FranzGo
from support.compat.compat_java import JavaClient, JavaShell
from support.compat.compat_kit import ThreadBroker
from support.peers import franz_go

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


@pytest.fixture(params=[*_NAMES, "franz-go", pytest.param("java", marks=pytest.mark.java)])
def any_client(request: pytest.FixtureRequest) -> Client:
    """Each client in turn, and franz-go where Go is installed."""
    match request.param:
        case "java":
            return JavaClient(request.getfixturevalue("java_shell"))
        case "franz-go":
            return FranzGo(request.getfixturevalue("franz_program"))
    return PYTHON_CLIENTS[_NAMES.index(request.param)]


@pytest.fixture(scope="session")
def franz_program() -> Path:
    """Where Go is installed and peers are required, it must be there."""
    try:
        return franz_go.find()
    except PeerMissingError as missing:
        if os.environ.get("SEMEL_REQUIRE_PEERS") and shutil.which("go"):
            raise
        pytest.skip(str(missing))


@pytest.fixture
def topic() -> str:
    """A name no other test has."""
    return f"topic-{next(_numbers)}"

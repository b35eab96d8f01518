"""Java's transactional producers: 4.3 speaks transactions v2, 3.9 speaks v1; one JVM of each for all tests."""

from collections.abc import Iterator

import pytest

from semel.peers.kafka import KafkaHome
from support.transactions.transaction_java import TransactionShell

JAVA_VERSIONS = ("java_4_3", "java_3_9")


@pytest.fixture(scope="session")
def java_4_3(kafka_home: KafkaHome, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TransactionShell]:
    with (
        (tmp_path_factory.mktemp("java-4.3") / "jvm.log").open("wb") as log,
        TransactionShell(kafka_home, log) as shell,
    ):
        yield shell


@pytest.fixture(scope="session")
def java_3_9(
    old_kafka_home: KafkaHome, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TransactionShell]:
    with (
        (tmp_path_factory.mktemp("java-3.9") / "jvm.log").open("wb") as log,
        TransactionShell(old_kafka_home, log) as shell,
    ):
        yield shell


@pytest.fixture(params=JAVA_VERSIONS)
def shell(request: pytest.FixtureRequest) -> TransactionShell:
    """Each version in turn."""
    found: TransactionShell = request.getfixturevalue(request.param)
    return found

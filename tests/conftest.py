"""What every test shares: the plugins of this suite, properties that run the same everywhere, and Apache Kafka to compare with."""

import logging
import os
import signal
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings

from semel.peers import kafka as kafka_peer

# A shell starts what runs in its background with SIGINT ignored, and so would every process the tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ["support.suite.once_more", "support.suite.mission_marks"]

settings.register_profile(
    "semel", deadline=None, derandomize=True, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "search", parent=settings.get_profile("semel"), derandomize=False, max_examples=2000
)
settings.load_profile(os.environ.get("SEMEL_HYPOTHESIS", "semel"))


def _installed(version: str) -> kafka_peer.KafkaHome:
    """Kafka's jars; skips with a reason where Java or the jars are missing, fails in CI."""
    try:
        return replace(kafka_peer.find(version), jvm=kafka_peer.QUICK_JVM)
    except kafka_peer.PeerMissingError as missing:
        if os.environ.get("SEMEL_REQUIRE_PEERS"):
            raise
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def kafka_home() -> kafka_peer.KafkaHome:
    """Apache Kafka, the version we measure ourselves against."""
    return _installed(kafka_peer.DEFAULT_VERSION)


@pytest.fixture(scope="session")
def old_kafka_home() -> kafka_peer.KafkaHome:
    """The last Apache Kafka with ZooKeeper."""
    return _installed("3.9.2")


_AT_ONCE = {"group_initial_rebalance_delay_ms": "0"}
"""A group does not wait three seconds for members who might come."""


@pytest.fixture(scope="session")
def kafka_broker(
    kafka_home: kafka_peer.KafkaHome, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[kafka_peer.KafkaBroker]:
    """A running Apache Kafka of the version we measure ourselves against."""
    with kafka_home.broker(tmp_path_factory.mktemp("kafka"), **_AT_ONCE) as running:
        yield running


@pytest.fixture(scope="session")
def old_kafka_broker(
    old_kafka_home: kafka_peer.KafkaHome, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[kafka_peer.KafkaBroker]:
    """A running Apache Kafka of the last version with ZooKeeper: older protocols of groups and transactions."""
    with old_kafka_home.broker(tmp_path_factory.mktemp("old-kafka"), **_AT_ONCE) as running:
        yield running


@pytest.fixture(
    scope="session",
    params=["kafka_broker", "old_kafka_broker"],
    ids=lambda name: name.removesuffix("_broker"),
)
def kafka_bootstrap(request: pytest.FixtureRequest) -> str:
    """Where an Apache Kafka listens: today's, and the last one with ZooKeeper. Mark such a test with `java`."""
    bootstrap: str = request.getfixturevalue(request.param).bootstrap
    return bootstrap


@pytest.fixture(
    scope="session",
    params=[
        "semel_broker",
        pytest.param("kafka_broker", marks=pytest.mark.java),
        pytest.param("old_kafka_broker", marks=pytest.mark.java),
    ],
)
def any_bootstrap(request: pytest.FixtureRequest) -> str:
    """Where a broker listens: Semel's, Kafka's, an older Kafka's, each in turn."""
    bootstrap: str = request.getfixturevalue(request.param).bootstrap
    return bootstrap


def pytest_runtest_teardown() -> None:
    """What plays seeds switches logging off, for a process of its own; here other tests come after it."""
    logging.disable(logging.NOTSET)

"""Brokers for the tests of commands that must work on Semel and on Apache Kafka alike."""

from collections.abc import Iterator
from typing import Any, Final

import pytest

from semel import Broker
from semel.peers.kafka import KafkaHome

# Groups form at once, and their topic is made quickly.
_SETTINGS: Final[dict[str, Any]] = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
}


@pytest.fixture(scope="session", params=["semel", pytest.param("kafka", marks=pytest.mark.java)])
def group_bootstrap(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Where each of the two listens."""
    if request.param == "semel":
        with Broker(**_SETTINGS) as running:
            yield running.bootstrap
        return
    home: KafkaHome = request.getfixturevalue("kafka_home")
    with home.broker(tmp_path_factory.mktemp("kafka"), **_SETTINGS) as kafka:
        yield kafka.bootstrap

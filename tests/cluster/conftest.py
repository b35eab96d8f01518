"""A cluster for all tests of a composition, and the tools of two versions of Apache Kafka.

`SEMEL_CLUSTERS` names the kinds of brokers by letters, as `kks,kss`: `kkk` is the reference, Apache Kafka alone.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pytest

from semel.peers import kafka as kafka_peer
from semel.peers.kafka import KafkaHome
from support.cluster.mixed_cluster import MixedCluster, mixed_cluster
from support.cluster.tools import Tools
from support.compat.compat_java import JavaShell

CLUSTERS: Final = os.environ.get("SEMEL_CLUSTERS", "kks,kss").split(",")
TOOLS_VERSION: Final = "2.8.2"


@pytest.fixture(scope="session", params=CLUSTERS)
def running_cluster(
    request: pytest.FixtureRequest, old_kafka_home: KafkaHome, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MixedCluster]:
    """A cluster for all tests of these kinds: for who repairs it."""
    with mixed_cluster(old_kafka_home, tmp_path_factory.mktemp("cluster"), request.param) as running:
        yield running


@pytest.fixture
def cluster(running_cluster: MixedCluster) -> MixedCluster:
    """The cluster, with every broker alive. Topics are each test's own; whom a test harms, the next one heals."""
    running_cluster.heal()
    return running_cluster


@pytest.fixture(scope="session")
def tools(old_kafka_home: KafkaHome, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    """Apache Kafka 3.9.2's tools."""
    with (
        (tmp_path_factory.mktemp("tools") / "tools.log").open("wb") as log,
        JavaShell(old_kafka_home, log) as shell,
    ):
        yield Tools(shell)


@pytest.fixture(scope="session")
def znode_tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    """Apache Kafka 2.8.2's: the last that write to ZooKeeper."""
    try:
        home = replace(kafka_peer.find(TOOLS_VERSION), jvm=kafka_peer.QUICK_JVM)
    except kafka_peer.PeerMissingError as missing:
        if os.environ.get("SEMEL_REQUIRE_PEERS"):
            raise
        pytest.skip(str(missing))
    with (tmp_path_factory.mktemp("tools") / "tools.log").open("wb") as log, JavaShell(home, log) as shell:
        yield Tools(shell)

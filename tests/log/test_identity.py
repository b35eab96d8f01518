"""A data directory belongs to one broker of one cluster, alone or under ZooKeeper, and says so as Kafka does.

Method: directories in memory, with what Kafka 3.9.2 wrote under ZooKeeper, what Kafka writes with KRaft, and our own.
"""

import pytest

from semel.errors import ConfigError
from semel.log import checkpoints, identity
from semel.log.directory import LogDirectory
from semel.log.identity import Identity, Kind
from semel.runtime.files import Files, read_whole, write_atomically
from semel.runtime.simulation import simulated_runtime

CLUSTER = "Fd3cV-L_SSCzIDSTpZtXbw"
UNDER_ZOOKEEPER = (
    f"#\n#Thu Nov 19 21:19:00 UTC 2026\nbroker.id=1\nversion=0\ncluster.id={CLUSTER}\n"  # Of Kafka 3.9.2.
)
KRAFT = f"#\n#Thu Nov 19 21:19:00 UTC 2026\ncluster.id={CLUSTER}\nversion=1\ndirectory.id=xyz\nnode.id=1\n"
MEMBER = Identity(Kind.MEMBER, 1, CLUSTER)


@pytest.fixture
def files() -> Files:
    _simulation, runtime = simulated_runtime(0)
    runtime.files.make_directory("/data")
    return runtime.files


def put(files: Files, text: str) -> None:
    write_atomically(files, "/data/meta.properties", text.encode())


def test_a_directory_of_kafka_under_zookeeper_is_taken_as_it_is(files: Files) -> None:
    put(files, UNDER_ZOOKEEPER)
    assert identity.read(files, "/data") == MEMBER
    directory = LogDirectory.open(files, "/data", node_id=1, cluster_id=CLUSTER, kind=Kind.MEMBER)
    assert (directory.cluster_id, directory.directory_id) == (CLUSTER, None)
    directory.close(0)
    assert read_whole(files, "/data/meta.properties").decode() == UNDER_ZOOKEEPER


def test_a_new_directory_says_what_kafka_says(files: Files) -> None:
    assert identity.settle(files, "/data", MEMBER) == MEMBER
    assert identity.read(files, "/data") is None, "nothing before the cluster has taken the broker"
    identity.claim(files, "/data", MEMBER)
    assert identity.settle(files, "/data", MEMBER) == MEMBER
    text = checkpoints.read_meta_properties(files, "/data/meta.properties")
    assert text == {"version": "0", "broker.id": "1", "cluster.id": CLUSTER}


def test_a_directory_without_a_cluster_joins_its_first(files: Files) -> None:
    put(files, "version=0\nbroker.id=1\n")
    assert identity.settle(files, "/data", MEMBER) == MEMBER
    identity.claim(files, "/data", MEMBER)
    with pytest.raises(ConfigError, match="belongs to cluster"):
        identity.settle(files, "/data", Identity(Kind.MEMBER, 1, "other"))


@pytest.mark.parametrize(
    ("found", "own", "words"),
    [
        (KRAFT, MEMBER, r"/data belongs to broker 1 without ZooKeeper.*start it without zookeeper\.connect"),
        (
            UNDER_ZOOKEEPER,
            Identity(Kind.ALONE, 1, "c"),
            rf"broker 1 of cluster {CLUSTER} under ZooKeeper.*zookeeper\.connect",
        ),
        (
            UNDER_ZOOKEEPER,
            Identity(Kind.MEMBER, 2, CLUSTER),
            r"belongs to broker 1, this is broker 2: use its broker\.id",
        ),
        (
            UNDER_ZOOKEEPER,
            Identity(Kind.MEMBER, 1, "other"),
            rf"belongs to cluster {CLUSTER} .*is other: correct zookeeper\.connect",
        ),
        (KRAFT, Identity(Kind.ALONE, 2, "c"), r"belongs to broker 1, this is broker 2: use its node\.id"),
        ("version=2\nnode.id=1\n", MEMBER, r"version=2 is not known"),
        ("version=0\nbroker.id=one\n", MEMBER, r"broker\.id=one is no broker's number"),
        ("version=0\n", MEMBER, r"broker\.id= is no broker's number"),
    ],
)
def test_a_directory_of_another_is_refused_with_the_way_out(
    files: Files, found: str, own: Identity, words: str
) -> None:
    put(files, found)
    with pytest.raises(ConfigError, match=words):
        identity.settle(files, "/data", own)
    with pytest.raises(ConfigError, match=words):
        LogDirectory.open(
            files, "/data", node_id=own.broker_id, cluster_id=str(own.cluster_id), kind=own.kind
        )

"""A Semel broker is the controller of a cluster with Apache Kafka 3.9.2: its brokers and tools are the judges.

Method: real processes under a real ZooKeeper. The Semel broker starts first and is elected. Topics come and go by Kafka's tools,
brokers die by kill -9 and return, and the controller itself dies under a load of an idempotent producer with acks=all: the office goes
to Kafka and back. `SEMEL_DIRECTED` names the kinds of brokers by letters, as `skk,ssk,sss`.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from semel.peers.kafka import KafkaHome
from support.cluster.load import Load, consumed, judge
from support.cluster.mixed_cluster import SEMEL, MixedCluster, mixed_cluster
from support.cluster.tools import (
    CONFIGS,
    ELECT,
    OLD_ELECT,
    OLD_REASSIGN,
    REASSIGN,
    TOPICS,
    Tools,
    described,
    partitions_of,
    plan,
)

CLUSTERS: Final = os.environ.get("SEMEL_DIRECTED", "skk").split(",")
_SPREAD: Final = ((1, 2, 3), (2, 3, 1), (3, 1, 2))


@pytest.fixture(scope="module", params=CLUSTERS)
def running(
    request: pytest.FixtureRequest, old_kafka_home: KafkaHome, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MixedCluster]:
    where = tmp_path_factory.mktemp("directed")
    with mixed_cluster(old_kafka_home, where, request.param, directs=SEMEL) as started:
        assert started.members[started.wait_controller()].kind == SEMEL
        yield started


@pytest.fixture
def cluster(running: MixedCluster) -> MixedCluster:
    """Everybody is alive, and a Semel broker directs."""
    running.heal()
    return running


def _handed_over(cluster: MixedCluster) -> int:
    """The controller dies by kill -9: who is it then. It is up again, and the dead one too."""
    before = cluster.wait_controller()
    cluster.members[before].kill()
    cluster.wait(lambda: cluster.controller() not in (None, before), f"another than {before} is elected")
    after = cluster.wait_controller()
    cluster.members[before].begin()
    cluster.members[before].wait_ready()
    cluster.wait_registered(before)
    return after


def _to_semel(cluster: MixedCluster, *topics: str) -> None:
    """Controllers die until a Semel broker is one."""
    while cluster.members[cluster.wait_controller()].kind != SEMEL:
        _handed_over(cluster)
        cluster.wait_in_sync(*topics)


def test_kafkas_tools_make_and_remove_topics(cluster: MixedCluster, tools: Tools) -> None:
    """ZK-04, ZK-12: kafka-topics against a Semel controller; nodes and disks are as under Kafka's."""
    _to_semel(cluster)
    where = ("--bootstrap-server", cluster.bootstrap)
    tools.run(
        TOPICS, *where, *("--create", "--topic", "made", "--partitions", "4", "--replication-factor", "3")
    )
    rows = described(tools.run(TOPICS, *where, "--describe", "--topic", "made"))
    assert sorted(rows) == [0, 1, 2, 3]
    assert {row["Leader"] for row in rows.values()} <= {"1", "2", "3"}
    cluster.wait_in_sync("made")
    tools.run(TOPICS, *where, "--alter", "--topic", "made", "--partitions", "6")
    assert len(described(tools.run(TOPICS, *where, "--describe", "--topic", "made"))) == 6
    cluster.wait_in_sync("made")
    refused = tools.refused(
        TOPICS, *where, *("--create", "--topic", "made", "--partitions", "1", "--replication-factor", "1")
    )
    assert "already exists" in refused
    tools.run(TOPICS, *where, "--delete", "--topic", "made")
    cluster.wait_deleted("made")
    cluster.wait_absent("made", 1, 2, 3, partitions=6)


def test_kafkas_tools_move_partitions_and_elect_leaders(
    cluster: MixedCluster, tools: Tools, znode_tools: Tools, tmp_path: Path
) -> None:
    """REPL-07, ZK-10, ZK-11: by the API of 3.9.2's tools, and by the nodes of 2.8.2's."""
    _to_semel(cluster)
    where = ("--bootstrap-server", cluster.bootstrap)
    nodes = ("--zookeeper", cluster.connect)
    cluster.create("moved", [[1, 2], [2, 3], [3, 1]])
    by_api, by_node = [[2, 3], [3, 1], [1, 2]], [[3, 1], [1, 2], [2, 3]]
    with Load(cluster.bootstrap, "moved", 3) as load:
        load.wait_acks(20)
        file = tmp_path / "plan.json"
        for tool, target, at, replicas in (
            (REASSIGN, tools, where, by_api),
            (OLD_REASSIGN, znode_tools, nodes, by_node),
        ):
            file.write_text(plan({"moved": replicas}), encoding="utf-8")
            target.run(tool, *at, "--reassignment-json-file", str(file), "--execute")
            cluster.wait_assigned("moved", replicas)
            cluster.wait_in_sync("moved")
            load.wait_acks(20)
        cluster.wait(lambda: cluster.read("/admin/reassign_partitions") is None, "the wish is removed")
        partitions = tmp_path / "partitions.json"
        partitions.write_text(partitions_of("moved", 3), encoding="utf-8")
        by_tools = (
            (
                tools,
                (ELECT, *where, "--election-type", "preferred", "--path-to-json-file", str(partitions)),
            ),
            (znode_tools, (OLD_ELECT, *nodes, "--path-to-json-file", str(partitions))),
        )
        for target, command in by_tools:
            director = cluster.wait_controller()
            other = next(one for one in cluster.ids if one != director)
            cluster.members[other].kill()
            cluster.wait_out_of_sync("moved", other)
            cluster.members[other].begin()
            cluster.members[other].wait_ready()
            cluster.wait_in_sync("moved")
            assert {state.leader for state in cluster.states("moved").values()} == set(cluster.ids) - {other}
            target.run(*command)
            for index, (first, _second) in enumerate(by_node):
                cluster.wait_leader("moved", first, index)
        cluster.wait(lambda: cluster.read("/admin/preferred_replica_election") is None, "the wish is removed")
        load.wait_acks(20)
    _judged(cluster, load)
    cluster.wait_absent("moved", 2, partitions=1)


def test_kafkas_tools_make_users(cluster: MixedCluster, tools: Tools) -> None:
    """A credential that the Semel controller wrote is described by every broker, Kafka's among them."""
    _to_semel(cluster)
    where = ("--bootstrap-server", cluster.bootstrap, "--entity-type", "users", "--entity-name", "ann b")
    credential = "SCRAM-SHA-256=[iterations=8192,password=secret]"

    def shown() -> str:
        return tools.run(CONFIGS, *where, "--describe")

    tools.run(CONFIGS, *where, "--alter", "--add-config", credential)
    cluster.wait(lambda: "SCRAM-SHA-256=iterations=8192" in shown(), "the credential is described")
    tools.run(CONFIGS, *where, "--alter", "--delete-config", "SCRAM-SHA-256")
    cluster.wait(lambda: "SCRAM-SHA-256" not in shown(), "it is gone")


def test_a_broker_dies_and_returns(cluster: MixedCluster) -> None:
    """REPL-03, REPL-05: every other broker in turn, under load."""
    _to_semel(cluster)
    director = cluster.wait_controller()
    cluster.create("fail", _SPREAD)
    with Load(cluster.bootstrap, "fail", 3) as load:
        for broker in cluster.ids:
            if broker == director:
                continue
            before = {index: state.leader_epoch for index, state in cluster.states("fail").items()}
            led = [index for index, state in cluster.states("fail").items() if state.leader == broker]
            load.wait_acks(20)
            cluster.members[broker].kill()
            cluster.wait_out_of_sync("fail", broker)
            for index in led:
                assert cluster.state("fail", index).leader_epoch == before[index] + 1
            load.wait_acks(20)
            cluster.members[broker].begin()
            cluster.members[broker].wait_ready()
            cluster.wait_in_sync("fail")
    assert cluster.controller() == director
    _judged(cluster, load)


def test_the_office_goes_to_kafka_and_back_under_load(cluster: MixedCluster) -> None:
    """ZK-07, ZK-08: the epoch grows by one each time, and no acknowledged record is lost or doubled."""
    _to_semel(cluster)
    cluster.create("office", _SPREAD)
    found = cluster.read("/controller_epoch")
    assert found is not None
    epoch = found[0]
    kinds = []
    with Load(cluster.bootstrap, "office", 3) as load:
        for _round in range(2):
            load.wait_acks(20)
            kinds.append(cluster.members[_handed_over(cluster)].kind)
            load.wait_acks(20)
            cluster.wait_in_sync("office")
        while cluster.members[cluster.wait_controller()].kind != SEMEL:
            kinds.append(cluster.members[_handed_over(cluster)].kind)
            load.wait_acks(20)
            cluster.wait_in_sync("office")
    found = cluster.read("/controller_epoch")
    assert found is not None
    assert found[0] == epoch + len(kinds)
    _judged(cluster, load)


def _judged(cluster: MixedCluster, load: Load) -> None:
    """Nothing that was acknowledged is lost, doubled, elsewhere or out of order."""
    ends = {
        partition: 1 + max(ack.offset for ack in load.acks if ack.partition == partition)
        for partition in range(load.partitions)
    }
    verdict = judge(load.acks, consumed(cluster.bootstrap, load.topic, ends))
    assert verdict.is_right, verdict
    assert not load.errors

"""`semel cluster` names the brokers, what they carry, and which partitions lack a replica: on Semel, and while Kafka loses a broker.

Method: the commands, on a broker of ours and on two Apache Kafka brokers of which one is killed; Kafka's own TopicCommand says
which partitions are under-replicated. Judgements by table: `tests/insight/test_partition_health.py`.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from semel import Broker
from semel.cli.main import cli
from semel.peers.kafka import KafkaHome
from support.compat.compat_kit import eventually
from support.peers.kafka_cluster import kafka_cluster


def semel(bootstrap: str, *arguments: str) -> str:
    result = CliRunner().invoke(
        cli, ["cluster", *arguments], env={"SEMEL_BOOTSTRAP": bootstrap}, catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    return result.stdout


def as_json(bootstrap: str, *arguments: str) -> Any:
    return json.loads(semel(bootstrap, *arguments, "-o", "json"))


def test_one_broker_is_a_cluster_of_one() -> None:
    with Broker(num_partitions=3) as broker:
        where = broker.bootstrap
        assert CliRunner().invoke(cli, ["topics", "create", "orders", "-b", where]).exit_code == 0
        described = as_json(where, "describe")
        assert (described["brokers"], described["topics"], described["partitions"]) == (1, 1, 3)
        assert (described["ok"], described["offline"], described["not_preferred"]) == (3, 0, 0)
        (only,) = as_json(where, "brokers")
        assert (only["id"], only["leaders"], only["replicas"], only["controller"]) == (1, 3, 3, True)
        assert [one["state"] for one in as_json(where, "partitions", "orders")] == ["ok"] * 3
        assert as_json(where, "partitions", "orders", "--state", "offline") == []
        assert semel(where, "under-replicated") == "3 partitions, all of them led and in sync\n"
        assert as_json(where, "under-replicated") == []
        table = semel(where, "partitions", "-o", "wide").splitlines()
        assert table[0].split() == [
            "TOPIC",
            "PARTITION",
            "STATE",
            "LEADER",
            "EPOCH",
            "REPLICAS",
            "IN",
            "SYNC",
            "MISSING",
        ]
        assert table[1].split() == ["orders", "0", "ok", "1", "0", "1", "1", "none"]
        assert semel(where, "describe").splitlines()[1:] == [
            "1 broker",
            "1 topic, 3 partitions:",
            "       3  ok",
        ]
        assert [one["address"] for one in as_json(where, "brokers")] == [where]
        unknown = CliRunner().invoke(cli, ["cluster", "partitions", "order", "-b", where])
        assert "order" in str(unknown.exception)


@pytest.mark.java
@pytest.mark.timeout(600)
def test_a_broker_that_is_lost_is_seen_as_kafkas_own_tool_sees_it(
    kafka_home: KafkaHome, tmp_path: Path
) -> None:
    with kafka_cluster(kafka_home, tmp_path, 2) as brokers:
        where = brokers[0].bootstrap
        create = ["topics", "create", "copied", "--partitions", "4", "--replication-factor", "2", "-b", where]
        assert CliRunner().invoke(cli, create).exit_code == 0
        eventually(lambda: as_json(where, "under-replicated") == [], "all replicas are in sync", 120)
        assert sum(one["leaders"] for one in as_json(where, "brokers")) == 4
        brokers[1].kill()
        eventually(lambda: len(as_json(where, "under-replicated")) == 4, "the lost replicas are noticed", 120)
        rows = as_json(where, "under-replicated")
        assert {(one["state"], one["leader"], *one["missing"]) for one in rows} == {("at-min-isr", 1, 2)}
        gone = {one["id"]: one for one in as_json(where, "brokers")}[2]
        assert (gone["address"], gone["leaders"], gone["not_in_sync"]) == (None, 0, 4)
        assert as_json(where, "describe")["brokers_gone"] == [2]
        said = kafka_home.run(
            *("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", where),
            *("--describe", "--under-replicated-partitions"),
        )
        theirs = [line.split()[1:4:2] for line in said.splitlines() if line.strip().startswith("Topic:")]
        assert sorted(theirs) == sorted([one["topic"], str(one["partition"])] for one in rows)

"""The commands speak only the protocol: they work against Apache Kafka as against Semel.

Method: one Kafka broker, every command once, the answers read back.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from semel.cli.main import cli
from semel.log.verification import verify
from semel.peers.kafka import KafkaBroker, KafkaHome
from semel.runtime.files import RealFiles
from support.compat.compat_kit import eventually

pytestmark = pytest.mark.java


@pytest.fixture(scope="module")
def kafka(kafka_home: KafkaHome, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with kafka_home.broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running


def semel(kafka: KafkaBroker, *arguments: str, stdin: str | None = None) -> str:
    result = CliRunner().invoke(
        cli, arguments, input=stdin, env={"SEMEL_BOOTSTRAP": kafka.bootstrap}, catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    return result.stdout


def test_every_command_works_against_apache_kafka(kafka: KafkaBroker) -> None:
    def as_json(*arguments: str) -> Any:
        return json.loads(semel(kafka, *arguments, "-o", "json"))

    said = semel(kafka, "topics", "create", "orders", "--partitions", "2", "--config", "retention.ms=3600000")
    assert said == "created orders with 2 partitions\n"
    lines = "".join(f"key-{number % 10}:value {number}\n" for number in range(500))
    assert "500 records stored in orders" in semel(
        kafka, "produce", "orders", "--key-separator", ":", stdin=lines
    )
    read = semel(kafka, "consume", "orders", "--key-separator", ":").splitlines()
    assert sorted(read) == sorted(lines.splitlines())
    assert len(semel(kafka, "consume", "orders", "--offset", "@1", "-n", "7").splitlines()) == 7
    (described,) = as_json("topics", "describe", "orders")
    assert described["configs"]["retention.ms"] == "3600000"
    assert sum(one["end_offset"] for one in described["partitions"]) == 500
    assert "orders" in {one["name"] for one in as_json("topics", "list")}
    states = as_json("producers", "describe", "orders")
    assert sum(one["last_sequence"] + 1 for one in states) == 500
    semel(kafka, "configs", "set", "retention.ms=7200000", "--topic", "orders")

    def retention() -> str:
        settings = {one["name"]: one["value"] for one in as_json("configs", "describe", "--topic", "orders")}
        return str(settings["retention.ms"])

    eventually(lambda: retention() == "7200000", "Kafka's broker hears of it from its controller")
    semel(kafka, "configs", "unset", "retention.ms", "--topic", "orders")
    assert as_json("configs", "describe", "--broker", "1")
    said = as_json("doctor")
    assert {one["level"] for one in said} <= {"ok", "warning"}
    assert any("Apache Kafka names no producer even there" in one["text"] for one in said), (
        "what it cannot know"
    )
    assert "1 record stored in made-by-producing" in semel(kafka, "produce", "made-by-producing", stdin="x\n")
    assert semel(kafka, "topics", "delete", "made-by-producing") == "deleted made-by-producing\n"
    kafka.stop()
    report = verify(RealFiles(), str(Path(kafka.data)))
    assert report.findings == []
    assert report.batches > 0

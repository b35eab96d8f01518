"""`semel txn` shows who has transactions, finds the one that hangs and ends it; so do Kafka's command and kafka-python's.

Method: one broker with a transaction under way (confluent-kafka), one that is over, and one that hangs: a batch of a
producer no coordinator knows, written past the check that would refuse it. All tools are asked about them.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from click.testing import CliRunner

from semel.cli.main import cli
from semel.core.records.build import RecordInput, build_batch
from semel.log.partition_log import Appended
from semel.peers.kafka import KafkaHome
from support.compat.compat_java import JavaShell
from support.compat.compat_kit import ThreadBroker
from support.transactions.transaction_clients import DEADLINE_SECONDS, ConfluentKafka, read

OLD_MS = 1_700_000_000_000
HANGING_ID = 4711


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ThreadBroker]:
    with ThreadBroker(tmp_path / "data", num_partitions="1") as running:
        yield running


@pytest.fixture
def under_way(broker: ThreadBroker) -> Iterator[ConfluentKafka]:
    """Id `done` committed a record to `orders`, then id `busy` has one open there."""
    done = ConfluentKafka(broker.bootstrap, "done")
    done.begin()
    done.send("orders", 0, b"done")
    done.commit()
    busy = ConfluentKafka(broker.bootstrap, "busy")
    busy.begin()
    busy.send("orders", 0, b"busy")
    busy.flush()
    yield busy
    done.close()
    busy.close()


def hang(broker: ThreadBroker, topic: str) -> int:
    """Leave a transaction open that nobody coordinates; the offset it begins at."""

    async def append() -> int:
        assert broker.broker is not None
        partition = broker.broker.parts.partitions.get(topic, 0)
        assert partition is not None
        data = build_batch(
            [RecordInput(None, b"hangs", OLD_MS)],
            producer_id=HANGING_ID,
            producer_epoch=3,
            base_sequence=0,
            transactional=True,
        )
        producers = partition.log.producers
        producers.verification_required = False
        try:
            result = partition.append(data)
        finally:
            producers.verification_required = True
        assert isinstance(result, Appended)
        return result.base_offset

    return int(broker.run(append()))


def make_topic(bootstrap: str, topic: str) -> None:
    producer = confluent_kafka.Producer({"log_level": 0, "bootstrap.servers": bootstrap})
    producer.produce(topic, value=b"plain", partition=0)
    assert producer.flush(DEADLINE_SECONDS) == 0


def txn(broker: ThreadBroker, *arguments: str, status: int = 0) -> str:
    result = CliRunner().invoke(cli, ["txn", *arguments, "-b", broker.bootstrap])
    assert result.exit_code == status, (result.output, result.exception)
    return result.output


def shown(broker: ThreadBroker, *arguments: str) -> Any:
    return json.loads(txn(broker, *arguments, "-o", "json"))


def test_transactions_are_listed_and_described(broker: ThreadBroker, under_way: ConfluentKafka) -> None:
    everyone = shown(broker, "list")
    assert [(one["transactional_id"], one["state"]) for one in everyone] == [
        ("busy", "Ongoing"),
        ("done", "CompleteCommit"),
    ]
    assert [one["transactional_id"] for one in shown(broker, "list", "--state", "Ongoing")] == ["busy"]
    assert [one["transactional_id"] for one in shown(broker, "list", "--pattern", "d.*")] == ["done"]
    assert shown(broker, "list", "--older-than-ms", "3600000", "--state", "Ongoing") == []
    busy = shown(broker, "describe", "busy")
    assert (busy["state"], busy["producer_epoch"], busy["partitions"]) == ("Ongoing", 0, [["orders", 0]])
    assert busy["start_ms"] > OLD_MS
    text = txn(broker, "describe", "busy")
    assert "Ongoing" in text
    assert "orders" in text
    failed = CliRunner().invoke(cli, ["txn", "describe", "nobody", "-b", broker.bootstrap])
    assert "see 'semel txn list'" in str(failed.exception)
    (one,) = [
        one
        for one in shown(broker, "describe-producers", "orders")
        if one["transaction_start_offset"] is not None
    ]
    assert one["producer_id"] == busy["producer_id"]


def test_what_hangs_is_found_and_ended(broker: ThreadBroker, under_way: ConfluentKafka) -> None:
    make_topic(broker.bootstrap, "stuck")
    assert shown(broker, "find-hanging") == []
    offset = hang(broker, "stuck")
    assert read(broker.bootstrap, "stuck", 0, committed=True) == [b"plain"]
    make_topic(broker.bootstrap, "stuck")
    assert read(broker.bootstrap, "stuck", 0, committed=True) == [b"plain"]  # Behind it nothing is seen.
    everything = shown(broker, "find-hanging", "--all")
    assert [(one["topic"], one["transactional_id"], one["is_hanging"]) for one in everything] == [
        ("orders", "busy", False),
        ("stuck", None, True),
    ]
    (hanging,) = shown(broker, "find-hanging")
    assert (hanging["start_offset"], hanging["producer_id"]) == (offset, HANGING_ID)
    text = txn(broker, "abort", "--topic", "stuck", "--partition", "0", "--start-offset", str(offset))
    assert text == f"aborted the transaction from offset {offset} of stuck-0\n"
    assert read(broker.bootstrap, "stuck", 0, committed=True) == [b"plain", b"plain"]
    assert shown(broker, "find-hanging") == []


def test_a_producer_is_fenced_by_its_id(broker: ThreadBroker, under_way: ConfluentKafka) -> None:
    assert txn(broker, "abort", "--transactional-id", "busy") == (
        "fenced busy: nothing of it is open, its epoch is 2 now\n"
    )
    assert shown(broker, "describe", "busy")["state"] == "Empty"
    assert read(broker.bootstrap, "orders", 0, committed=True) == [b"done"]


def test_an_abort_must_be_meant(broker: ThreadBroker) -> None:
    assert "Name either" in txn(broker, "abort", status=2)
    assert "Name either" in txn(broker, "abort", "--transactional-id", "a", "--topic", "t", status=2)
    assert "needs --topic, --partition and --start-offset" in txn(broker, "abort", "--topic", "t", status=2)


@pytest.mark.mission("EXT-03")
def test_kafka_pythons_command_says_and_does_the_same(
    broker: ThreadBroker, under_way: ConfluentKafka
) -> None:
    make_topic(broker.bootstrap, "stuck")
    offset = hang(broker, "stuck")

    def asked(*arguments: str) -> Any:
        command = ("-b", broker.bootstrap, "--format", "json", "transactions", *arguments)
        run = subprocess.run(
            [sys.executable, "-m", "kafka.admin", *command],
            capture_output=True,
            text=True,
            timeout=DEADLINE_SECONDS,
            check=False,
        )
        assert run.returncode == 0, run.stderr
        return json.loads(run.stdout)

    (listed,) = asked("list").values()  # Of each broker.
    assert {one["transactional_id"] for one in listed} == {"busy", "done"}
    (listed,) = asked("list", "--state", "Ongoing").values()
    assert [one["transactional_id"] for one in listed] == ["busy"]
    busy = asked("describe", "--transactional-id", "busy")["busy"]
    assert (busy["state"], busy["topic_partitions"]) == ("Ongoing", [{"topic": "orders", "partition": 0}])
    place = ("--topic", "stuck", "--partition", "0")
    (known,) = asked("describe-producers", *place)["stuck:0"]["active_producers"]
    assert (known["producer_id"], known["current_transaction_start_offset"]) == (HANGING_ID, offset)
    epoch = str(known["producer_epoch"])
    asked("abort", *place, "--producer-id", str(HANGING_ID), "--producer-epoch", epoch)
    (known,) = asked("describe-producers", *place)["stuck:0"]["active_producers"]
    assert known["current_transaction_start_offset"] == -1
    assert read(broker.bootstrap, "stuck", 0, committed=True) == [b"plain"]


@pytest.mark.java
@pytest.mark.mission("EXT-03")
def test_kafkas_command_says_and_does_the_same(
    broker: ThreadBroker, under_way: ConfluentKafka, kafka_home: KafkaHome, tmp_path: Path
) -> None:
    make_topic(broker.bootstrap, "stuck")
    offset = hang(broker, "stuck")
    make_topic(broker.bootstrap, "stuck")

    with (tmp_path / "jvm.log").open("wb") as log, JavaShell(kafka_home, log) as shell:

        def kafkas(*arguments: str) -> list[list[str]]:
            """The rows of the table it prints."""
            run = shell.tool(
                "org.apache.kafka.tools.TransactionsCommand",
                "--bootstrap-server",
                broker.bootstrap,
                *arguments,
            )
            assert run.status == 0, run.output
            return [line.split() for line in run.output.splitlines()[1:] if line.strip()]

        assert sorted((row[0], row[3]) for row in kafkas("list")) == [
            ("busy", "Ongoing"),
            ("done", "CompleteCommit"),
        ]
        assert [row[0] for row in kafkas("list", "--transactional-id-pattern", "b.*")] == ["busy"]
        (busy,) = kafkas("describe", "--transactional-id", "busy")
        assert (busy[1], busy[4], busy[-1]) == ("busy", "Ongoing", "orders-0")
        (hanging,) = kafkas("find-hanging", "--broker-id", "1")
        assert hanging[:3] == ["stuck", "0", str(HANGING_ID)]
        (known,) = kafkas("describe-producers", "--topic", "stuck", "--partition", "0")
        assert (known[0], known[-1]) == (str(HANGING_ID), str(offset))
        kafkas("abort", "--topic", "stuck", "--partition", "0", "--start-offset", str(offset))
        assert kafkas("find-hanging", "--broker-id", "1") == []
        kafkas("forceTerminateTransaction", "--transactionalId", "busy")
    assert read(broker.bootstrap, "stuck", 0, committed=True) == [b"plain", b"plain"]
    assert shown(broker, "describe", "busy")["state"] != "Ongoing"

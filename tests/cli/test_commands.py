"""topics, produce, consume, configs, producers, doctor: what a person types and reads, against one broker.

Method: an embedded broker for the file, and the commands run as a user runs them; every test has topics of its own.
"""

import json
import os
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from semel import Admin, Broker, Producer, TopicPartition
from semel.cli.main import cli
from semel.errors import SemelError


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


class Commands:
    """Runs commands at a broker."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def __call__(self, *arguments: str, stdin: str | bytes | None = None) -> Result:
        return CliRunner().invoke(cli, arguments, input=stdin, env={"SEMEL_BOOTSTRAP": self.bootstrap})

    def done(self, *arguments: str, stdin: str | bytes | None = None) -> str:
        result = self(*arguments, stdin=stdin)
        assert result.exit_code == 0, (result.output, result.exception)
        return result.stdout

    def json(self, *arguments: str, stdin: str | bytes | None = None) -> Any:
        return json.loads(self.done(*arguments, "-o", "json", stdin=stdin))

    def failed(self, *arguments: str, stdin: str | bytes | None = None) -> str:
        """What a command that fails says: one of our errors, which `main` prints as one line."""
        result = self(*arguments, stdin=stdin)
        assert result.exit_code == 1
        assert isinstance(result.exception, SemelError), result.exception
        return str(result.exception)


@pytest.fixture
def semel(broker: Broker) -> Commands:
    return Commands(broker.bootstrap)


@pytest.fixture
def topic() -> str:
    return f"orders-{uuid.uuid4().hex[:8]}"


def test_a_topic_from_its_making_to_its_end(semel: Commands, topic: str) -> None:
    said = semel.done("topics", "create", topic, "--partitions", "3", "--config", "retention.ms=3600000")
    assert said == f"created {topic} with 3 partitions\n"
    assert [f"{topic}           3         1"] == [
        line for line in semel.done("topics", "list").splitlines() if line.startswith(topic)
    ]
    (described,) = semel.json("topics", "describe", topic)
    assert described["name"] == topic
    assert described["configs"] == {"retention.ms": "3600000"}
    assert [one["partition"] for one in described["partitions"]] == [0, 1, 2]
    assert {(one["leader"], one["start_offset"], one["end_offset"]) for one in described["partitions"]} == {
        (1, 0, 0)
    }
    assert semel.done("topics", "describe", topic).splitlines()[1] == "  retention.ms=3600000"
    assert semel.done("topics", "delete", topic) == f"deleted {topic}\n"
    assert topic not in semel.done("topics", "list")


@pytest.mark.mission("PERF-08")
def test_auto_makes_two_partitions_per_core(semel: Commands, topic: str) -> None:
    expected = 2 * (os.cpu_count() or 1)
    assert f"with {expected} partitions" in semel.done("topics", "create", topic, "--partitions", "auto")
    assert "two per CPU core" in " ".join(semel.done("topics", "create", "--help").split())


def test_making_a_topic_again(semel: Commands, topic: str) -> None:
    semel.done("topics", "create", topic)
    said = semel.failed("topics", "create", topic)
    assert said.startswith(f"{semel.bootstrap} refuses to create topic '{topic}': ")
    assert "TOPIC_ALREADY_EXISTS" in said
    assert semel.done("topics", "create", topic, "--if-not-exists") == f"{topic} exists already\n"


def test_lines_come_back_as_they_went_in(semel: Commands, topic: str) -> None:
    lines = "".join(f"line {number}\n" for number in range(1000)) + "the last, without an end"
    assert semel.done("produce", topic, stdin=lines) == (
        f"1001 records stored in {topic}\n  partition 0: offsets 0 to 1000\n"
    )
    assert semel.done("consume", topic) == lines + "\n"
    assert semel.done("consume", topic, "--offset", "999", "--max-messages", "1") == "line 999\n"
    assert semel.done("consume", topic, "--offset", "latest") == ""


def test_bytes_that_are_no_text_pass_through(semel: Commands, topic: str) -> None:
    semel.done("produce", topic, stdin=b"\xff\x00\xfe\n")
    result = semel("consume", topic)
    assert result.stdout_bytes == b"\xff\x00\xfe\n"
    shown = json.loads(semel.done("consume", topic, "-o", "jsonl"))
    assert shown["value_base64"] == "/wD+"


def test_keys_choose_partitions_and_are_shown(semel: Commands, topic: str) -> None:
    semel.done("topics", "create", topic, "--partitions", "4")
    lines = "".join(f"key-{number % 8}:value {number}\n" for number in range(64))
    semel.done("produce", topic, "--key-separator", ":", stdin=lines)
    shown = [json.loads(line) for line in semel.done("consume", topic, "-o", "jsonl").splitlines()]
    assert len(shown) == 64
    homes = {(one["key"], one["partition"]) for one in shown}
    assert len(homes) == 8  # Every key has one partition.
    assert len({partition for _key, partition in homes}) > 1
    for number in range(8):
        values = [one["value"] for one in shown if one["key"] == f"key-{number}"]
        assert values == [f"value {at}" for at in range(number, 64, 8)]  # In the order they were sent.
    again = semel.done("consume", topic, "--key-separator", ":").splitlines()
    assert sorted(again) == sorted(lines.splitlines())


def test_a_partition_by_name(semel: Commands, topic: str) -> None:
    semel.done("topics", "create", topic, "--partitions", "3")
    semel.done("produce", topic, "--partition", "2", stdin="here\n")
    assert semel.done("consume", topic, "--partition", "2") == "here\n"
    assert semel.done("consume", topic, "--partition", "1") == ""
    for command in ("produce", "consume"):
        result = semel(command, topic, "--partition", "3", stdin="x\n")
        assert result.exit_code == 2
        assert f"{topic} has the partitions 0 to 2." in result.output


def test_from_a_time_on(semel: Commands, topic: str) -> None:
    semel.done("produce", topic, stdin="early\n")
    between = time.time_ns() // 1_000_000 + 1
    while time.time_ns() // 1_000_000 <= between:
        pass  # The clock's next millisecond.
    semel.done("produce", topic, stdin="late\n")
    assert semel.done("consume", topic, "--offset", f"@{between}") == "late\n"
    assert semel.done("consume", topic, "--offset", "@2001-01-01T00:00:00Z") == "early\nlate\n"
    assert semel.done("consume", topic, "--offset", "@2100-01-01T00:00:00Z") == ""


def test_following_ends_with_the_last_record_asked_for(semel: Commands, topic: str) -> None:
    semel.done("produce", topic, stdin="a\nb\nc\n")
    assert semel.done("consume", topic, "--follow", "--max-messages", "3") == "a\nb\nc\n"


def test_a_table_shows_where_records_are(semel: Commands, topic: str) -> None:
    semel.done("produce", topic, "--key-separator", "=", stdin="k=v\n")
    header, row = semel.done("consume", topic, "-o", "table").splitlines()
    assert header.split() == ["PARTITION", "OFFSET", "TIME", "KEY", "HEADERS", "VALUE"]
    partition, offset, _when, key, headers, value = row.split()
    assert (partition, offset, key, headers, value) == ("0", "0", "k", "-", "v")


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_every_compression(semel: Commands, topic: str, codec: str) -> None:
    lines = "".join(f"line {number}\n" for number in range(100))
    semel.done("produce", topic, "-X", f"compression.type={codec}", stdin=lines)
    assert semel.done("consume", topic) == lines


@pytest.mark.parametrize(("acks", "verb"), [("0", "sent to"), ("1", "stored in")])
def test_weaker_acks(semel: Commands, topic: str, acks: str, verb: str) -> None:
    assert f"1 record {verb} {topic}" in semel.done("produce", topic, "--acks", acks, stdin="x\n")
    assert semel.done("consume", topic, "--follow", "-n", "1") == "x\n"
    assert semel.json("producers", "describe", topic) == []


_JAVA = "org.apache.kafka.common.serialization."


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("enable.idempotence", "true"),
        ("retries", "3"),
        ("acks", "all"),
        ("max.in.flight.requests.per.connection", "1"),
        ("transactional.id", "first-transactional"),
        ("transaction.timeout.ms", "60000"),
        ("key.serializer", f"{_JAVA}StringSerializer"),
        ("value.serializer", f"{_JAVA}StringSerializer"),
        ("linger.ms", "10"),
        ("buffer.memory", "67108864"),
        ("batch.size", "32768"),
        ("delivery.timeout.ms", "60000"),
        ("compression.type", "lz4"),
    ],
)
def test_every_key_the_seeds_give_a_producer_is_taken(
    semel: Commands, topic: str, key: str, value: str
) -> None:
    said = semel.done("produce", topic, "--key-separator", ":", "-X", f"{key}={value}", stdin="k:größer\n")
    assert said.startswith(f"1 record stored in {topic}")
    assert semel.done("consume", topic) == "größer\n"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("group.id", "group0323"),
        ("isolation.level", "READ_UNCOMMITTED"),
        ("enable.auto.commit", "false"),
        ("auto.commit.interval.ms", "1000"),
        ("session.timeout.ms", "30000"),
        ("key.deserializer", f"{_JAVA}StringDeserializer"),
        ("value.deserializer", f"{_JAVA}StringDeserializer"),
    ],
)
@pytest.mark.parametrize("group", [(), ("--group", "members")])
def test_every_key_the_seeds_give_a_consumer_is_taken(
    semel: Commands, topic: str, key: str, value: str, group: tuple[str, ...]
) -> None:
    semel.done("produce", topic, "--key-separator", ":", stdin="k:größer\n")
    named = (*group[:1], f"{group[1]}-{topic}") if group else ()
    said = semel.done("consume", topic, "--key-separator", ":", *named, "-X", f"{key}={value}")
    assert said == "k:größer\n"


@pytest.mark.mission("PST-01")
def test_what_each_partition_remembers_of_a_producer(broker: Broker, semel: Commands, topic: str) -> None:
    semel.done("topics", "create", topic, "--partitions", "2")
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for partition in (0, 0, 0, 1):
            producer.send(topic, b"v", partition=partition).result()
    first, second = semel.json("producers", "describe", topic)
    assert first["producer_id"] == second["producer_id"]
    assert [one["last_sequence"] for one in (first, second)] == [2, 0]
    assert {(one["producer_epoch"], one["transaction_start_offset"]) for one in (first, second)} == {
        (0, None)
    }
    places = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        told = admin.describe_producers(places)
    assert [(one.producer_id, one.last_sequence) for place in places for one in told[place]] == [
        (first["producer_id"], 2),
        (first["producer_id"], 0),
    ]
    header, *rows = semel.done("producers", "describe", topic).splitlines()
    assert (
        header
        == "PARTITION  PRODUCER ID  EPOCH  LAST SEQUENCE  LAST TIMESTAMP            OPEN TRANSACTION FROM"
    )
    assert [row.split()[:4] for row in rows] == [
        [str(partition), str(first["producer_id"]), "0", str(sequence)]
        for partition, sequence in ((0, 2), (1, 0))
    ]


def test_settings_are_shown_changed_and_put_back(semel: Commands, topic: str) -> None:
    semel.done("topics", "create", topic)
    said = semel.done("configs", "set", "retention.ms=1000", "cleanup.policy=compact", "--topic", topic)
    assert said == f"retention.ms=1000 for topic {topic}\ncleanup.policy=compact for topic {topic}\n"
    shown = semel.json("configs", "describe", "--topic", topic)
    own = {one["name"]: one["value"] for one in shown if one["source"] == "topic"}
    assert own == {"retention.ms": "1000", "cleanup.policy": "compact"}
    semel.done("configs", "unset", "retention.ms", "cleanup.policy", "--topic", topic)
    everything = semel.json("configs", "describe", "--topic", topic, "--all")
    assert {one["name"]: one["value"] for one in everything}["retention.ms"] == "604800000"
    assert "log.segment.bytes" in semel.done("configs", "describe", "--broker", "1", "--all")


def test_a_healthy_cluster_is_said_to_be(semel: Commands, topic: str) -> None:
    semel.done("produce", topic, stdin="x\n")
    said = semel.json("doctor")
    text = "\n".join(one["text"] for one in said)
    assert "answers in" in text
    assert "all of them led and in sync" in text
    assert "are free" in text
    assert "No record is newer than this machine's clock." in text
    assert "Partitions remember" in text
    assert [
        one for one in semel.done("doctor").splitlines() if not one.startswith(("  ok  ", "WRONG", " warn "))
    ] == []


def test_records_from_the_future_are_noticed(topic: str) -> None:
    with Broker() as own:
        with Producer(bootstrap_servers=own.bootstrap) as producer:
            producer.send(topic, b"x", timestamp=time.time_ns() // 1_000_000 + 600_000)
        said = Commands(own.bootstrap).done("doctor")
    assert f" warn  Records from the future in {topic}-0 by 600 s" in said or "by 599 s" in said


def test_errors_name_what_was_asked_of_whom_and_a_way_out(semel: Commands, topic: str) -> None:
    missing = (
        f"topic {topic} does not exist at {semel.bootstrap}: see 'semel topics list', "
        f"or make it with 'semel topics create {topic}'"
    )
    assert semel.failed("consume", topic) == missing
    assert semel.failed("topics", "describe", topic) == missing
    assert semel.failed("producers", "describe", topic) == missing
    assert semel.failed("topics", "delete", topic).startswith(
        f"topic {topic} does not exist at {semel.bootstrap}"
    )
    assert "INVALID_TOPIC_EXCEPTION" in semel.failed("topics", "create", "no/good")
    assert "INVALID_CONFIG" in semel.failed("topics", "create", topic, "--config", "retention.mss=1")
    semel.done("produce", topic, stdin="x\n")
    assert semel.failed("consume", topic, "--offset", "7") == (
        f"{topic}-0 at {semel.bootstrap} has no offset 7: it ends at 1; ask for earliest or latest"
    )
    assert "has no '=' between key and value" in semel.failed(
        "produce", topic, "--key-separator", "=", stdin="x\n"
    )
    too_large = semel.failed("produce", topic, stdin="x" * 1_100_000 + "\n")
    assert too_large.startswith(f"a record for {topic} has 1100030 bytes, max.request.size allows ")


def test_nobody_there_is_said_at_once() -> None:
    # Port 1 is privileged and unused on any machine a test runs on.
    said = Commands("127.0.0.1:1").failed("topics", "list")
    assert said == (
        "no broker of 127.0.0.1:1 can be reached (nobody listens at 127.0.0.1:1): "
        "start one with 'semel broker', or name another with bootstrap.servers"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["topics", "create", "t", "--partitions", "many"],
            "'many' is neither a number from 1 on nor 'auto'.",
        ),
        (["topics", "create", "t", "--config", "x"], "'x' is not key=value."),
        (["topics", "create"], "Missing argument 'TOPIC"),
        (
            ["consume", "t", "--offset", "soon"],
            "'soon' is neither earliest, latest, an offset, -N for the last N, @TIME, nor a range as 96:120.",
        ),
        (
            ["consume", "t", "--offset", "@soon"],
            "use milliseconds since 1970 or a time like @2026-01-31T12:00:00Z.",
        ),
        (["configs", "describe"], "Name one of --topic NAME and --broker N."),
        (
            ["configs", "describe", "--topic", "t", "--broker", "1"],
            "Name one of --topic NAME and --broker N.",
        ),
        (["produce", "t", "--acks", "2"], "'2' is not one of 'all', '1', '0'"),
        (["produce", "t", "-X", "acks=1"], "--acks all and -X acks=1 name one thing: keep one."),
        (["produce", "t", "--key-separator", ""], "it must not be empty."),
    ],
)
def test_wrong_usage_is_exit_code_2(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 2
    assert message in result.output


def test_a_wrong_client_setting_names_the_right_one(semel: Commands) -> None:
    said = semel.failed("topics", "list", "-X", "request.timeout=5")
    assert said == "request.timeout is not a setting of a client: did you mean request.timeout.ms?"

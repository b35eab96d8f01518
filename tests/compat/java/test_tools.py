"""Apache Kafka's own tools, unmodified, against Semel.

Method: each tool runs as a user would run it and its output is read. What a tool changed is checked by another tool or
in the files; what it reads was written by a client.
"""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from semel.peers.kafka import KafkaHome
from support.compat.compat_clients import Client
from support.compat.compat_java import JavaShell, ToolRun
from support.compat.compat_kit import BrokerProcess, Sent, ThreadBroker, batches, numbered, stored

pytestmark = pytest.mark.java
TOOLS = "org.apache.kafka.tools."


@pytest.fixture
def at_broker(broker: ThreadBroker) -> list[str]:
    return ["--bootstrap-server", broker.bootstrap]


def test_verifiable_producer(
    kafka_home: KafkaHome, broker: ThreadBroker, at_broker: list[str], topic: str
) -> None:
    """In a JVM of its own: it prints its summary when that ends."""
    output = kafka_home.run(
        TOOLS + "VerifiableProducer", *at_broker, "--topic", topic, "--max-messages", "3000"
    )
    events = [json.loads(line) for line in output.splitlines()]
    names = Counter(event["name"] for event in events)
    assert names["producer_send_success"] == 3000
    assert names["producer_send_error"] == 0
    [summary] = [event for event in events if event["name"] == "tool_data"]
    assert (summary["sent"], summary["acked"]) == (3000, 3000)
    held = [record.value for partition in range(3) for record in stored(broker.directory, topic, partition)]
    assert sorted(held, key=lambda value: int(value or b"-1")) == [b"%d" % n for n in range(3000)]


def test_producer_performance(
    java_shell: JavaShell, broker: ThreadBroker, at_broker: list[str], topic: str
) -> None:
    done = java_shell.tool(
        TOOLS + "ProducerPerformance",
        *("--topic", topic, "--num-records", "20000", "--record-size", "100", "--throughput", "-1"),
        *("--producer-props", f"bootstrap.servers={broker.bootstrap}", "compression.type=lz4"),
    )
    assert done.status == 0, done.output
    assert "20000 records sent" in done.output
    assert sum(len(stored(broker.directory, topic, partition)) for partition in range(3)) == 20000


def test_get_offset_shell_and_delete_records(
    java_shell: JavaShell,
    java_client: Client,
    broker: ThreadBroker,
    at_broker: list[str],
    topic: str,
    tmp_path: Path,
) -> None:
    now_ms = 1_790_000_000_000
    java_client.produce(
        broker.bootstrap, topic, [Sent(0, None, b"%d" % n, timestamp_ms=now_ms + n) for n in range(50)]
    )

    def offsets(*more: str) -> dict[str, str]:
        done = java_shell.tool(TOOLS + "GetOffsetShell", *at_broker, "--topic", topic, *more)
        assert done.status == 0, done.output
        return dict(line.rsplit(":", 1) for line in done.output.splitlines() if line)

    assert offsets() == {f"{topic}:0": "50", f"{topic}:1": "0", f"{topic}:2": "0"}
    assert offsets("--time", "earliest")[f"{topic}:0"] == "0"
    assert offsets("--time", "max-timestamp")[f"{topic}:0"] == "49"
    assert offsets("--time", str(now_ms + 20))[f"{topic}:0"] == "20"
    wanted = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 30}]}
    (tmp_path / "delete.json").write_text(json.dumps(wanted), encoding="utf-8")
    done = java_shell.tool(
        TOOLS + "DeleteRecordsCommand", *at_broker, "--offset-json-file", str(tmp_path / "delete.json")
    )
    assert done.status == 0, done.output
    assert f"partition: {topic}-0\tlow_watermark: 30" in done.output
    assert offsets("--time", "earliest")[f"{topic}:0"] == "30"
    got = java_client.read(broker.bootstrap, topic, 0, 30, 20)
    assert [record.value for record in got] == [b"%d" % n for n in range(30, 50)]


def test_topic_command(java_shell: JavaShell, broker: ThreadBroker, at_broker: list[str], topic: str) -> None:
    def topics(*arguments: str) -> ToolRun:
        return java_shell.tool(TOOLS + "TopicCommand", *at_broker, *arguments)

    made = topics(
        *("--create", "--topic", topic, "--partitions", "2", "--replication-factor", "1"),
        *("--config", "retention.ms=3600000", "--config", "cleanup.policy=compact"),
    )
    assert made.status == 0, made.output
    assert f"Created topic {topic}." in made.output
    again = topics("--create", "--topic", topic)
    assert again.status == 1
    assert f"Topic '{topic}' already exists" in again.output
    assert topic in topics("--list").output.split()
    described = topics("--describe", "--topic", topic).output
    assert re.search(rf"Topic: {topic}\s.*PartitionCount: 2\s+ReplicationFactor: 1", described)
    assert "cleanup.policy=compact" in described
    assert "retention.ms=3600000" in described
    grown = topics("--alter", "--topic", topic, "--partitions", "5")
    assert grown.status == 0, grown.output
    assert "PartitionCount: 5" in topics("--describe", "--topic", topic).output
    shrunk = topics("--alter", "--topic", topic, "--partitions", "3")
    assert shrunk.status == 1
    assert "5" in shrunk.output
    assert "3" in shrunk.output
    wrong = topics("--create", "--topic", "a/b")
    assert wrong.status == 1
    bad = topics("--create", "--topic", topic + "-bad", "--config", "retention.ms=soon")
    assert bad.status == 1
    assert "retention.ms" in bad.output
    gone = topics("--delete", "--topic", topic)
    assert gone.status == 0, gone.output
    assert topic not in topics("--list").output.split()


def test_config_command(
    java_shell: JavaShell, broker: ThreadBroker, at_broker: list[str], topic: str
) -> None:
    def configs(*arguments: str) -> ToolRun:
        return java_shell.tool("kafka.admin.ConfigCommand", *at_broker, *arguments)

    java_shell.tool(TOOLS + "TopicCommand", *at_broker, "--create", "--topic", topic)
    at_topic = ("--entity-type", "topics", "--entity-name", topic)
    changed = configs(
        "--alter", *at_topic, "--add-config", "max.message.bytes=2000000,retention.bytes=1000000"
    )
    assert changed.status == 0, changed.output
    described = configs("--describe", *at_topic).output
    assert "max.message.bytes=2000000" in described
    assert "retention.bytes=1000000" in described
    removed = configs("--alter", *at_topic, "--delete-config", "retention.bytes")
    assert removed.status == 0, removed.output
    described = configs("--describe", *at_topic).output
    assert "retention.bytes" not in described
    everything = configs("--describe", "--all", *at_topic).output
    assert "retention.bytes=-1" in everything
    assert "segment.bytes=1073741824" in everything
    refused = configs("--alter", *at_topic, "--add-config", "max.message.bytes=many")
    assert refused.status == 1
    assert "max.message.bytes" in refused.output
    unknown = configs("--alter", *at_topic, "--add-config", "no.such.config=1")
    assert unknown.status == 1
    at_node = configs("--describe", "--all", "--entity-type", "brokers", "--entity-name", "1").output
    assert "num.partitions=3" in at_node


def test_log_dirs_command(
    java_shell: JavaShell, java_client: Client, broker: ThreadBroker, at_broker: list[str], topic: str
) -> None:
    java_client.produce(broker.bootstrap, topic, numbered(300, 3))
    done = java_shell.tool(TOOLS + "LogDirsCommand", *at_broker, "--describe", "--topic-list", topic)
    assert done.status == 0, done.output
    [line] = [line for line in done.output.splitlines() if line.startswith("{")]
    [node] = json.loads(line)["brokers"]
    [directory] = node["logDirs"]
    assert directory["logDir"] == str(broker.directory)
    assert directory["error"] is None
    sizes = {one["partition"]: one["size"] for one in directory["partitions"]}
    for partition in range(3):
        files = (broker.directory / f"{topic}-{partition}").glob("*.log")
        assert sizes[f"{topic}-{partition}"] == sum(path.stat().st_size for path in files)


def test_dump_log_segments(
    java_shell: JavaShell, java_client: Client, broker: ThreadBroker, topic: str
) -> None:
    java_client.produce(broker.bootstrap, topic, numbered(300), codec="zstd", batch_bytes=2000)
    [path] = (broker.directory / f"{topic}-0").glob("*.log")
    done = java_shell.tool(TOOLS + "DumpLogSegments", "--files", str(path), "--deep-iteration")
    assert done.status == 0, done.output
    held = list(batches(broker.directory, topic))
    shown = re.findall(
        r"baseOffset: (\d+) lastOffset: (\d+) count: (\d+) baseSequence: (\d+) .*? producerId: (\d+) "
        r"producerEpoch: 0 .*compresscodec: zstd .*isvalid: true",
        done.output,
    )
    assert [tuple(map(int, one)) for one in shown] == [
        (h.base_offset, h.last_offset, len(records), h.base_sequence, h.producer_id) for h, records in held
    ]


def test_cluster_id_and_api_versions(
    java_shell: JavaShell, broker: ThreadBroker, at_broker: list[str]
) -> None:
    assert broker.broker is not None
    done = java_shell.tool(TOOLS + "ClusterTool", "cluster-id", *at_broker)
    assert done.status == 0, done.output
    assert f"Cluster ID: {broker.broker.parts.administration.cluster_id}" in done.output
    done = java_shell.tool(TOOLS + "BrokerApiVersionsCommand", *at_broker)
    assert done.status == 0, done.output
    assert re.search(r"Produce\(0\): 0 to 13 \[usable: 13\]", done.output), done.output


def test_dump_log_segments_reads_what_a_killed_broker_left(
    java_shell: JavaShell, java_client: Client, tmp_path: Path
) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        java_client.produce(broker.bootstrap, "left", numbered(100))
        broker.kill()
    [path] = (tmp_path / "data" / "left-0").glob("*.log")
    done = java_shell.tool(TOOLS + "DumpLogSegments", "--files", str(path))
    assert done.status == 0, done.output
    assert "isvalid: true" in done.output
    assert "isvalid: false" not in done.output

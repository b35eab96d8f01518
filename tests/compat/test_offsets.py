"""Committed offsets are one thing for all clients: what one commits, every other one reads, and goes on from there.

Method: consumers without membership (assigned by hand) of each client commit; every client then reads what is committed,
Kafka's own tool among them, before and after the broker starts again.
"""

import asyncio
import contextlib
import json
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import aiokafka
import confluent_kafka
import kafka
import pytest

import semel
from semel.core.records.build import Record
from support.compat.compat_clients import ConfluentKafka as ConfluentDriver
from support.compat.compat_java import JavaShell
from support.compat.compat_kit import BrokerProcess, Sent, ThreadBroker, batches, stored

PARTITIONS = 3
TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"


class Committer(ABC):
    """A client that commits and reads commits, without joining the group."""

    name: ClassVar[str]

    @abstractmethod
    def commit(self, bootstrap: str, group: str, topic: str, offsets: dict[int, int]) -> None: ...

    @abstractmethod
    def committed(self, bootstrap: str, group: str, topic: str) -> dict[int, int]:
        """Of all partitions; -1 where there is none."""

    @abstractmethod
    def go_on(self, bootstrap: str, group: str, topic: str, partition: int) -> int:
        """Begin where the group left off; the offset of the first record that comes."""


class Confluent(Committer):
    name = "confluent-kafka"

    @contextlib.contextmanager
    def consumer(self, bootstrap: str, group: str) -> Iterator[Any]:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "log_level": 0,
            }
        )
        try:
            yield consumer
        finally:
            consumer.close()

    def commit(self, bootstrap: str, group: str, topic: str, offsets: dict[int, int]) -> None:
        with self.consumer(bootstrap, group) as consumer:
            wanted = [confluent_kafka.TopicPartition(topic, *place) for place in offsets.items()]
            for result in consumer.commit(offsets=wanted, asynchronous=False):
                assert result.error is None

    def committed(self, bootstrap: str, group: str, topic: str) -> dict[int, int]:
        with self.consumer(bootstrap, group) as consumer:
            places = [confluent_kafka.TopicPartition(topic, n) for n in range(PARTITIONS)]
            return {one.partition: max(one.offset, -1) for one in consumer.committed(places, timeout=30)}

    def go_on(self, bootstrap: str, group: str, topic: str, partition: int) -> int:
        with self.consumer(bootstrap, group) as consumer:
            consumer.assign([confluent_kafka.TopicPartition(topic, partition)])
            message = consumer.poll(30)
            assert message is not None
            assert message.error() is None, message.error()
            offset: int = message.offset()
            return offset


class KafkaPython(Committer):
    name = "kafka-python"

    @contextlib.contextmanager
    def _consumer(self, bootstrap: str, group: str) -> Iterator[Any]:
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False, auto_offset_reset="none"
        )
        try:
            yield consumer
        finally:
            consumer.close(autocommit=False)

    def commit(self, bootstrap: str, group: str, topic: str, offsets: dict[int, int]) -> None:
        with self._consumer(bootstrap, group) as consumer:
            places = {
                kafka.TopicPartition(topic, partition): kafka.OffsetAndMetadata(offset, "by hand", -1)
                for partition, offset in offsets.items()
            }
            consumer.assign(list(places))
            consumer.commit(places)

    def committed(self, bootstrap: str, group: str, topic: str) -> dict[int, int]:
        with self._consumer(bootstrap, group) as consumer:
            found = {n: consumer.committed(kafka.TopicPartition(topic, n)) for n in range(PARTITIONS)}
            return {n: -1 if offset is None else offset for n, offset in found.items()}

    def go_on(self, bootstrap: str, group: str, topic: str, partition: int) -> int:
        with self._consumer(bootstrap, group) as consumer:
            consumer.assign([kafka.TopicPartition(topic, partition)])
            offset: int = next(iter(consumer)).offset
            return offset


class Aiokafka(Committer):
    name = "aiokafka"

    @contextlib.asynccontextmanager
    async def _consumer(self, bootstrap: str, group: str) -> Any:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False, auto_offset_reset="none"
        )
        await consumer.start()
        try:
            yield consumer
        finally:
            await consumer.stop()

    def commit(self, bootstrap: str, group: str, topic: str, offsets: dict[int, int]) -> None:
        async def run() -> None:
            async with self._consumer(bootstrap, group) as consumer:
                places = {aiokafka.TopicPartition(topic, n): (offset, "") for n, offset in offsets.items()}
                consumer.assign(list(places))
                await consumer.commit(places)

        asyncio.run(run())

    def committed(self, bootstrap: str, group: str, topic: str) -> dict[int, int]:
        async def run() -> dict[int, int]:
            async with self._consumer(bootstrap, group) as consumer:
                places = {n: aiokafka.TopicPartition(topic, n) for n in range(PARTITIONS)}
                consumer.assign(list(places.values()))
                found = {n: await consumer.committed(place) for n, place in places.items()}
                return {n: -1 if offset is None else offset for n, offset in found.items()}

        return asyncio.run(run())

    def go_on(self, bootstrap: str, group: str, topic: str, partition: int) -> int:
        async def run() -> int:
            async with self._consumer(bootstrap, group) as consumer:
                consumer.assign([aiokafka.TopicPartition(topic, partition)])
                offset: int = (await asyncio.wait_for(consumer.getone(), 30)).offset
                return offset

        return asyncio.run(run())


class Semel(Committer):
    name = "semel"

    def _consumer(self, bootstrap: str, group: str) -> semel.Consumer:
        return semel.Consumer(
            bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False, auto_offset_reset="none"
        )

    def commit(self, bootstrap: str, group: str, topic: str, offsets: dict[int, int]) -> None:
        with self._consumer(bootstrap, group) as consumer:
            consumer.commit({(topic, partition): offset for partition, offset in offsets.items()})

    def committed(self, bootstrap: str, group: str, topic: str) -> dict[int, int]:
        with self._consumer(bootstrap, group) as consumer:
            found = consumer.committed([(topic, n) for n in range(PARTITIONS)])
            return {place.partition: -1 if one is None else one.offset for place, one in found.items()}

    def go_on(self, bootstrap: str, group: str, topic: str, partition: int) -> int:
        with self._consumer(bootstrap, group) as consumer:
            consumer.assign([(topic, partition)])
            offset: int = next(iter(consumer)).offset
            return offset


COMMITTERS = (Confluent(), KafkaPython(), Aiokafka(), Semel())
each = pytest.mark.parametrize("client", COMMITTERS, ids=lambda client: client.name)


def fill(broker: ThreadBroker | BrokerProcess, topic: str) -> None:
    ConfluentDriver().produce(broker.bootstrap, topic, [Sent(n % PARTITIONS, b"k", b"v") for n in range(60)])


@pytest.mark.mission("OFF-02")
@each
def test_every_client_reads_what_one_commits_and_goes_on_from_there(
    broker: ThreadBroker, topic: str, client: Committer
) -> None:
    fill(broker, topic)
    group = f"group of {client.name} for {topic}"
    client.commit(broker.bootstrap, group, topic, {0: 5, 2: 7})
    client.commit(broker.bootstrap, group, topic, {0: 11})
    for other in COMMITTERS:
        assert other.committed(broker.bootstrap, group, topic) == {0: 11, 1: -1, 2: 7}
        assert other.go_on(broker.bootstrap, group, topic, 0) == 11


@pytest.mark.java
@pytest.mark.mission("OFF-02")
def test_kafkas_own_tool_reads_resets_and_deletes_offsets(
    broker: ThreadBroker, topic: str, java_shell: JavaShell
) -> None:
    fill(broker, topic)
    group = f"group-{topic}"
    at = ("--bootstrap-server", broker.bootstrap, "--group", group)
    client = COMMITTERS[0]
    client.commit(broker.bootstrap, group, topic, {0: 5, 2: 7})
    described = java_shell.tool(TOOL, *at, "--describe").output
    assert re.findall(rf"{group} +{topic} +(\d) +(\d+) +(\d+) +(\d+)", described) == [
        ("0", "5", "20", "15"),
        ("2", "7", "20", "13"),
    ]
    for how, expected in (
        (("--to-earliest",), {0: 0, 1: 0, 2: 0}),
        (("--shift-by", "3"), {0: 3, 1: 3, 2: 3}),
        (("--to-latest",), {0: 20, 1: 20, 2: 20}),
    ):
        run = java_shell.tool(TOOL, *at, "--reset-offsets", *how, "--topic", topic, "--execute")
        assert run.status == 0, run.output
        assert client.committed(broker.bootstrap, group, topic) == expected
    run = java_shell.tool(TOOL, *at, "--delete-offsets", "--topic", f"{topic}:1")
    assert run.status == 0, run.output
    assert client.committed(broker.bootstrap, group, topic) == {0: 20, 1: -1, 2: 20}
    run = java_shell.tool(TOOL, *at, "--delete")
    assert "was successful" in run.output
    assert client.committed(broker.bootstrap, group, topic) == {0: -1, 1: -1, 2: -1}
    assert "GroupIdNotFoundException" in java_shell.tool(TOOL, *at, "--describe").output


@pytest.mark.java
@pytest.mark.mission("OFF-03", "R-17")
def test_kafkas_formatter_prints_our_rows_and_compaction_leaves_one_of_each_key(
    tmp_path: Path, java_shell: JavaShell
) -> None:
    """Long notes fill segments; the cleaner then leaves the last commit of each partition in what is closed."""
    settings = {
        "offsets_topic_num_partitions": "1",
        "offsets_topic_segment_bytes": str(1 << 20),
        "log_cleaner_backoff_ms": "50",
        "log_cleaner_min_cleanable_ratio": "0.01",
    }
    with ThreadBroker(tmp_path / "data", num_partitions=str(PARTITIONS), **settings) as broker:
        fill(broker, "orders")
        COMMITTERS[1].commit(broker.bootstrap, "group", "orders", {0: 5})
        with Confluent().consumer(broker.bootstrap, "group") as consumer:
            for offset in range(300):
                consumer.commit(
                    offsets=[
                        confluent_kafka.TopicPartition("orders", n, offset + n, f"{offset:04}" * 1000)
                        for n in range(PARTITIONS)
                    ],
                    asynchronous=False,
                )
        rows = wait_until_cleaned(broker, java_shell)
    closed, active = rows
    assert {(row["key"]["type"], row["value"]["version"]) for row in closed + active} == {(1, 4)}
    keys = [
        (row["key"]["data"]["group"], row["key"]["data"]["topic"], row["key"]["data"]["partition"])
        for row in closed
    ]
    assert sorted(keys) == [("group", "orders", n) for n in range(PARTITIONS)]
    last = {row["key"]["data"]["partition"]: row["value"]["data"] for row in closed + active}
    notes = {
        n: value["metadata"].rstrip("\0") for n, value in last.items()
    }  # confluent-kafka sends C's zero along.
    assert notes == dict.fromkeys(range(PARTITIONS), "0299" * 1000)
    assert {n: value["offset"] for n, value in last.items()} == {n: 299 + n for n in range(PARTITIONS)}


def wait_until_cleaned(broker: ThreadBroker, java_shell: JavaShell) -> tuple[list[Any], list[Any]]:
    """The rows of closed segments, each key once, and those of the active one, as Kafka's formatter prints them."""
    app = broker.broker
    assert app is not None
    place = app.parts.partitions.get("__consumer_offsets", 0)
    assert place is not None
    deadline = time.monotonic() + 60
    while sum(len(one) for one in closed_records(broker, place.log.active.base_offset)) > PARTITIONS:
        assert time.monotonic() < deadline, "the cleaner has not cleaned"
        time.sleep(0.05)
    kept = stored(broker.directory, "__consumer_offsets")
    run = java_shell.tool(
        CONSOLE,
        *("--bootstrap-server", broker.bootstrap, "--topic", "__consumer_offsets"),
        *("--partition", "0", "--offset", "earliest"),
        *("--max-messages", str(len(kept)), "--timeout-ms", "30000"),
        *("--formatter", "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"),
    )
    read = json.JSONDecoder().raw_decode
    rows = [read(run.output, found.start())[0] for found in re.finditer(r'\{"key":', run.output)]
    assert len(rows) == len(kept), run.output
    return rows[:PARTITIONS], rows[PARTITIONS:]


def closed_records(broker: ThreadBroker, active_from: int) -> list[list[Record]]:
    found = batches(broker.directory, "__consumer_offsets")
    return [records for header, records in found if header.base_offset < active_from]


def test_commits_are_there_after_a_kill(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", num_partitions=str(PARTITIONS)) as broker:
        fill(broker, "orders")
        for n, client in enumerate(COMMITTERS):
            client.commit(broker.bootstrap, f"group-{n}", "orders", {0: n, 1: n + 10})
        broker.kill()
        broker.start()
        for n in range(len(COMMITTERS)):
            assert COMMITTERS[n].committed(broker.bootstrap, f"group-{n}", "orders") == {
                0: n,
                1: n + 10,
                2: -1,
            }

"""KIP-848 groups with the clients people have: librdkafka and Apache Kafka's Java consumer, `group.protocol=consumer`.

Method: members write down, in one order, what they were given and what was taken from them: no partition may be in two
hands at any moment of that log. Whatever is produced must be read, through members that come, go and die, and a broker
that is killed; what was committed is not read again.
"""

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from semel.peers.kafka import KafkaHome
from support.compat.compat_kit import BrokerProcess

PARTITIONS: Final = 6
PATIENCE_SECONDS: Final = 60
QUICK: Final = {
    "group_consumer_heartbeat_interval_ms": "200",
    "group_consumer_min_heartbeat_interval_ms": "100",
    "group_consumer_session_timeout_ms": "3000",
    "group_consumer_min_session_timeout_ms": "1000",
    "group_consumer_assignment_interval_ms": "0",
    "group_initial_rebalance_delay_ms": "0",
}
Place = tuple[str, int]

_DOOMED: Final = """
import sys, confluent_kafka
consumer = confluent_kafka.Consumer({"bootstrap.servers": sys.argv[1], "group.id": sys.argv[2],
    "group.protocol": "consumer", "auto.offset.reset": "earliest", "log_level": 0})
consumer.subscribe([sys.argv[3]], on_assign=lambda _, parts: print("assigned", len(parts), flush=True))
while True:
    consumer.poll(0.1)
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "broker", **QUICK) as running:
        yield running


class Owners:
    """Who has what, as members are told; and what they read."""

    def __init__(self) -> None:
        self.of: dict[Place, str] = {}
        self.read: Counter[tuple[str, int, int]] = Counter()

    def given(self, name: str, parts: list[Any]) -> None:
        for part in parts:
            place = (part.topic, part.partition)
            assert place not in self.of, f"{place} is given to {name} and still with {self.of[place]}"
            self.of[place] = name

    def taken(self, name: str, parts: list[Any]) -> None:
        for part in parts:
            assert self.of.pop((part.topic, part.partition)) == name


class Rd:
    """A member of librdkafka."""

    def __init__(self, bootstrap: str, group_id: str, topics: list[str], owners: Owners, name: str) -> None:
        self.name = name
        self._owners = owners
        self.consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group_id,
                "group.protocol": "consumer",
                "client.id": name,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        self.consumer.subscribe(
            topics,
            on_assign=lambda _, parts: owners.given(name, parts),
            on_revoke=lambda _, parts: owners.taken(name, parts),
            on_lost=lambda _, parts: owners.taken(name, parts),
        )

    def poll(self) -> None:
        """Read what is there, and commit it."""
        message = self.consumer.poll(0.05)
        if message is not None and message.error() is None:
            self._owners.read[message.topic() or "", message.partition() or 0, message.offset() or 0] += 1
            self.consumer.commit(message, asynchronous=True)

    def close(self) -> None:
        self.consumer.close()


def _produce(bootstrap: str, topic: str, count: int, partitions: int = PARTITIONS) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=number % partitions)
    assert producer.flush(PATIENCE_SECONDS) == 0


def _create(bootstrap: str, topic: str, partitions: int = PARTITIONS) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for made in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        made.result(PATIENCE_SECONDS)


def _poll_until(members: list[Rd], good: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not good():
        assert time.monotonic() < deadline, what
        for member in members:
            member.poll()


def test_members_come_go_and_die_and_so_does_the_broker(broker: BrokerProcess) -> None:
    _create(broker.bootstrap, "t")
    _produce(broker.bootstrap, "t", 60)
    owners = Owners()
    one = Rd(broker.bootstrap, "g", ["t"], owners, "one")
    _poll_until([one], lambda: len(owners.read) == 60, "one reads everything")

    two = Rd(broker.bootstrap, "g", ["t"], owners, "two")
    _poll_until([one, two], lambda: Counter(owners.of.values()) == {"one": 3, "two": 3}, "they share")

    doomed = subprocess.Popen(
        [sys.executable, "-c", _DOOMED, broker.bootstrap, "g", "t"], stdout=subprocess.PIPE, text=True
    )
    try:
        _poll_until([one, two], lambda: len(owners.of) == 4, "a third one takes its part")
    finally:
        doomed.kill()
        doomed.communicate()
    _poll_until([one, two], lambda: len(owners.of) == 6, "the dead one's part goes back")

    broker.kill()
    broker.start()
    _produce(broker.bootstrap, "t", 60)
    _poll_until([one, two], lambda: len(owners.read) == 120, "they read on after the broker was killed")
    two.close()
    _poll_until([one], lambda: Counter(owners.of.values()) == {"one": 6}, "one takes over who left")
    one.close()

    last = Rd(broker.bootstrap, "g", ["t"], owners, "last")
    _produce(broker.bootstrap, "t", 6)
    _poll_until([last], lambda: len(owners.read) == 126, "the next one goes on where they stopped")
    last.close()
    again = sum(count - 1 for count in owners.read.values())
    assert again < 60, f"{again} records were read again, though all was committed"


def test_topics_come_under_an_expression(broker: BrokerProcess) -> None:
    _create(broker.bootstrap, "orders-1", 2)
    _create(broker.bootstrap, "other", 2)
    owners = Owners()
    one = Rd(broker.bootstrap, "by-regex", ["^orders-[0-9]+"], owners, "one")
    _poll_until(
        [one], lambda: sorted(owners.of) == [("orders-1", 0), ("orders-1", 1)], "the topics there are"
    )
    _create(broker.bootstrap, "orders-2", 1)
    _produce(broker.bootstrap, "orders-2", 5, partitions=1)
    _poll_until([one], lambda: len(owners.read) == 5, "a topic that came later")
    assert sorted({topic for topic, _ in owners.of}) == ["orders-1", "orders-2"]
    one.close()


@contextmanager
def _java_member(
    home: KafkaHome, bootstrap: str, group_id: str, topic: str, protocol: str
) -> Iterator["JavaMember"]:
    command = home.java(
        "org.apache.kafka.tools.VerifiableConsumer",
        *("--bootstrap-server", bootstrap, "--group-id", group_id, "--topic", topic),
        *("--group-protocol", protocol, "--reset-policy", "earliest"),
        *(("--session-timeout", "6000") if protocol == "classic" else ()),
    )
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield JavaMember(process)
    finally:
        process.kill()
        process.communicate()


class JavaMember:
    """Kafka's VerifiableConsumer: it says, a line each, what it was given, what was taken, what it read."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def until(self, good: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        """The first event that is good."""
        assert self.process.stdout is not None
        seen = []
        for line in self.process.stdout:
            event: dict[str, Any] = json.loads(line)
            seen.append(event)
            if good(event):
                return event
        raise AssertionError(f"{what}: {seen[-5:]}")

    def stop(self) -> None:
        """Let it leave."""
        self.process.send_signal(signal.SIGTERM)


@pytest.mark.java
@pytest.mark.mission("R-45")
@pytest.mark.timeout(120)
def test_java_and_librdkafka_share_a_group(broker: BrokerProcess, kafka_home: KafkaHome) -> None:
    _create(broker.bootstrap, "t")
    _produce(broker.bootstrap, "t", 30)
    owners = Owners()
    with _java_member(kafka_home, broker.bootstrap, "g", "t", "consumer") as java:
        java.until(_assigned(6), "alone it gets everything")
        java.until(lambda event: event["name"] == "offsets_committed" and event["success"], "it commits")
        one = Rd(broker.bootstrap, "g", ["t"], owners, "one")
        _poll_until([one], lambda: len(owners.of) == 3, "a member of librdkafka gets its half")
        java.until(
            lambda event: event["name"] == "partitions_revoked", "which was taken from the Java member"
        )
        java.stop()
        _poll_until([one], lambda: len(owners.of) == 6, "and the other half when that one leaves")
        one.close()


@pytest.mark.java
@pytest.mark.timeout(120)
def test_a_classic_java_member_stays_while_the_group_moves_on(
    broker: BrokerProcess, kafka_home: KafkaHome
) -> None:
    _create(broker.bootstrap, "t")
    owners = Owners()
    with _java_member(kafka_home, broker.bootstrap, "g", "t", "classic") as java:
        java.until(_assigned(6), "a classic group of one")
        one = Rd(broker.bootstrap, "g", ["t"], owners, "one")
        _poll_until([one], lambda: len(owners.of) == 3, "KIP-848 joins, and the classic member gives up half")
        _produce(broker.bootstrap, "t", 30)
        _poll_until([one], lambda: len(owners.read) == 15, "both read")
        java.until(lambda event: event["name"] == "records_consumed", "both read")
        one.close()
        java.until(_assigned(6), "and the group is classic again")


def _assigned(count: int) -> Callable[[dict[str, Any]], bool]:
    return lambda event: event["name"] == "partitions_assigned" and len(event["partitions"]) == count

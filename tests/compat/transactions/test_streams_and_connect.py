"""Exactly once as applications see it: Kafka Streams counts words, Kafka Connect copies a source, and both are killed with kill -9.

Method: the broker, an instance of Streams and a worker of Connect are killed while they work. Then each word has each of its
counts once and in order, and each number of the source is there once and in order, for readers of committed records. The Streams
topology has a repartition topic, a changelog and `exactly_once_v2`; Connect's worker is a distributed one with
`exactly.once.source.support=enabled`, so that offsets are written in the transaction of their records and zombies are fenced.
"""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from semel.peers.kafka import KafkaHome
from support.compat.compat_kit import BrokerProcess, eventually
from support.peers.java_programs import JavaProgram
from support.transactions.transaction_clients import DEADLINE_SECONDS, read

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

PARTITIONS = 2
NUMBERS = 1500
NUMBERS_BEFORE_A_KILL = 300
NUMBERS_WITHOUT_END = 1_000_000_000
"""So that there is work to do whenever something is killed."""
PATIENCE_SECONDS = 90
NOT_CONNECTED = confluent_kafka.KafkaError._ALL_BROKERS_DOWN


@contextmanager
def running_broker(directory: Path) -> Iterator[BrokerProcess]:
    """A broker whose groups begin at once and may notice a dead member soon."""
    with BrokerProcess(
        directory, group_initial_rebalance_delay_ms="0", group_min_session_timeout_ms="500"
    ) as broker:
        yield broker


def create(bootstrap: str, **topics: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for made in admin.create_topics([NewTopic(name, count, 1) for name, count in topics.items()]).values():
        made.result(DEADLINE_SECONDS)


class Feeder:
    """Writes lines, each once, until it is told to stop."""

    def __init__(self, bootstrap: str) -> None:
        self.words: Counter[str] = Counter()
        self._producer = confluent_kafka.Producer(
            {
                "log_level": 0,
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "reconnect.backoff.max.ms": 100,
            }
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feeder")

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(0.005):
            line = [f"a{number % 7}", f"b{number % 3}", f"c{number % 11}"]
            self._producer.produce("lines", value=" ".join(line).encode(), partition=number % PARTITIONS)
            self._producer.poll(0)
            self.words.update(line)
            number += 1

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join()

    def stop(self) -> None:
        """From now on `words` is what was written."""
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(DEADLINE_SECONDS) == 0


class Reader:
    """Reads what is committed while all the others die."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, log: Path) -> None:
        self.counts = [0] * partitions
        self._log = log
        self._consumer = confluent_kafka.Consumer(
            {
                "log_level": 0,
                "bootstrap.servers": bootstrap,
                "group.id": "reader",
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
                "enable.auto.commit": False,
                "reconnect.backoff.max.ms": 100,
                "fetch.error.backoff.ms": 50,
            }
        )
        self._consumer.assign([confluent_kafka.TopicPartition(topic, one, 0) for one in range(partitions)])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._consumer.close()

    def wait_until(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not done():
            for message in self._consumer.consume(1000, timeout=0.1):
                error = message.error()
                assert error is None or error.retriable() or error.code() == NOT_CONNECTED, error
                if error is None:
                    self.counts[message.partition()] += 1
            if time.monotonic() > deadline:
                said = self._log.read_text(errors="replace")[-3000:]
                raise AssertionError(f"no more than {self.counts} records; the application said:\n{said}")

    def wait_for_more(self) -> None:
        """Until all partitions have moved on: all tasks work."""
        before = list(self.counts)
        self.wait_until(lambda: all(now > then for now, then in zip(self.counts, before, strict=True)))

    def wait_for(self, count: int) -> None:
        self.wait_until(lambda: sum(self.counts) >= count)


def wait_for_an_open_transaction(bootstrap: str, topic: str) -> None:
    """Records are written and wait for their commit: the moment to kill somebody."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    place = confluent_kafka.TopicPartition(topic, 0)

    def end(isolation: confluent_kafka.IsolationLevel) -> int:
        found = admin.list_offsets({place: OffsetSpec.latest()}, isolation_level=isolation)
        return int(found[place].result(DEADLINE_SECONDS).offset)

    eventually(
        lambda: (
            end(confluent_kafka.IsolationLevel.READ_COMMITTED)
            < end(confluent_kafka.IsolationLevel.READ_UNCOMMITTED)
        ),
        f"an open transaction with records in {topic}",
        PATIENCE_SECONDS,
    )


def everything(bootstrap: str, topic: str) -> list[bytes]:
    return [
        value
        for partition in range(PARTITIONS)
        for value in read(bootstrap, topic, partition, committed=True)
    ]


def test_streams_counts_each_word_once(kafka_home: KafkaHome, tmp_path: Path) -> None:
    program = JavaProgram(kafka_home, "StreamsCounter", tmp_path / "classes")
    log = tmp_path / "streams.log"
    with running_broker(tmp_path / "data") as broker:
        bootstrap = broker.bootstrap
        create(bootstrap, lines=PARTITIONS, counts=PARTITIONS)
        with Reader(bootstrap, "counts", PARTITIONS, log) as reader, Feeder(bootstrap) as feeder:
            with program.started(log, bootstrap, str(tmp_path / "first")):
                reader.wait_for_more()
                wait_for_an_open_transaction(bootstrap, "counts")
                broker.kill()
                broker.start()
                reader.wait_for_more()
                wait_for_an_open_transaction(bootstrap, "counts")
            with program.started(log, bootstrap, str(tmp_path / "second")):
                reader.wait_for_more()
                feeder.stop()
                expected = sum(feeder.words.values())
                reader.wait_for(expected)
        assert sum(reader.counts) == expected
        found: dict[str, list[int]] = defaultdict(list)
        for value in everything(bootstrap, "counts"):
            word, _space, count = value.decode().partition(" ")
            found[word].append(int(count))
        assert found == {word: list(range(1, count + 1)) for word, count in feeder.words.items()}
        kept = Counter(int.from_bytes(value) for value in everything(bootstrap, "counter-counts-changelog"))
        assert kept == Counter(count for counts in found.values() for count in counts)


def test_connect_copies_each_number_once(kafka_home: KafkaHome, tmp_path: Path) -> None:
    program = JavaProgram(
        kafka_home,
        "ConnectCounter",
        tmp_path / "classes",
        {"org.apache.kafka.connect.source.SourceConnector": "ConnectCounter$Counter"},
    )
    log = tmp_path / "connect.log"
    with running_broker(tmp_path / "data") as broker:
        create(broker.bootstrap, numbers=1)
        arguments = (broker.bootstrap, "numbers", str(NUMBERS_WITHOUT_END))
        with Reader(broker.bootstrap, "numbers", 1, log) as reader:
            with program.started(log, *arguments):
                reader.wait_for(NUMBERS_BEFORE_A_KILL)
                wait_for_an_open_transaction(broker.bootstrap, "numbers")
            with program.started(log, *arguments):
                reader.wait_for(2 * NUMBERS_BEFORE_A_KILL)
                wait_for_an_open_transaction(broker.bootstrap, "numbers")
                broker.kill()
                broker.start()
                reader.wait_for(NUMBERS)
        found = read(broker.bootstrap, "numbers", 0, committed=True)
        assert len(found) >= NUMBERS
        assert found == [b"%d" % number for number in range(len(found))]

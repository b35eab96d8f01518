"""Our consumer and our producer in a chain: each input record has one output, however often the worker dies.

Method: a worker is ended at random points of its transactions, without a word to the coordinator, and a new one with the same
transactional id goes on; other clients read what is committed. On Semel and on Apache Kafka.
"""

import random
import time
import uuid
from collections.abc import Iterator

import pytest

import semel
from support.compat.compat_kit import ThreadBroker, eventually, numbered
from support.transactions.transaction_clients import read

INPUTS = 200
STEPS = ("begun", "sent", "offsets", "committed")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadBroker]:
    with ThreadBroker(
        tmp_path_factory.mktemp("data"),
        num_partitions="2",
        group_initial_rebalance_delay_ms="0",
        group_consumer_min_heartbeat_interval_ms="100",
        group_consumer_heartbeat_interval_ms="100",
    ) as running:
        yield running


class DiedError(Exception):
    """The worker is no more."""


class Worker:
    """One instance of the application."""

    def __init__(self, bootstrap: str, name: str, protocol: str, dice: random.Random) -> None:
        self._name = name
        self._dice = dice
        self._consumer = semel.Consumer(
            bootstrap_servers=bootstrap,
            group_id=f"group-{name}",
            group_protocol=protocol,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            max_poll_records=20,
        )
        self._producer = semel.Producer(
            bootstrap_servers=bootstrap, transactional_id=f"id-{name}", linger_ms=0
        )

    def run(self) -> None:
        """Work until the positions of all inputs are stored; raises `DiedError` where chance says so."""
        self._producer.init_transactions()
        self._consumer.subscribe([f"in-{self._name}"])
        deadline = time.monotonic() + 60
        while not self._is_done():
            assert time.monotonic() < deadline, "nothing comes any more"
            records = list(self._consumer.poll(500))
            if records:
                self._transform(records)

    def _is_done(self) -> bool:
        places = [semel.TopicPartition(f"in-{self._name}", index) for index in range(2)]
        stored = self._consumer.committed(places)
        return sum(one.offset for one in stored.values() if one is not None) == INPUTS

    def _transform(self, records: list[semel.ConsumerRecord]) -> None:
        death = self._dice.choice([*STEPS, None, None, None, None])
        self._producer.begin_transaction()
        self._die_if(death, "begun")
        for one in records:
            self._producer.send(f"out-{self._name}", one.value, partition=one.partition)
        if death == "sent":
            self._producer.flush()
        self._die_if(death, "sent")
        after = {(one.topic, one.partition): one.offset + 1 for one in records}
        self._producer.send_offsets_to_transaction(after, self._consumer.group_metadata())
        self._die_if(death, "offsets")
        self._producer.commit_transaction()
        self._die_if(death, "committed")

    def _die_if(self, death: str | None, step: str) -> None:
        if death == step:
            raise DiedError(step)

    def end(self) -> None:
        """The producer goes without ending its transaction; the group hears of the consumer's end, or this takes long."""
        self._producer._abandon()
        self._consumer.close()


@pytest.mark.mission("TXN-03")
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_every_input_has_one_output_however_often_the_worker_dies(
    broker: ThreadBroker, protocol: str
) -> None:
    tell(broker.bootstrap, protocol)


@pytest.mark.java
@pytest.mark.mission("TXN-03")
def test_the_same_on_apache_kafka(kafka_bootstrap: str) -> None:
    tell(kafka_bootstrap, "classic")


def tell(bootstrap: str, protocol: str) -> None:
    inputs, name = numbered(INPUTS, 2), f"{protocol}-{uuid.uuid4()}"
    with semel.Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([semel.NewTopic(f"{which}-{name}", 2) for which in ("in", "out")])
    with semel.Producer(bootstrap_servers=bootstrap) as producer:
        for one in inputs:
            producer.send(f"in-{name}", one.value, partition=one.partition)
    dice, deaths, is_done = random.Random(5), list[str](), False
    while not is_done:
        worker = Worker(bootstrap, name, protocol, dice)
        try:
            worker.run()
            is_done = True
        except DiedError as died:
            deaths.append(str(died))
        finally:
            worker.end()
    assert len(deaths) > 3
    for partition in range(2):
        wanted = [one.value for one in inputs if one.partition == partition]
        eventually(
            lambda at=partition, all_of=wanted: read(bootstrap, f"out-{name}", at, committed=True) == all_of,  # type: ignore[misc]  # defaults bind them
            "each input once, in order",
        )
    written = sum(len(read(bootstrap, f"out-{name}", at, committed=False)) for at in range(2))
    assert written > INPUTS, "work was done again, and is not seen"

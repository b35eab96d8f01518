"""Counting once works with any broker that speaks Kafka's protocol: Semel, Apache Kafka 4.3.1 and 3.9.2.

Method: the same short stories with the real clients on each: positions in a database, a relay that is replaced while its
transaction is open, and a group whose members work with a pool while others come and go.
"""

import threading
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from semel import Admin, Broker, Consumer, NewTopic, Producer
from semel.errors import ConfigError
from semel.exceptions import KafkaException
from semel.once import Outbox, exactly_once_sink
from semel.types import TopicPartition

rows = sa.Table("counted", sa.MetaData(), sa.Column("value", sa.LargeBinary))


def new_topic(bootstrap: str, records: int, partitions: int = 1) -> str:
    topic = f"once-{uuid.uuid4()}"
    with Admin({"bootstrap.servers": bootstrap}) as admin:
        admin.create_topics([NewTopic(topic, partitions)])
    with Producer({"bootstrap.servers": bootstrap}) as producer:
        for n in range(records):
            producer.send(topic, b"%d" % n, b"key-%d" % (n % 7), n % partitions)
    return topic


def test_positions_with_results(any_bootstrap: str, tmp_path: Path) -> None:
    topic = new_topic(any_bootstrap, 20)
    sink = exactly_once_sink(f"sqlite:///{tmp_path}/rows.db", name="rows")
    rows.create(sink.engine)
    lives = 0
    while sum(sink.positions().values()) < 20:
        lives += 1
        settings = {"bootstrap.servers": any_bootstrap, "group.id": f"{topic}-{lives}", "max.poll.records": 7}
        with Consumer(settings, auto_offset_reset="none", enable_auto_commit=False) as consumer:
            sink.assign(consumer, [(topic, 0)])
            batch = next(sink.batches(consumer))
            with batch as db:
                db.execute(sa.insert(rows), [{"value": record.value} for record in batch])
    with sink.engine.connect() as db:
        assert sorted(db.scalars(sa.select(rows.c.value)), key=int) == [b"%d" % n for n in range(20)]
    sink.engine.dispose()
    assert lives == 3


def test_a_relay_is_replaced_in_the_middle(any_bootstrap: str, tmp_path: Path) -> None:
    """The ledger is an offset of a group nobody ever joined, committed in the transaction of the records."""
    topic = new_topic(any_bootstrap, 0)
    outbox = Outbox(f"sqlite:///{tmp_path}/rows.db", name="rows", topic=topic)
    names = {"bootstrap.servers": any_bootstrap}

    def put(*values: bytes) -> None:
        with outbox.engine.begin() as db:
            for value in values:
                outbox.put(db, value=value)

    class Stopped(Exception):  # noqa: N818 - what happens to it, not what is wrong.
        """The relay stops here, with its transaction open."""

    class Stopping(Producer):
        def commit_transaction(self) -> None:
            if outbox.waiting() == 3:
                self.flush()  # Its records are stored: what is refused later is the commit.
                raise Stopped
            super().commit_transaction()

        def abort_transaction(self) -> None:
            if outbox.waiting() != 3:
                super().abort_transaction()

    ids = {"transactional.id": f"relay-{topic}"}
    ledger = Consumer({**names, "group.id": f"relay-{topic}", "enable.auto.commit": False})
    with Stopping({**names, **ids}) as old, Producer({**names, **ids}) as new, ledger:
        first = outbox.relay(old, ledger)
        put(b"1")
        assert first.step() == 1
        put(b"2", b"3", b"4")
        with pytest.raises(Stopped):
            first.step()
        second = outbox.relay(new, ledger)
        assert second.step() == 3
        put(b"5", b"6")
        with pytest.raises(KafkaException) as fenced:
            Producer.commit_transaction(old)
        assert fenced.value.fatal
        assert second.step() == 2
        assert second.step() == 0
    outbox.engine.dispose()
    with Consumer({**names, "auto.offset.reset": "earliest"}) as reader:
        reader.assign([(topic, 0)])
        seen: list[bytes] = []
        while len(seen) < 6:
            seen += [record.value for record in reader.poll(500)]
        seen += [record.value for record in reader.poll(300)]
    assert seen == [b"1", b"2", b"3", b"4", b"5", b"6"]


@pytest.mark.mission("CID-04")
def test_a_pool_in_a_group_that_changes(any_bootstrap: str, caplog: pytest.LogCaptureFixture) -> None:
    """A second member comes, takes partitions and leaves: what the first had running is finished and committed before."""
    topic = new_topic(any_bootstrap, 200, partitions=4)
    done: Counter[bytes] = Counter()
    lock = threading.Lock()
    slow = threading.Event()
    finished: list[int] = []

    def work(record: Any) -> None:
        slow.wait(0.005)  # Slow enough for the other one to come while work is running.
        with lock:
            done[record.value] += 1

    def member() -> None:
        settings = {
            "bootstrap.servers": any_bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "max.poll.records": 10,
            "partition.assignment.strategy": "cooperative-sticky",
        }
        with Consumer(settings, enable_auto_commit=False) as consumer:
            count = consumer.process(
                work,
                workers=4,
                topics=[topic],
                in_flight_max=20,
                commit_interval_ms=50,
                until=lambda: len(done) == 200,
            )
            finished.append(count)

    first = threading.Thread(target=member)
    first.start()
    while not done:
        slow.wait(0.01)
    comes_late = threading.Thread(target=member)
    comes_late.start()
    first.join()
    comes_late.join()
    assert len(done) == 200, "a record was lost"
    assert sum(finished) == sum(done.values())
    # Nobody died, so nothing is done again, unless the group refused a commit in the middle of its change.
    assert max(done.values()) == 1 or "could not be committed" in caplog.text


def test_a_pool_is_woken_up_and_commits_what_is_finished(semel_broker: Broker) -> None:
    topic = new_topic(semel_broker.bootstrap, 20)
    settings = {
        "bootstrap.servers": semel_broker.bootstrap,
        "group.id": topic,
        "auto.offset.reset": "earliest",
    }
    done: list[bytes] = []
    with Consumer(settings, enable_auto_commit=False) as consumer:

        def work(record: Any) -> None:
            done.append(record.value)
            if len(done) == 20:
                consumer.wakeup()

        consumer.subscribe([topic])
        assert consumer.process(work) == 20
        committed = consumer.committed([(topic, 0)])[TopicPartition(topic, 0)]
        assert committed is not None
        assert committed.offset == 20


def test_a_consumer_that_commits_by_itself_is_refused(semel_broker: Broker) -> None:
    settings = {"bootstrap.servers": semel_broker.bootstrap, "group.id": "by-itself"}
    with Consumer(settings) as consumer, pytest.raises(ConfigError, match=r"enable\.auto\.commit is true"):
        consumer.process(print, workers=2, topics=["any"])

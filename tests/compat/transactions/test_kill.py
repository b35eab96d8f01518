"""kill -9 of the broker in the middle of transactions: nothing lost, nothing twice, nothing torn, nothing stuck.

Method: a real process is killed again and again while librdkafka (transactions v1) and Kafka's own
`TransactionalMessageCopier` (Java 4.3, transactions v2, with random aborts) work. Then every input must be exactly once in
what readers of committed records see, and the group's position at the end.
"""

import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from semel.peers.kafka import KafkaHome
from support.compat.compat_kit import BrokerProcess, eventually
from support.transactions.transaction_clients import DEADLINE_SECONDS, committed_offset, end_offset, read

KILLS = 3
TRANSACTIONS = 100
RECORDS = 3000


@contextmanager
def killed_again_and_again(broker: BrokerProcess, pause_seconds: float) -> Iterator[None]:
    """The broker dies and comes back until the work is done, but not for ever."""
    done = threading.Event()

    def kill() -> None:
        for _ in range(KILLS):
            if done.wait(pause_seconds):
                return
            broker.kill()
            broker.start()

    killer = threading.Thread(target=kill, name="killer")
    killer.start()
    try:
        yield
    finally:
        done.set()
        killer.join()


def create(bootstrap: str, **topics: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    wanted = [NewTopic(name, partitions, 1) for name, partitions in topics.items()]
    for made in admin.create_topics(wanted).values():
        made.result(DEADLINE_SECONDS)


def is_settled(bootstrap: str, topic: str, partition: int) -> bool:
    return end_offset(bootstrap, topic, partition, committed=True) == end_offset(
        bootstrap, topic, partition, committed=False
    )


def test_librdkafka_loses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        create(broker.bootstrap, out=2, **{"in": 1})
        producer = confluent_kafka.Producer(
            {
                "log_level": 0,
                "bootstrap.servers": broker.bootstrap,
                "transactional.id": "worker",
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                # librdkafka 2.16 that bootstraps anew keeps asking the group coordinator it knew, on a connection
                # that is no more, and send_offsets_to_transaction never returns.
                "metadata.recovery.strategy": "none",
            }
        )
        consumer = confluent_kafka.Consumer(
            {"log_level": 0, "bootstrap.servers": broker.bootstrap, "group.id": "workers"}
        )
        producer.init_transactions(DEADLINE_SECONDS)
        with killed_again_and_again(broker, 0.3):
            number = 0
            while number < TRANSACTIONS:
                number += transact(producer, consumer, number)
                time.sleep(0.01)  # Else all of them are done before the broker is killed once.
        consumer.close()
        for partition in (0, 1):
            eventually(lambda p=partition: is_settled(broker.bootstrap, "out", p), "all markers are written")  # type: ignore[misc]  # bound now
            found = read(broker.bootstrap, "out", partition, committed=True)
            assert found == [b"%d" % one for one in range(TRANSACTIONS)]
        assert committed_offset(broker.bootstrap, "workers", "in", 0) == TRANSACTIONS


def transact(producer: confluent_kafka.Producer, consumer: confluent_kafka.Consumer, number: int) -> int:
    """1 if the transaction is committed, 0 if it was aborted."""
    producer.begin_transaction()
    try:
        for partition in (0, 1):
            producer.produce("out", value=b"%d" % number, partition=partition)
        repeat(
            lambda: producer.send_offsets_to_transaction(
                [confluent_kafka.TopicPartition("in", 0, number + 1)],
                consumer.consumer_group_metadata(),
                DEADLINE_SECONDS,
            )
        )
        repeat(lambda: producer.commit_transaction(DEADLINE_SECONDS))
    except confluent_kafka.KafkaException as error:
        if not error.args[0].txn_requires_abort():
            raise
        repeat(lambda: producer.abort_transaction(DEADLINE_SECONDS))
        return 0
    return 1


def repeat(call: object) -> None:
    """As the client asks: a retriable error is tried again."""
    assert callable(call)
    while True:
        try:
            call()
            return
        except confluent_kafka.KafkaException as error:
            if not error.args[0].retriable():
                raise


@pytest.mark.java
@pytest.mark.parametrize("kills", [False, True], ids=["in peace", "killed"])
def test_the_copier_copies_every_record_once(kafka_home: KafkaHome, tmp_path: Path, kills: bool) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        create(broker.bootstrap, out=1, **{"in": 1})
        producer = confluent_kafka.Producer({"log_level": 0, "bootstrap.servers": broker.bootstrap})
        for number in range(RECORDS):
            producer.produce("in", value=b"%d" % number, partition=0)
        assert producer.flush(DEADLINE_SECONDS) == 0
        arguments = {
            "broker-list": broker.bootstrap,
            "input-topic": "in",
            "input-partition": "0",
            "output-topic": "out",
            "max-messages": str(RECORDS),
            "consumer-group": "copiers",
            "transaction-size": "50",
            "transactional-id": "copier",
        }
        copier = subprocess.Popen(
            kafka_home.java(
                "org.apache.kafka.tools.TransactionalMessageCopier",
                *(part for name, value in arguments.items() for part in (f"--{name}", value)),
                "--enable-random-aborts",
                "--use-group-metadata",
            ),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert copier.stdout is not None
        try:
            said = copier.stdout.readline()  # It has begun.
            if kills:
                with killed_again_and_again(broker, 0.7):
                    rest, _none = copier.communicate(timeout=120)
            else:
                rest, _none = copier.communicate(timeout=120)
        finally:
            copier.kill()
            copier.wait()
        assert copier.returncode == 0, (said + rest)[-3000:]
        eventually(lambda: is_settled(broker.bootstrap, "out", 0), "all markers are written")
        found = read(broker.bootstrap, "out", 0, committed=True)
        assert found == [b"%d" % number for number in range(RECORDS)]
        assert committed_offset(broker.bootstrap, "copiers", "in", 0) == RECORDS
        assert (
            len(read(broker.bootstrap, "out", 0, committed=False)) > RECORDS
        )  # Aborted ones are still there.

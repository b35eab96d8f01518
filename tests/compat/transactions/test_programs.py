"""The three kinds of transactional programs, and two instances of one, with every client: Java's in both protocols, librdkafka,
kafka-python, aiokafka and ours (franz-go's are in test_franz_go.py).

Method: workers of one group copy a topic of three partitions and abort at random; afterwards each input must be exactly once in
what readers of committed records see, and the group at the end of its input. Java 4.3 and ours speak transactions v2, the
others v1. The classes of the exceptions are those Apache Kafka 4.3.1 causes in the same stories.
"""

import random
from collections.abc import Iterator

import confluent_kafka
import pytest

from support.compat.compat_kit import ThreadBroker, batches, eventually
from support.transactions import transaction_workers
from support.transactions.transaction_clients import (
    DEADLINE_SECONDS,
    FencedOutError,
    committed_offset,
    end_offset,
    read,
)
from support.transactions.transaction_java import JavaError, JavaProducer, TransactionShell
from support.transactions.transaction_workers import Worker

PARTITIONS = 3
RECORDS = 600
WORKERS = 2


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadBroker]:
    """One that lets a group begin with the member it has."""
    with ThreadBroker(
        tmp_path_factory.mktemp("programs"),
        num_partitions=str(PARTITIONS),
        group_initial_rebalance_delay_ms="0",
    ) as running:
        yield running


@pytest.fixture
def source(broker: ThreadBroker, topic: str) -> str:
    """A topic with `RECORDS` numbers, committed ones among aborted ones."""
    producer = confluent_kafka.Producer(
        {"log_level": 0, "bootstrap.servers": broker.bootstrap, "transactional.id": f"source of {topic}"}
    )
    producer.init_transactions(DEADLINE_SECONDS)
    for first in range(0, RECORDS, RECORDS // 4):
        for commit in (False, True):
            producer.begin_transaction()
            for number in range(first, first + RECORDS // 4):
                producer.produce(topic, value=b"%d" % number, partition=number % PARTITIONS)
            if commit:
                producer.commit_transaction(DEADLINE_SECONDS)
            else:
                assert producer.flush(DEADLINE_SECONDS) == 0
                producer.abort_transaction(DEADLINE_SECONDS)
    return topic


def numbers_of(partition: int) -> list[bytes]:
    return [b"%d" % number for number in range(partition, RECORDS, PARTITIONS)]


def assert_all_consumed(broker: ThreadBroker, group: str, source: str) -> None:
    """A position may stand before the marker at the end, for a reader never sees it."""
    for partition in range(PARTITIONS):
        end = end_offset(broker.bootstrap, source, partition, committed=True)
        assert committed_offset(broker.bootstrap, group, source, partition) in (end - 1, end)


def assert_copied_once(broker: ThreadBroker, target: str) -> None:
    aborted = 0
    for partition in range(PARTITIONS):
        assert read(broker.bootstrap, target, partition, committed=True) == numbers_of(partition)
        everything = read(broker.bootstrap, target, partition, committed=False)
        aborted += len(everything) - len(numbers_of(partition))
    assert aborted > 0, "nothing was aborted on the way"


@pytest.mark.java
@pytest.mark.mission("EXT-01", "R-24")
class TestJava:
    @pytest.mark.mission("TXN-09")
    def test_consume_transform_produce(
        self, shell: TransactionShell, broker: ThreadBroker, source: str
    ) -> None:
        worked = shell.work(
            broker.bootstrap,
            workers=WORKERS,
            source=source,
            target=f"{source}-out",
            group=f"group of {source}",
            count=RECORDS,
        )
        assert worked.committed == RECORDS
        assert worked.aborted > 0
        assert_copied_once(broker, f"{source}-out")
        assert_all_consumed(broker, f"group of {source}", source)

    def test_consume_transform_produce_in_a_group_of_the_consumer_protocol(
        self, java_4_3: TransactionShell, broker: ThreadBroker, source: str
    ) -> None:
        """Also: both protocols' groups fence a member by its epoch, so a rebalance on the way repeats nothing."""
        worked = java_4_3.work(
            broker.bootstrap,
            workers=WORKERS,
            source=source,
            target=f"{source}-out",
            group=f"group of {source}",
            count=RECORDS,
            protocol="consumer",
        )
        assert worked.committed == RECORDS
        assert_copied_once(broker, f"{source}-out")
        assert_all_consumed(broker, f"group of {source}", source)

    @pytest.mark.mission("TXN-09")
    def test_only_consume(self, shell: TransactionShell, broker: ThreadBroker, source: str) -> None:
        """Positions alone: each transaction moves them, or does not."""
        group = f"group of {source}"
        worked = shell.work(broker.bootstrap, workers=1, source=source, target="", group=group, count=RECORDS)
        assert worked.committed == RECORDS
        assert worked.aborted > 0
        assert_all_consumed(broker, group, source)

    def test_a_group_reads_what_was_committed(
        self, shell: TransactionShell, broker: ThreadBroker, source: str
    ) -> None:
        """And goes on where it was, as any group does."""
        group = f"readers of {source}"
        found = shell.consume(broker.bootstrap, source, group, RECORDS)
        assert sorted(found, key=int) == [b"%d" % number for number in range(RECORDS)]
        producer = JavaProducer(broker.bootstrap, f"of {source}", shell=shell)
        producer.begin()
        producer.send(source, 0, b"one more")
        producer.commit()
        producer.close()
        assert shell.consume(broker.bootstrap, source, group, 1) == [b"one more"]


@pytest.mark.java
@pytest.mark.mission("EXT-01", "FEN-06")
class TestTwoInstances:
    """The first instance has an open transaction when the second introduces itself; then the first goes on."""

    @pytest.fixture
    def pair(
        self, shell: TransactionShell, broker: ThreadBroker, topic: str
    ) -> Iterator[tuple[JavaProducer, JavaProducer]]:
        first = JavaProducer(broker.bootstrap, f"of {topic}", shell=shell)
        first.begin()
        first.send(topic, 0, b"of a zombie")
        first.flush()
        second = JavaProducer(broker.bootstrap, f"of {topic}", shell=shell)
        second.begin()
        second.send(topic, 0, b"of the owner")
        yield first, second
        second.commit()
        assert read(broker.bootstrap, topic, 0, committed=True) == [b"of the owner"]
        second.close()
        first.close()

    def test_its_commit_is_fenced(self, pair: tuple[JavaProducer, JavaProducer]) -> None:
        with pytest.raises(FencedOutError, match="newer producer with the same transactionalId"):
            pair[0].commit()

    def test_its_abort_is_fenced(self, pair: tuple[JavaProducer, JavaProducer]) -> None:
        with pytest.raises(FencedOutError, match="newer producer with the same transactionalId"):
            pair[0].abort()

    def test_its_offsets_are_fenced(self, pair: tuple[JavaProducer, JavaProducer], topic: str) -> None:
        with pytest.raises(FencedOutError, match="newer producer with the same transactionalId"):
            pair[0].send_offset(f"group of {topic}", topic, 0, 1)
        with pytest.raises(FencedOutError):  # It cannot even abort.
            pair[0].abort()

    def test_its_records_are_fenced(self, pair: tuple[JavaProducer, JavaProducer], topic: str) -> None:
        """A partition's leader only knows an old epoch; who fenced it, the coordinator says."""
        pair[0].send(topic, 0, b"of a zombie")
        pair[0].flush()
        with pytest.raises(JavaError) as refused:
            pair[0].commit()
        assert refused.value.kind == "InvalidProducerEpochException"
        with pytest.raises(FencedOutError):
            pair[0].abort()


@pytest.mark.java
@pytest.mark.mission("EXT-05")
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_position_of_a_member_that_is_gone_is_refused(
    java_4_3: TransactionShell, broker: ThreadBroker, topic: str, protocol: str
) -> None:
    """The producer is in order; who it speaks for has left, and another one has its partitions (KIP-447)."""
    shell, group, member = java_4_3, f"group of {topic}", f"member of {topic}"
    producer = JavaProducer(broker.bootstrap, f"of {topic}", shell=shell)
    producer.begin()
    producer.send(topic, 0, b"creates the topic")
    producer.commit()
    shell.ask("join", member, broker.bootstrap, topic, group, protocol)
    producer.begin()
    producer.send_offset_as(member, topic, 0, 1)
    producer.commit()
    assert committed_offset(broker.bootstrap, group, topic, 0) == 1
    shell.ask("leave", member)
    shell.ask("join", f"next {member}", broker.bootstrap, topic, group, protocol)
    producer.begin()
    producer.send(topic, 0, b"of a zombie")
    with pytest.raises(JavaError) as refused:
        producer.send_offset_as(member, topic, 0, 2)
    assert refused.value.kind == "CommitFailedException"
    producer.abort()
    assert committed_offset(broker.bootstrap, group, topic, 0) == 1
    assert read(broker.bootstrap, topic, 0, committed=True) == [b"creates the topic"]
    shell.ask("leave", f"next {member}")
    producer.close()


@pytest.mark.java
@pytest.mark.mission("EXT-01", "TXN-18")
def test_a_transaction_that_took_too_long_is_aborted_and_its_producer_fenced(
    shell: TransactionShell, broker: ThreadBroker, topic: str
) -> None:
    producer = JavaProducer(broker.bootstrap, f"of {topic}", shell=shell, transaction_timeout_ms="2000")
    producer.begin()
    producer.send(topic, 0, b"too late")
    producer.flush()
    eventually(
        lambda: end_offset(broker.bootstrap, topic, 0, committed=True) == 2, "the coordinator aborted it"
    )
    data, marker = (header for header, _records in batches(broker.directory, topic))
    assert marker.producer_id == data.producer_id
    assert marker.producer_epoch == data.producer_epoch + 1
    with pytest.raises(FencedOutError):
        producer.commit()
    producer.close()
    assert read(broker.bootstrap, topic, 0, committed=True) == []


@pytest.mark.mission("TXN-09")
@pytest.mark.parametrize("produce", [True, False], ids=["consume and produce", "only consume"])
@pytest.mark.parametrize("kind", transaction_workers.WORKERS, ids=lambda kind: kind.name)
def test_consume_transform_produce(
    broker: ThreadBroker, source: str, kind: type[Worker], produce: bool
) -> None:
    """As TestJava's, with workers that take turns."""
    group, target = f"group of {source}", f"{source}-out"
    dice = random.Random(1)
    workers = [kind(broker.bootstrap, source, group, number) for number in range(kind.workers)]
    done = 0
    while done < RECORDS:
        for worker in workers:
            done += worker.work(target if produce else None, commit=dice.random() < 0.7)
    for worker in workers:
        worker.close()
    assert done == RECORDS
    assert_all_consumed(broker, group, source)
    if produce:
        assert_copied_once(broker, target)

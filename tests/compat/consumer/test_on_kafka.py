"""Our consumer on Apache Kafka, today's and the last one with ZooKeeper: the same client, the same answers.

Method: librdkafka writes, in transactions too; our consumers read by assignment and in groups of both protocols.
"""

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import pytest

from semel import Consumer, TopicPartition
from semel.exceptions import UnsupportedVersionException
from semel.peers.kafka import KafkaBroker, KafkaHome
from support.compat.compat_clients import ConfluentKafka
from support.compat.compat_kit import CODECS, by_partition, variety

pytestmark = pytest.mark.java


@pytest.fixture(scope="module", params=["kafka_home", "old_kafka_home"], ids=["4.3.1", "3.9.2"])
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    home: KafkaHome = request.getfixturevalue(request.param)
    settings = {"num_partitions": "3", "group_initial_rebalance_delay_ms": "0"}
    with home.broker(tmp_path_factory.mktemp("kafka"), **settings) as broker:
        yield broker


def consumer(kafka: KafkaBroker, **settings: Any) -> Consumer:
    return Consumer({"bootstrap_servers": kafka.bootstrap, "auto_offset_reset": "earliest", **settings})


def take(reader: Consumer, count: int) -> list[Any]:
    found: list[Any] = []
    deadline = time.monotonic() + 60
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count}"
        found += reader.poll(1_000)
    return found


def test_records_offsets_and_times(kafka: KafkaBroker) -> None:
    now_ms = int(time.time() * 1000)
    for codec in CODECS:
        topic = f"variety-{codec}"
        records = variety(3, now_ms)
        ConfluentKafka().produce(kafka.bootstrap, topic, records, codec=codec)
        with consumer(kafka) as reader:
            reader.assign([(topic, index) for index in range(3)])
            got = take(reader, len(records))
            for partition, sent in by_partition(records).items():
                mine = [one for one in got if one.partition == partition]
                assert [(one.key, one.value, one.headers, one.timestamp) for one in mine] == [
                    (one.key, one.value, one.headers, one.timestamp_ms) for one in sent
                ]
            place = TopicPartition(topic, 0)
            assert reader.position(place) == len(by_partition(records)[0])
            assert reader.end_offsets([place]) == {place: len(by_partition(records)[0])}
            assert reader.beginning_offsets([place]) == {place: 0}
            first = by_partition(records)[0][1]
            assert first.timestamp_ms is not None
            found = reader.offsets_for_times({place: first.timestamp_ms})[place]
            assert found is not None and found[:2] == (1, first.timestamp_ms)  # noqa: PT018 - for the type checker.
            assert [one.partition for one in reader.partitions_for(topic)] == [0, 1, 2]


def test_transactions_are_shown_once_they_are_committed(kafka: KafkaBroker) -> None:
    topic = "transactional"
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([confluent_kafka.admin.NewTopic(topic, 1, 1)])[topic].result(30)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": kafka.bootstrap, "transactional.id": f"writer-{kafka.home.version}"}
    )
    producer.init_transactions(30)
    expected = []
    for number in range(6):
        producer.begin_transaction()
        for index in range(5):
            producer.produce(topic, b"%d-%d" % (number, index), partition=0)
        if number % 2:
            producer.flush(30)  # Else librdkafka throws away what it has not sent.
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
            expected += [b"%d-%d" % (number, index) for index in range(5)]
    with consumer(kafka) as committed, consumer(kafka, isolation_level="read_uncommitted") as everything:
        for reader in (committed, everything):
            reader.assign([(topic, 0)])
        assert [one.value for one in take(committed, 15)] == expected
        assert len(take(everything, 30)) == 30
        assert committed.position((topic, 0)) == everything.position((topic, 0)) == 36, (
            "behind the last marker"
        )


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_two_share_a_group_and_a_third_goes_on_where_they_ended(kafka: KafkaBroker, protocol: str) -> None:
    topic, group = f"shared-{protocol}", f"group-{protocol}"
    records = variety(3, int(time.time() * 1000))
    ConfluentKafka().produce(kafka.bootstrap, topic, records)
    settings = {"group_id": group, "group_protocol": protocol}
    with consumer(kafka, **settings) as first:
        first.subscribe([topic])
        if protocol == "consumer" and kafka.home.version.startswith("3"):
            with pytest.raises(UnsupportedVersionException):
                take(first, 1)
            return
        got = Counter((one.partition, one.offset) for one in take(first, len(records)))
        first.commit()
        with consumer(kafka, **settings) as second:
            second.subscribe([topic])
            deadline = time.monotonic() + 60
            while not (second.assignment() and first.assignment()) or len(first.assignment()) > 2:
                for reader in (first, second):
                    got.update((one.partition, one.offset) for one in reader.poll(100))
                assert time.monotonic() < deadline
            assert first.assignment().isdisjoint(second.assignment())
            ConfluentKafka().produce(kafka.bootstrap, topic, records)
            while sum(got.values()) < 2 * len(records):
                for reader in (first, second):
                    got.update((one.partition, one.offset) for one in reader.poll(100))
                assert time.monotonic() < deadline + 60
    assert set(got.values()) == {1}, "each record once"
    ConfluentKafka().produce(kafka.bootstrap, topic, records)
    with consumer(kafka, **settings) as third:
        third.subscribe([topic])
        again = Counter((one.partition, one.offset) for one in take(third, len(records)))
        assert set(again.values()) == {1}
        assert not set(again) & set(got), "what was committed is not read again"

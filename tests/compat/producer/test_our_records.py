"""What our producer sends, every client reads; and what happens on the way is no reason for a second copy.

Method: the public producer on a running broker, directly and through a proxy that loses, delays, repeats and damages exactly
what a test says. What arrives is read by the clients written elsewhere and from the partition's files.
"""

import time
import uuid
from collections.abc import Sequence

import pyarrow as pa
import pytest

import semel
from semel.core.wire.registry import ApiKey
from semel.verify.fault_proxy import Fate, FaultProxy, at, at_random
from support.compat.compat_clients import Client, ConfluentKafka
from support.compat.compat_kit import (
    CODECS,
    Sent,
    ThreadBroker,
    batches,
    by_partition,
    copies,
    numbered,
    values,
    variety,
)
from support.transactions.transaction_clients import read

PRODUCE = ApiKey.PRODUCE
LOSSY = {
    Fate.CUT_AFTER: 0.05,
    Fate.CUT_BEFORE: 0.03,
    Fate.DELAY: 0.1,
    Fate.REPEAT: 0.05,
    Fate.LATE_COPY: 0.05,
    Fate.SILENCE: 0.005,
}
IMPATIENT = {"request_timeout_ms": 1000, "retry_backoff_ms": 5, "retry_backoff_max_ms": 50}


def send(producer: semel.Producer, topic: str, records: Sequence[Sent]) -> list[int]:
    """The offsets we were told."""
    futures = [
        producer.send(
            topic, one.value, one.key, one.partition, timestamp=one.timestamp_ms, headers=list(one.headers)
        )
        for one in records
    ]
    return [future.result(60).offset for future in futures]


def as_table(records: Sequence[Sent]) -> pa.Table:
    pairs = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    return pa.table(
        {
            "key": pa.array([one.key for one in records], pa.binary()),
            "value": pa.array([one.value for one in records], pa.binary()),
            "timestamp": pa.array([one.timestamp_ms for one in records], pa.int64()),
            "partition": pa.array([one.partition for one in records], pa.int32()),
            "headers": pa.array([list(one.headers) for one in records], pairs),
        }
    )


@pytest.mark.mission("CFG-17")
def test_every_client_reads_records_and_columns_of_ours_in_every_codec(
    broker: ThreadBroker, any_client: Client, topic: str
) -> None:
    for codec in [one for one in CODECS if one in any_client.codecs]:
        name = f"{topic}-{codec}"
        records = variety(3, int(time.time() * 1000))
        with semel.Producer(
            bootstrap_servers=broker.bootstrap, compression_type=codec, max_request_size=2_000_000
        ) as producer:
            offsets = send(producer, name, records)
            producer.send_arrow(name, as_table(records)).result(60)
        for partition, sent in by_partition(records).items():
            got = any_client.read(broker.bootstrap, name, partition, 0, 2 * len(sent))
            meant = [(r.key, r.value, r.headers, r.timestamp_ms) for r in sent]
            assert [(r.key, r.value, r.headers, r.timestamp_ms) for r in got] == meant * 2, (
                codec,
                any_client.name,
            )
            told = [
                offset for offset, one in zip(offsets, records, strict=True) if one.partition == partition
            ]
            assert told == list(range(len(sent)))
            assert {header.compression for header, _ in batches(broker.directory, name, partition)} == {
                CODECS.index(codec)
            }


@pytest.mark.java
@pytest.mark.mission("CFG-17")
@pytest.mark.parametrize("codec", CODECS)
def test_records_and_columns_of_ours_on_apache_kafka(kafka_bootstrap: str, codec: str) -> None:
    """Apache Kafka checks what it is given, and an older one may be given less; librdkafka and our consumer read it."""
    topic, records = f"ours-{uuid.uuid4()}", variety(3, int(time.time() * 1000))
    with semel.Admin(bootstrap_servers=kafka_bootstrap) as admin:
        admin.create_topics([semel.NewTopic(topic, 3)])
    with semel.Producer(
        bootstrap_servers=kafka_bootstrap, compression_type=codec, max_request_size=2_000_000
    ) as producer:
        offsets = send(producer, topic, records)
        producer.send_arrow(topic, as_table(records)).result(60)
    found: dict[int, list[semel.ConsumerRecord]] = {index: [] for index in range(3)}
    with semel.Consumer(bootstrap_servers=kafka_bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, index) for index in range(3)])
        while sum(map(len, found.values())) < 2 * len(records):
            for one in consumer.poll(60_000):
                found[one.partition].append(one)
    for partition, sent in by_partition(records).items():
        meant = [(r.key, r.value, r.headers, r.timestamp_ms) for r in sent] * 2
        theirs = ConfluentKafka().read(kafka_bootstrap, topic, partition, 0, len(meant))
        assert [(r.key, r.value, r.headers, r.timestamp_ms) for r in theirs] == meant
        ours = found[partition]
        assert [(r.key, r.value, r.headers, r.timestamp) for r in ours] == meant
        told = [offset for offset, one in zip(offsets, records, strict=True) if one.partition == partition]
        assert told == list(range(len(sent)))


@pytest.mark.parametrize(
    "fate",
    [
        Fate.CUT_BEFORE,
        Fate.CUT_AFTER,
        Fate.SWALLOW,
        Fate.SILENCE,
        Fate.LATE,
        Fate.DELAY,
        Fate.REPEAT,
        Fate.ECHO,
        Fate.LATE_COPY,
        Fate.OVERTAKEN,
        Fate.FAIL_AFTER,
        Fate.CORRUPT,
    ],
)
def test_whatever_happens_to_a_request_there_is_one_copy(
    broker: ThreadBroker, topic: str, fate: Fate
) -> None:
    sent = numbered(3)
    with FaultProxy(broker.bootstrap, at(PRODUCE, {1: fate})) as proxy:
        with semel.Producer(bootstrap_servers=proxy.bootstrap, linger_ms=0, **IMPATIENT) as producer:
            offsets = [offset for one in sent for offset in send(producer, topic, [one])]
        assert proxy.fates() == [fate]
    assert values(broker.directory, topic) == [one.value for one in sent]
    assert offsets == [0, 1, 2]

    name = f"{topic}-transactional"
    with FaultProxy(broker.bootstrap, at(PRODUCE, {0: fate})) as proxy:
        with semel.Producer(
            bootstrap_servers=proxy.bootstrap, transactional_id=name, linger_ms=0, **IMPATIENT
        ) as producer:
            producer.init_transactions()
            with producer.transaction():
                send(producer, name, sent)
        assert proxy.fates() == [fate]
    assert read(broker.bootstrap, name, 0, committed=True) == [one.value for one in sent]


@pytest.mark.parametrize("api", [ApiKey.INIT_PRODUCER_ID, ApiKey.END_TXN, ApiKey.TXN_OFFSET_COMMIT])
@pytest.mark.parametrize("fate", [Fate.CUT_BEFORE, Fate.CUT_AFTER, Fate.SILENCE])
def test_a_lost_answer_of_a_coordinator_ends_nothing_twice(
    broker: ThreadBroker, topic: str, api: ApiKey, fate: Fate
) -> None:
    with FaultProxy(broker.bootstrap, at(api, {0: fate})) as proxy:
        with semel.Producer(
            bootstrap_servers=proxy.bootstrap, transactional_id=topic, linger_ms=0, **IMPATIENT
        ) as producer:
            producer.init_transactions()
            for value in (b"1", b"2"):
                with producer.transaction():
                    producer.send(topic, value, partition=0)
                    producer.send_offsets_to_transaction({(topic, 0): int(value)}, f"group-of-{topic}")
        assert proxy.fates() == [fate]
    assert read(broker.bootstrap, topic, 0, committed=True) == [b"1", b"2"]


@pytest.mark.parametrize("in_flight", [1, 2, 3, 4, 5])
def test_over_a_lossy_link_records_and_columns_are_stored_once_and_in_order(
    broker: ThreadBroker, topic: str, in_flight: int
) -> None:
    sent = numbered(3000, 3)
    with FaultProxy(broker.bootstrap, at_random(in_flight, LOSSY, faults_max=40)) as proxy:
        with semel.Producer(
            bootstrap_servers=proxy.bootstrap,
            max_in_flight_requests_per_connection=in_flight,
            batch_size=400,
            linger_ms=1,
            **IMPATIENT,
        ) as producer:
            offsets = send(producer, topic, sent[:1500])
            for start in range(1500, 3000, 300):
                producer.send_arrow(topic, as_table(sent[start : start + 300])).result(60)
        assert proxy.fates(), "the link lost nothing"  # How much depends on how records fell into batches.
    for partition in range(3):
        wanted = [one.value for one in sent if one.partition == partition]
        assert values(broker.directory, topic, partition) == wanted
    told = [offset for offset, one in zip(offsets, sent, strict=False) if one.partition == 0]
    assert told == list(range(500))


@pytest.mark.mission("ORD-01", "ORD-02", "CFG-25")
@pytest.mark.parametrize(
    ("in_flight", "idempotent", "order"),
    [(5, False, [0, 2, 3, 4, 1]), (1, False, [0, 1, 2, 3, 4]), (5, True, [0, 1, 2, 3, 4])],
)
def test_without_idempotence_a_retry_is_overtaken_unless_there_is_one_in_flight(
    broker: ThreadBroker, topic: str, in_flight: int, idempotent: bool, order: list[int]
) -> None:
    """Five batches; the second is damaged on the way and refused; the others may be stored before its retry."""
    sent = numbered(5)
    with semel.Producer(bootstrap_servers=broker.bootstrap) as first:
        first.partitions_for(topic)
    with (
        FaultProxy(broker.bootstrap, at(PRODUCE, {1: Fate.CORRUPT}, delay_seconds=0.5)) as proxy,
        semel.Producer(
            bootstrap_servers=proxy.bootstrap,
            max_in_flight_requests_per_connection=in_flight,
            enable_idempotence=idempotent,
            batch_size=1,
            linger_ms=0,
            acks="all",
        ) as producer,
    ):
        send(producer, topic, sent)
    assert values(broker.directory, topic) == [sent[n].value for n in order]
    assert set(copies(broker.directory, topic).values()) == {1}

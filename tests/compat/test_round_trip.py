"""What a client sends is what any client reads, and what the files hold.

Method: each client sends null, empty, large and ordinary records with every codec it has; the batches in the files must
carry that codec, and every client reads them back by assign and seek. Offsets and times are asked for in every way the
clients have. The records of one topic never depend on another test.
"""

import time

import pytest
from confluent_kafka import TopicPartition

from support.compat.compat_clients import PYTHON_CLIENTS, Client, ClientError, ConfluentKafka
from support.compat.compat_java import JavaClient, JavaShell
from support.compat.compat_kit import (
    CODECS,
    Got,
    Sent,
    ThreadBroker,
    batches,
    by_partition,
    numbered,
    stored,
    variety,
)


def seen(records: list[Got]) -> list[tuple[object, ...]]:
    return [(r.key, r.value, r.headers, r.timestamp_ms) for r in records]


def meant(records: list[Sent]) -> list[tuple[object, ...]]:
    return [(r.key, r.value, r.headers, r.timestamp_ms) for r in records]


@pytest.mark.java
@pytest.mark.mission("CFG-17")
@pytest.mark.parametrize("codec", CODECS)
def test_every_client_reads_what_any_client_compressed(
    broker: ThreadBroker, java_shell: JavaShell, codec: str
) -> None:
    clients: list[Client] = [*PYTHON_CLIENTS, JavaClient(java_shell)]
    able = [client for client in clients if codec in client.codecs]
    for writer in able:
        topic = f"{codec}-by-{writer.name}"
        records = variety(3, int(time.time() * 1000), all_nulls=writer.all_nulls)
        writer.produce(broker.bootstrap, topic, records, codec=codec)
        for partition, sent in by_partition(records).items():
            held = list(batches(broker.directory, topic, partition))
            # A client may leave a batch alone that does not get smaller; one that did is in this codec.
            codecs = {header.compression for header, _records in held}
            assert CODECS.index(codec) in codecs <= {0, CODECS.index(codec)}
            held_records = [record for _header, records in held for record in records]
            assert [(r.key, r.value, r.headers, r.timestamp_ms) for r in held_records] == meant(sent)
        for reader in able:
            sent = by_partition(records)[0]
            assert seen(reader.read(broker.bootstrap, topic, 0, 0, len(sent))) == meant(sent), (
                writer,
                reader,
            )
    if missing := [client.name for client in clients if client not in able]:
        pytest.skip(f"{', '.join(missing)}: the library for {codec} is not installed; the others were tested")


@pytest.mark.mission("PROD-10", "EXT-02")
def test_null_and_empty_keys_values_and_headers_come_back_as_they_were(
    broker: ThreadBroker, any_client: Client, topic: str
) -> None:
    records = variety(3, int(time.time() * 1000), all_nulls=any_client.all_nulls)
    offsets = any_client.produce(broker.bootstrap, topic, records)
    assert any(record.key is None for record in records)
    for partition, sent in by_partition(records).items():
        got = any_client.read(broker.bootstrap, topic, partition, 0, len(sent))
        assert seen(got) == meant(sent)
        assert [record.offset for record in got] == list(range(len(sent)))
        assert [
            offset for offset, record in zip(offsets, records, strict=True) if record.partition == partition
        ] == list(range(len(sent)))
        assert not any(record.log_append_time for record in got)


def test_the_broker_s_time_replaces_the_producer_s(
    tmp_path_factory: pytest.TempPathFactory, client: Client, topic: str
) -> None:
    directory = tmp_path_factory.mktemp("log-append-time")
    before = int(time.time() * 1000)
    with ThreadBroker(directory, log_message_timestamp_type="LogAppendTime") as broker:
        sent = [Sent(0, b"k", b"v%d" % n, timestamp_ms=1_000_000 + n) for n in range(20)]
        client.produce(broker.bootstrap, topic, sent, codec="gzip")
        got = client.read(broker.bootstrap, topic, 0, 0, len(sent))
        after = int(time.time() * 1000)
        assert [record.value for record in got] == [record.value for record in sent]
        assert all(record.log_append_time and before <= record.timestamp_ms <= after for record in got)
        assert client.offset_at(broker.bootstrap, topic, 0, before) == 0


@pytest.mark.mission("LOG-05", "OFF-01")
def test_offsets_are_found_by_name_and_by_time(broker: ThreadBroker, any_client: Client, topic: str) -> None:
    now_ms = int(time.time() * 1000)
    sent = [Sent(2, b"k", b"v%d" % n, timestamp_ms=now_ms + 10 * n) for n in range(100)]
    told = any_client.produce(broker.bootstrap, topic, sent, batch_bytes=500)
    assert told == list(range(100))  # What a producer is told is what consumers see below.
    assert any_client.offsets(broker.bootstrap, topic, 2) == (0, 100)
    assert any_client.offsets(broker.bootstrap, topic, 1) == (0, 0)
    for n in (0, 1, 37, 99):
        assert any_client.offset_at(broker.bootstrap, topic, 2, now_ms + 10 * n) == n
        assert any_client.offset_at(broker.bootstrap, topic, 2, now_ms + 10 * n - 5) == n
    assert any_client.offset_at(broker.bootstrap, topic, 2, now_ms + 10_000) is None
    for first in (0, 1, 63, 99):
        got = any_client.read(broker.bootstrap, topic, 2, first, 100 - first)
        assert [record.offset for record in got] == list(range(first, 100))
        assert got[0].value == b"v%d" % first


def test_a_topic_of_many_partitions(
    tmp_path_factory: pytest.TempPathFactory, client: Client, topic: str
) -> None:
    with ThreadBroker(tmp_path_factory.mktemp("many"), num_partitions="64") as broker:
        records = numbered(6400, 64)
        client.produce(broker.bootstrap, topic, records)
        for partition, sent in by_partition(records).items():
            held = [record.value for record in stored(broker.directory, topic, partition)]
            assert held == [record.value for record in sent]
        got = client.read(broker.bootstrap, topic, 63, 0, 100)
        assert [record.value for record in got] == [b"63-%08d" % n for n in range(100)]


def test_a_record_that_is_too_large_is_refused_and_the_next_is_not(
    broker: ThreadBroker, client: Client, topic: str
) -> None:
    """The client allows more than the broker's message.max.bytes: the refusal is the broker's."""
    with pytest.raises(ClientError, match=r"(?i)message ?size|too ?large"):
        client.produce(broker.bootstrap, topic, [Sent(0, b"k", bytes(1_500_000))])
    client.produce(broker.bootstrap, topic, [Sent(0, b"k", bytes(1_000_000))])
    assert [len(record.value or b"") for record in stored(broker.directory, topic)] == [1_000_000]


def test_a_consumer_that_waits_is_woken_by_a_producer(broker: ThreadBroker, topic: str) -> None:
    """librdkafka polls an empty partition; what another producer sends later reaches the same poll."""
    client = ConfluentKafka()
    client.produce(broker.bootstrap, topic, [Sent(0, None, b"first")])
    consumer = client._consumer(broker.bootstrap)
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        got = [consumer.poll(30).value()]
        client.produce(broker.bootstrap, topic, [Sent(0, None, b"second")])
        got.append(consumer.poll(30).value())
        assert got == [b"first", b"second"]
    finally:
        consumer.close()

"""Apache Kafka and Semel on the same files, both ways.

Method: a real broker makes a topic and stops. Our log fills that partition's directory with everything the format
has; Kafka's own tool checks and prints the files, the broker starts on them and serves them to a client. Then the
indexes are taken away and Kafka, after an unclean stop, builds its own: they must be ours to the byte. In the end
the broker appends and is killed, and we open what it left.
"""

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from semel.core.records import batch
from semel.core.records.build import RecordInput, build_batch, iter_records
from semel.log.config import LogConfig
from semel.log.dump import dump
from semel.log.partition_log import PartitionLog
from semel.peers.kafka import KafkaBroker, KafkaHome
from semel.runtime.files import RealFiles
from support.log.log_kit import NOW, end, open_at, send

CONFIG = LogConfig(segment_bytes=6000, index_interval_bytes=500, producer_id_expiration_ms=10**13)
SETTINGS = {
    "log.segment.bytes": "1048576",
    "log.index.interval.bytes": "500",
    "log.retention.ms": "-1",
    "log.initial.task.delay.ms": "3600000",
}
TOPIC = "orders"


def fill(log: PartitionLog) -> list[bytes | None]:
    """Every codec, headers, nulls, idempotent and transactional producers; the values a committed reader sees."""
    committed: list[bytes | None] = []
    for n in range(40):
        codec = n % 5
        values: list[bytes | None] = [b"value %d " % n * (n % 7 + 1), None, b"", b"tail %d" % n]
        data = build_batch(
            [
                RecordInput(
                    key=b"key %d" % n if n % 3 else None,
                    value=value,
                    timestamp_ms=NOW + n * 10,
                    headers=[("trace", b"%d" % n), ("empty", None)] if n % 2 else (),
                )
                for value in values
            ],
            compression=codec,
            producer_id=1000,
            producer_epoch=0,
            base_sequence=4 * n,
        )
        send(log, data)
        committed += values
        transactional = build_batch(
            [RecordInput(key=b"t", value=b"in transaction %d" % n, timestamp_ms=NOW + n * 10)],
            producer_id=2000,
            producer_epoch=3,
            base_sequence=n,
            transactional=True,
        )
        send(log, transactional)
        commit = n % 4 != 0
        end(log, 2000, commit=commit, epoch=3, now_ms=NOW + n * 10)
        committed += [b"in transaction %d" % n] * commit
    return committed


def consume(broker: KafkaBroker, isolation_level: str, end_offset: int) -> list[bytes | None]:
    return asyncio.run(_consume(broker.bootstrap, isolation_level, end_offset))


async def _consume(bootstrap: str, isolation_level: str, end_offset: int) -> list[bytes | None]:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level=isolation_level, enable_auto_commit=False
    )
    await consumer.start()
    try:
        partition = TopicPartition(TOPIC, 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)
        values: list[bytes | None] = []
        while await consumer.position(partition) < end_offset:
            for polled in (await consumer.getmany(timeout_ms=1000)).values():
                values += [record.value for record in polled]
        return values
    finally:
        await consumer.stop()


def files_of(directory: Path, *endings: str) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(directory.iterdir()) if p.name.endswith(endings)}


def shown_by_kafka(home: KafkaHome, paths: Iterable[Path], *options: str) -> list[str]:
    text = home.run("org.apache.kafka.tools.DumpLogSegments", "--files", ",".join(map(str, paths)), *options)
    return text.splitlines()


@pytest.mark.java
@pytest.mark.timeout(600)
@pytest.mark.mission("LOG-02", "LOG-06", "PST-07", "READ-12", "TXP-18", "IDEM-12")
def test_kafka_and_semel_read_each_others_files(
    kafka_home: KafkaHome, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    broker = KafkaBroker(kafka_home, tmp_path, settings=SETTINGS)
    request.addfinalizer(broker.kill)
    broker.start()
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_topics([NewTopic(TOPIC, num_partitions=1, replication_factor=1)])
    admin.close()
    broker.stop()

    # We fill the partition's directory, under the topic id Kafka gave it.
    directory = broker.data / f"{TOPIC}-0"
    log = open_at(RealFiles(), CONFIG, directory=str(directory))
    committed = fill(log)
    log.close(NOW)
    end_offset = log.log_end_offset
    ours = files_of(directory, ".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    assert {name.partition(".")[2] for name in ours} == {"log", "index", "timeindex", "txnindex", "snapshot"}

    # Kafka's tool reads every file, finds nothing wrong, and prints what ours prints.
    paths = [directory / name for name in ours]
    by_kafka = shown_by_kafka(kafka_home, paths, "--deep-iteration", "--print-data-log")
    by_us = [line for path in paths for line in dump(RealFiles(), str(path), print_data_log=True)]
    assert by_us == by_kafka
    assert any("isControl: true" in line for line in by_us)
    assert any("endTxnMarker: ABORT coordinatorEpoch: 0" in line for line in by_us)
    assert any("producerId: 1000 producerEpoch: 0" in line and "baseSequence: 4 " in line for line in by_us)
    verified = shown_by_kafka(
        kafka_home, [p for p in paths if p.suffix in (".index", ".timeindex")], "--verify-index-only"
    )
    assert [line for line in verified if not line.startswith("Dumping ")] == []

    # The broker starts on our files after a clean stop, and serves them.
    broker.start()
    assert consume(broker, "read_committed", end_offset) == committed
    broker.stop()

    # After an unclean stop it goes through the log and builds its own indexes: ours to the byte.
    for name in ours:
        if name.endswith((".index", ".timeindex", ".txnindex", ".snapshot")):
            (directory / name).unlink()
    (broker.data / ".kafka_cleanshutdown").unlink()
    (broker.data / "recovery-point-offset-checkpoint").unlink()
    broker.start()
    uncommitted = consume(broker, "read_uncommitted", end_offset)
    assert len(uncommitted) == 40 * 5
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, compression_type="gzip")
    for n in range(50):
        producer.send(TOPIC, value=b"from kafka %d" % n, partition=0).get(timeout=60)
    producer.close()
    broker.kill()
    kafkas = files_of(directory, ".index", ".timeindex", ".txnindex")
    sealed = [name for name in kafkas if int(name[:20]) < log.active.base_offset]
    assert sealed
    assert {name: kafkas[name] for name in sealed} == {name: ours[name] for name in sealed}

    # It was killed: we open what it left, grown index files with trailing zeros included.
    opened = open_at(RealFiles(), CONFIG, directory=str(directory), clean=False)
    values = [
        record.value
        for segment in opened.segments
        for _position, header, data in segment.scan()
        for record in iter_records(data, 0, header)
        if not header.is_control
    ]
    assert values == uncommitted + [b"from kafka %d" % n for n in range(50)]
    assert opened.leader_epochs.latest > 0
    entry = next(e for e in opened.producers.entries() if e.producer_id == 1000)
    assert entry.last_sequence == 4 * 40 - 1
    headers = [header for segment in opened.segments for _position, header in segment.walk()]
    assert headers[-1].next_offset == opened.log_end_offset
    assert {header.compression for header in headers} == {0, 1, 2, 3, 4}
    assert all(isinstance(header, batch.BatchHeader) for header in headers)


@pytest.mark.java
def test_an_older_kafka_reads_ours_too(old_kafka_home: KafkaHome, tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    log = open_at(RealFiles(), CONFIG, directory=str(directory))
    fill(log)
    log.close(NOW)
    path = directory / "00000000000000000000.log"
    shown = old_kafka_home.run(
        "kafka.tools.DumpLogSegments", "--files", str(path), "--deep-iteration"
    ).splitlines()
    assert shown == list(dump(RealFiles(), str(path), deep_iteration=True))

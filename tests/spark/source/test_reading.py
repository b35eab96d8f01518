"""A task reads exactly the records of its ranges: committed ones, in order, in bounded batches, or it says what is missing.

Method: planning and reading as Spark calls them, without Spark, on a broker in a process of its own and on Apache Kafka; what was
produced is the reference.
"""

import itertools
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from semel import Admin, Producer, TopicPartition
from semel.errors import ErrorCode, RefusedError
from semel.exceptions import TimeoutException
from semel.spark.source import reading
from semel.spark.source.batch_reader import BatchReader
from semel.spark.source.broker_client import BrokerClient, Fetched, client_for, close_clients
from semel.spark.source.options import SourceOptions
from semel.spark.source.ranges import DataLossException, OffsetRange
from semel.spark.source.reading import read_ranges
from semel.spark.source.tasks import RangePartition
from support.broker.broker_process import running_broker
from support.spark.spark_kit import markers_written, new_topic, read_all

QUICK = {"fetchOffset.retryIntervalMs": "20"}


@pytest.fixture(autouse=True)
def no_clients_left() -> Iterator[None]:
    yield
    close_clients()


def options(bootstrap: str, topic: str, **more: Any) -> SourceOptions:
    given = {name.replace("__", "."): str(value) for name, value in more.items()}
    base = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, **QUICK}
    return SourceOptions.of({**base, **given}).for_batch()


def batches(chosen: SourceOptions) -> list[pa.RecordBatch]:
    reader = BatchReader(chosen)
    return [batch for part in reader.partitions() for batch in reader.read(part)]


def rows(chosen: SourceOptions) -> pa.Table:
    return pa.Table.from_batches(batches(chosen))


def values(chosen: SourceOptions) -> list[bytes]:
    found = batches(chosen)
    return [value for batch in found for value in batch.column("value").to_pylist()]


def numbers(start: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, end)]


def produce(
    bootstrap: str, topic: str, contents: list[bytes], *, partitions: tuple[int, ...] = (0,), **settings: Any
) -> None:
    """In turn to these partitions."""
    with Producer(bootstrap_servers=bootstrap, **settings) as producer:
        for content, partition in zip(contents, itertools.cycle(partitions), strict=False):
            producer.send(topic, content, partition=partition)


def test_rows_are_the_records(either_bootstrap: str) -> None:
    """Nulls, empty values, headers with and without a value, times, and two partitions."""
    topic = new_topic(either_bootstrap, partitions=2)
    with Producer(bootstrap_servers=either_bootstrap) as producer:
        producer.send(
            topic, b"v", b"k", partition=0, timestamp=1000, headers=[("a", b"1"), ("a", None), ("", b"")]
        )
        producer.send(topic, None, b"gone", partition=0, timestamp=2000)
        producer.send(topic, b"", None, partition=1, timestamp=3000)
    found = rows(options(either_bootstrap, topic, includeHeaders="true")).to_pylist()
    plain = [
        (one["key"], one["value"], one["partition"], one["offset"], one["timestampType"]) for one in found
    ]
    assert plain == [(b"k", b"v", 0, 0, 0), (b"gone", None, 0, 1, 0), (None, b"", 1, 0, 0)]
    assert [one["timestamp"].timestamp() for one in found] == [1, 2, 3]
    assert {one["topic"] for one in found} == {topic}
    pairs = [(one["key"], one["value"]) for one in found[0]["headers"]]
    assert pairs == [("a", b"1"), ("a", None), ("", b"")]
    assert found[1]["headers"] is None


def test_the_log_stamps_records(spark_bootstrap: str) -> None:
    topic = new_topic(spark_bootstrap, partitions=1, message_timestamp_type="LogAppendTime")
    produce(spark_bootstrap, topic, numbers(0, 3))
    assert rows(options(spark_bootstrap, topic)).column("timestampType").to_pylist() == [1, 1, 1]


@pytest.mark.mission("STR-13", "R-50")
def test_only_what_is_committed_is_read(either_bootstrap: str) -> None:
    """Committed, aborted, committed, and one transaction still open: reading ends before that one."""
    topic = new_topic(either_bootstrap, partitions=1)
    settings: dict[str, str | int] = {
        "bootstrap.servers": either_bootstrap,
        "transactional.id": topic,
        "linger.ms": 0,
    }
    with Producer(settings) as producer, Producer({**settings, "transactional.id": f"{topic}-2"}) as other:
        producer.init_transactions()
        for index in range(10):
            producer.begin_transaction()
            for content in numbers(index * 10, index * 10 + 10):
                producer.send(topic, content, partition=0)
            if index % 3 == 1:
                producer.flush()
                producer.abort_transaction()
            else:
                producer.commit_transaction()
        other.init_transactions()
        other.begin_transaction()
        other.send(topic, b"open", partition=0).result()
        produce(either_bootstrap, topic, [b"behind"])
        markers_written(either_bootstrap)
        committed = [
            content
            for index in range(10)
            if index % 3 != 1
            for content in numbers(index * 10, index * 10 + 10)
        ]
        assert values(options(either_bootstrap, topic)) == committed
        everything = values(options(either_bootstrap, topic, kafka__isolation__level="read_uncommitted"))
        assert everything == [*numbers(0, 100), b"open", b"behind"]
        # In ranges that begin and end anywhere, each record is still read once.
        pieces = options(either_bootstrap, topic, maxRecordsPerPartition=7)
        assert values(pieces) == committed
        other.abort_transaction()
    markers_written(either_bootstrap)
    assert values(options(either_bootstrap, topic)) == [*committed, b"behind"]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_ranges_cut_batches_anywhere(spark_bootstrap: str, codec: str) -> None:
    topic = new_topic(spark_bootstrap, partitions=1)
    produce(spark_bootstrap, topic, numbers(0, 5000), compression_type=codec, linger_ms=50)
    where = TopicPartition(topic, 0)
    chosen = options(spark_bootstrap, topic)
    for start, end in ((0, 1), (17, 18), (1, 4999), (4999, 5000), (0, 5000)):
        found = list(read_ranges([OffsetRange(where, start, end)], chosen))
        assert [value for batch in found for value in batch.column("value").to_pylist()] == numbers(
            start, end
        )


def test_one_task_reads_many_partitions(either_bootstrap: str) -> None:
    """One fetch begins all of them; what it did not bring, because it was full, is fetched alone."""
    topic = new_topic(either_bootstrap, partitions=40)
    produce(either_bootstrap, topic, numbers(0, 4000), partitions=tuple(range(40)), linger_ms=20)
    produce(either_bootstrap, topic, [b"large" * 100] * 400, partitions=(7,), linger_ms=20)
    everything = sorted(read_all(either_bootstrap, topic).column("value").to_pylist())
    ranges = [
        OffsetRange(where, 0, end)
        for where, end in client_for(options(either_bootstrap, topic).client)
        .offsets({TopicPartition(topic, one): -1 for one in range(40)})
        .items()
    ]
    for chosen in (
        options(either_bootstrap, topic),
        options(either_bootstrap, topic, kafka__max__partition__fetch__bytes=5000),
    ):
        (batch,) = read_ranges(ranges, chosen)
        assert sorted(batch.column("value").to_pylist()) == everything
        places = list(
            zip(batch.column("partition").to_pylist(), batch.column("offset").to_pylist(), strict=True)
        )
        assert places == [(one.where.partition, offset) for one in ranges for offset in range(one.end)]


def test_a_partition_among_many_that_is_gone_is_a_loss(spark_bootstrap: str) -> None:
    topic = new_topic(spark_bootstrap, partitions=3)
    for partition in range(3):
        produce(spark_bootstrap, topic, numbers(0, 10), partitions=(partition,))
    with Admin(bootstrap_servers=spark_bootstrap) as admin:
        admin.delete_records({(topic, 1): 4})
    ranges = [OffsetRange(TopicPartition(topic, one), 0, 10) for one in range(3)]
    with pytest.raises(DataLossException, match=f"{topic}-1 cannot be read from offset 0"):
        list(read_ranges(ranges, options(spark_bootstrap, topic)))
    (left,) = read_ranges(ranges, options(spark_bootstrap, topic, failOnDataLoss="false"))
    assert left.column("value").to_pylist() == [*numbers(0, 10), *numbers(4, 10), *numbers(0, 10)]


def test_batches_are_bounded(spark_bootstrap: str) -> None:
    topic = new_topic(spark_bootstrap, partitions=1)
    produce(spark_bootstrap, topic, numbers(0, 20_000), linger_ms=20, batch_size=100_000)
    by_rows = batches(options(spark_bootstrap, topic, batchRows=3000))
    assert all(batch.num_rows <= 3000 for batch in by_rows)
    assert len(by_rows) < 20
    by_bytes = batches(options(spark_bootstrap, topic, batchBytes=200_000))
    assert len(by_bytes) > 5
    small_fetches = batches(options(spark_bootstrap, topic, kafka__max__partition__fetch__bytes=10_000))
    assert len(small_fetches) == 1  # Small fetches still make large batches.
    for found in (by_rows, by_bytes, small_fetches):
        assert [value for batch in found for value in batch.column("value").to_pylist()] == numbers(0, 20_000)


@pytest.mark.parametrize(
    ("rows_each", "sizes"), [(60, [60, 60, 60]), (40, [80, 40]), (30, [90]), (100, [100] * 3)]
)
def test_nothing_is_held_that_has_no_room_beside_it(
    monkeypatch: pytest.MonkeyPatch, rows_each: int, sizes: list[int]
) -> None:
    """A batch that the next rows would not fit into goes on before these are fetched and decoded."""
    piece = pa.RecordBatch.from_pydict({"value": pa.array([b"x"] * rows_each)})
    made = list[int]()

    def pieces(*_asked: object) -> Iterator[pa.RecordBatch]:
        for number in range(3):
            made.append(number)
            yield piece

    monkeypatch.setattr(reading, "_rows_of", pieces)
    found = [
        (batch.num_rows, len(made)) for batch in read_ranges([], options("nowhere:1", "t", batchRows=100))
    ]
    assert [size for size, _made in found] == sizes
    assert found[0][1] == sizes[0] // rows_each


def test_rows_larger_than_every_bound_are_read(spark_bootstrap: str) -> None:
    """A record of 5 MB, with fetches of 64 KiB and batches of rows of 1 MiB."""
    topic = new_topic(spark_bootstrap, partitions=1, max_message_bytes="8000000")
    huge = [bytes([65 + index]) * 5_000_000 for index in range(3)]
    produce(spark_bootstrap, topic, [huge[0], b"small", *huge[1:]], max_request_size=8_000_000)
    chosen = options(spark_bootstrap, topic, batchBytes=1 << 20, kafka__max__partition__fetch__bytes=1 << 16)
    found = batches(chosen)
    assert [value for batch in found for value in batch.column("value").to_pylist()] == [
        huge[0],
        b"small",
        *huge[1:],
    ]
    assert max(batch.nbytes for batch in found) < 6_000_000


def test_an_empty_topic_has_no_rows(either_bootstrap: str) -> None:
    topic = new_topic(either_bootstrap, partitions=3)
    assert BatchReader(options(either_bootstrap, topic)).partitions() == []
    assert values(options(either_bootstrap, topic)) == []


def test_offsets_and_times_choose_what_is_read(either_bootstrap: str) -> None:
    topic = new_topic(either_bootstrap, partitions=1)
    with Producer(bootstrap_servers=either_bootstrap) as producer:
        for number in range(100):
            producer.send(topic, b"%d" % number, partition=0, timestamp=1_000_000 + number)

    def read(**more: Any) -> list[bytes]:
        return values(options(either_bootstrap, topic, **more))

    by_partition = '{"%s": {"0": %d}}'
    assert read(startingOffsets=by_partition % (topic, 90)) == numbers(90, 100)
    assert read(endingOffsets=by_partition % (topic, 10)) == numbers(0, 10)
    assert read(startingTimestamp=1_000_050, endingTimestamp=1_000_060) == numbers(50, 60)
    assert read(startingOffsetsByTimestamp=by_partition % (topic, 1_000_098)) == numbers(98, 100)
    assert read(startingTimestamp=1_000_098, endingTimestamp=9_000_000) == numbers(98, 100)
    assert read(endingOffsetsByTimestamp=by_partition % (topic, 1_000_002)) == numbers(0, 2)


# Losses


def test_deleted_records_are_a_loss(either_bootstrap: str) -> None:
    topic = new_topic(either_bootstrap, partitions=1)
    produce(either_bootstrap, topic, numbers(0, 100))
    with Admin(bootstrap_servers=either_bootstrap) as admin:
        admin.delete_records({(topic, 0): 60})
    planned = [OffsetRange(TopicPartition(topic, 0), 20, 80)]
    with pytest.raises(DataLossException, match=r"from offset 20 to 80: it has \[60, 100\)"):
        list(read_ranges(planned, options(either_bootstrap, topic)))
    lenient = options(either_bootstrap, topic, failOnDataLoss="false")
    (found,) = read_ranges(planned, lenient)
    assert found.column("value").to_pylist() == numbers(60, 80)
    assert list(read_ranges([OffsetRange(TopicPartition(topic, 0), 5, 50)], lenient)) == []


def test_an_end_that_is_not_there_is_a_loss(either_bootstrap: str) -> None:
    topic = new_topic(either_bootstrap, partitions=1)
    produce(either_bootstrap, topic, numbers(0, 10))
    planned = [OffsetRange(TopicPartition(topic, 0), 5, 15)]
    quick = {"kafka__fetch__max__wait__ms": 20}
    with pytest.raises(DataLossException, match=r"from offset 10 to 15: it has \[0, 10\)"):
        list(read_ranges(planned, options(either_bootstrap, topic, **quick)))
    (found,) = read_ranges(planned, options(either_bootstrap, topic, failOnDataLoss="false", **quick))
    assert found.column("value").to_pylist() == numbers(5, 10)


@pytest.mark.parametrize("strictness", ["true", "false"])
def test_what_a_partition_has_is_no_loss_however_often_a_leader_denies_it(
    spark_bootstrap: str, monkeypatch: pytest.MonkeyPatch, strictness: str
) -> None:
    """As after an election: the new leader knows the offset a little later than others say it has it."""
    topic = new_topic(spark_bootstrap, partitions=1)
    produce(spark_bootstrap, topic, numbers(0, 10))
    planned = [OffsetRange(TopicPartition(topic, 0), 2, 8)]
    fetched, denials = BrokerClient.fetched, list[int]()

    def denied(self: BrokerClient, under_way: Any) -> Fetched:
        found = fetched(self, under_way)
        if len(denials) < denials_max:
            denials.append(1)
            raise RefusedError(ErrorCode.OFFSET_OUT_OF_RANGE, "out of range")
        return found

    monkeypatch.setattr(BrokerClient, "fetched", denied)
    quick = {"fetchOffset__retryIntervalMs": 1, "failOnDataLoss": strictness}
    denials_max = 10
    (found,) = read_ranges(planned, options(spark_bootstrap, topic, **quick))
    assert found.column("value").to_pylist() == numbers(2, 8)
    assert len(denials) == denials_max
    denials_max = sys.maxsize
    hurried = options(spark_bootstrap, topic, kafkaConsumer__pollTimeoutMs=200, **quick)
    with pytest.raises(TimeoutException, match=r"gave nothing from offset 2 on .*pollTimeoutMs=200"):
        list(read_ranges(planned, hurried))


def test_a_deleted_topic_is_a_loss(either_bootstrap: str) -> None:
    topic = new_topic(either_bootstrap, partitions=1)
    produce(either_bootstrap, topic, numbers(0, 10))
    planned = [OffsetRange(TopicPartition(topic, 0), 0, 10)]
    strict, lenient = (
        options(either_bootstrap, topic),
        options(either_bootstrap, topic, failOnDataLoss="false"),
    )
    with Admin(bootstrap_servers=either_bootstrap) as admin:
        admin.delete_topics([topic])
    with pytest.raises(DataLossException, match="does not exist"):
        list(read_ranges(planned, strict))
    assert list(read_ranges(planned, lenient)) == []


# Clients and brokers


def test_a_broker_that_restarts_is_waited_for(tmp_path: Path) -> None:
    """Killed between two fetches, back on the same port: the task goes on where it was."""
    with running_broker(tmp_path) as broker:
        bootstrap = broker.bootstrap
        topic = new_topic(bootstrap, partitions=1)
        produce(bootstrap, topic, numbers(0, 3000))
        chosen = options(bootstrap, topic, batchRows=100, kafka__max__partition__fetch__bytes=2000)
        (part,) = BatchReader(chosen).partitions()
        assert isinstance(part, RangePartition)
        reading = read_ranges(part.ranges, chosen)
        seen = next(reading).column("value").to_pylist()
        broker.process.kill()
        broker.process.wait()
    with running_broker(tmp_path, listen=bootstrap):
        for batch in reading:
            seen += batch.column("value").to_pylist()
    assert seen == numbers(0, 3000)


def test_a_process_shares_one_client_and_many_threads_may_use_it(spark_bootstrap: str) -> None:
    topic = new_topic(spark_bootstrap, partitions=1)
    produce(spark_bootstrap, topic, numbers(0, 2000))
    chosen = options(spark_bootstrap, topic)
    assert client_for(chosen.client) is client_for(dict(chosen.client))
    found: list[list[bytes]] = []
    threads = [threading.Thread(target=lambda: found.append(values(chosen))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [numbers(0, 2000)] * 4


def test_an_abandoned_read_leaves_nothing_under_way(spark_bootstrap: str) -> None:
    """Spark closes a task's generator when the query has enough rows, as `limit` does."""
    topic = new_topic(spark_bootstrap, partitions=1)
    produce(spark_bootstrap, topic, numbers(0, 5000))
    chosen = options(spark_bootstrap, topic, batchRows=100, kafka__max__partition__fetch__bytes=2000)
    reading = BatchReader(chosen).read(RangePartition((OffsetRange(TopicPartition(topic, 0), 0, 5000),)))
    next(reading)
    reading.close()  # type: ignore[attr-defined]  # a generator, as Spark sees it too
    client = client_for(chosen.client)
    assert len(client.offsets({TopicPartition(topic, 0): -1})) == 1
    assert not client.is_in_use


def test_what_was_read_is_what_a_consumer_reads(either_bootstrap: str) -> None:
    """The same rows as our own consumer gives, partition by partition."""
    topic = new_topic(either_bootstrap, partitions=5)
    with Producer(bootstrap_servers=either_bootstrap) as producer:
        for number in range(1000):
            producer.send(topic, b"%d" % number, b"key-%d" % (number % 37))
    wanted = read_all(either_bootstrap, topic).sort_by([("partition", "ascending"), ("offset", "ascending")])
    found = rows(options(either_bootstrap, topic, minPartitions=8))
    for column in ("topic", "partition", "offset", "key", "value"):
        assert found.column(column).to_pylist() == wanted.column(column).to_pylist()


MEMORY_PROGRAM = """
import sys
from pathlib import Path
from semel.spark.source import reading
from semel.spark.source.batch_reader import BatchReader
from semel.spark.source.options import SourceOptions


def peak_bytes():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


options = {"kafka.bootstrap.servers": sys.argv[1], "subscribe": sys.argv[2], **dict(one.split("=") for one in sys.argv[3:])}
reader = BatchReader(SourceOptions.of(options).for_batch())
reading._kernels.decoding(1 << 30)
first = [batch.num_rows for batch in reader.read(reader.partitions()[0])]
before = peak_bytes()
rows = sum(batch.num_rows for part in reader.partitions()[1:] for batch in reader.read(part))
print(rows, peak_bytes() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of a process is read from /proc")
def test_memory_does_not_grow_with_what_is_read(spark_bootstrap: str) -> None:
    """A small partition first, for everything that is loaded once; then 80 MB, within a few times the bounds."""
    topic = new_topic(spark_bootstrap, partitions=2)
    with Producer(
        bootstrap_servers=spark_bootstrap, batch_size=1 << 20, max_request_size=1 << 21
    ) as producer:
        for partition in (0, *[1] * 8):
            placed = pa.array([partition] * 10_000, pa.int32())
            table = pa.table({"value": pa.array([b"x" * 1000] * 10_000), "partition": placed})
            producer.send_arrow(topic, table).result()
    bounds = ("batchBytes=2000000", "kafka.max.partition.fetch.bytes=1048576")
    done = subprocess.run(
        [sys.executable, "-c", MEMORY_PROGRAM, spark_bootstrap, topic, *bounds],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows, growth = map(int, done.stdout.split())
    assert rows == 80_000
    assert growth < 16_000_000

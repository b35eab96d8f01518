"""Arrow columns go to the log as the same records sent one by one would: same partitions, same order, same bytes.

Method: a table with every kind of cell against `stored`, which reads the partition's files; where rows go is compared with
the partitioner for single keys.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import semel
from compat_kit import ThreadBroker, batches, stored
from semel import aio
from semel.client.partitioner import partition_for_key

TIMEOUT = 60
PARTITIONS = 5


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadBroker]:
    with ThreadBroker(tmp_path_factory.mktemp("data"), num_partitions=str(PARTITIONS)) as running:
        yield running


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return str(request.node.name).replace("[", "-").replace("]", "")


@pytest.fixture
def sending(broker: ThreadBroker) -> Iterator[semel.Producer]:
    with semel.Producer(bootstrap_servers=broker.bootstrap) as one:
        yield one


def found(broker: ThreadBroker, topic: str) -> dict[int, list[Any]]:
    return {index: stored(broker.directory, topic, index) for index in range(PARTITIONS)}


def test_rows_with_keys_go_where_their_keys_belong_and_keep_their_order(
    broker: ThreadBroker, sending: semel.Producer, topic: str
) -> None:
    keys = [b"key-%d" % (n % 97) for n in range(3000)]
    values = [None if n % 10 == 3 else b"value %d" % n for n in range(3000)]
    table = pa.table({"key": pa.array(keys), "value": pa.array(values)})
    ranges = sending.send_arrow(topic, table).result(TIMEOUT)
    assert sum(one.records for one in ranges) == 3000
    for index, records in found(broker, topic).items():
        expected = [
            (k, v) for k, v in zip(keys, values, strict=True) if partition_for_key(k, PARTITIONS) == index
        ]
        assert [(r.key, r.value) for r in records] == expected
        assert sum(one.records for one in ranges if one.partition == index) == len(expected)


def test_every_column_arrives(broker: ThreadBroker, sending: semel.Producer, topic: str) -> None:
    pairs = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    table = pa.table(
        {
            "key": pa.array(["a", None, "c"]),
            "value": pa.array([b"1", b"", None], pa.large_binary()),
            "timestamp": pa.array([5, 6, None], pa.timestamp("ms")),
            "headers": pa.array([[("h", b"x")], [], None], pairs),
            "partition": pa.array([3, 3, 3], pa.int32()),
            "other": pa.array([1, 2, 3]),
        }
    )
    ((told),) = sending.send_arrow(topic, table, timestamp=77).result(TIMEOUT)
    assert told == (topic, 3, 0, 3)
    assert [(r.key, r.value, r.timestamp_ms, r.headers) for r in found(broker, topic)[3]] == [
        (b"a", b"1", 5, (("h", b"x"),)),
        (None, b"", 6, ()),
        (b"c", None, 77, ()),
    ]


def test_a_partition_that_is_given_wins_and_where_it_is_null_the_key_decides(
    broker: ThreadBroker, sending: semel.Producer, topic: str
) -> None:
    table = pa.table({"key": ["k", "k"], "value": ["given", "hashed"], "partition": pa.array([4, None])})
    sending.send_arrow(topic, table).result(TIMEOUT)
    hashed = partition_for_key(b"k", PARTITIONS)
    assert b"given" in [r.value for r in found(broker, topic)[4]]
    assert b"hashed" in [r.value for r in found(broker, topic)[hashed]]


def test_rows_without_keys_stay_together_for_a_batch(
    broker: ThreadBroker, sending: semel.Producer, topic: str
) -> None:
    values = [b"%06d" % n for n in range(1000)]
    ranges = sending.send_arrow(topic, pa.table({"value": values})).result(TIMEOUT)
    assert [one.records for one in ranges] == [1000]
    assert [r.value for r in found(broker, topic)[ranges[0].partition]] == values


@pytest.mark.parametrize("kind", ["table", "batch", "reader", "stream"])
def test_whatever_holds_columns_can_be_sent(
    broker: ThreadBroker, sending: semel.Producer, topic: str, kind: str
) -> None:
    table = pa.concat_tables(
        [pa.table({"value": [b"%d" % n], "partition": pa.array([0], pa.int8())}) for n in range(5)]
    )

    class Exporting:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return table.__arrow_c_stream__(requested_schema)

    given: Any = {
        "table": table,
        "batch": table.combine_chunks().to_batches()[0],
        "reader": table.to_reader(),
        "stream": Exporting(),
    }[kind]
    sending.send_arrow(topic, given).result(TIMEOUT)
    assert [r.value for r in found(broker, topic)[0]] == [b"%d" % n for n in range(5)]
    assert len(list(batches(broker.directory, topic))) == 1, "small pieces are joined"


def test_records_and_rows_keep_the_order_in_which_they_were_given(
    broker: ThreadBroker, sending: semel.Producer, topic: str
) -> None:
    rows = pa.table({"value": [b"b", b"c"], "partition": [1, 1]})
    sending.send(topic, b"a", partition=1)
    sending.send_arrow(topic, rows)
    sending.send(topic, b"d", partition=1)
    sending.flush()
    assert [r.value for r in found(broker, topic)[1]] == [b"a", b"b", b"c", b"d"]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_compressed_columns_and_records_read_back(broker: ThreadBroker, topic: str, compression: str) -> None:
    values = [b"row %05d" % n for n in range(500)]
    with semel.Producer(bootstrap_servers=broker.bootstrap, compression_type=compression) as sending:
        sending.send_arrow(topic, pa.table({"value": values, "partition": [0] * 500}))
        for value in values:
            sending.send(topic, value, partition=0)
    made = list(batches(broker.directory, topic))
    assert {header.compression for header, _records in made} == {
        ["none", "gzip", "snappy", "lz4", "zstd"].index(compression)
    }
    assert [r.value for _header, records in made for r in records] == values * 2


def test_what_cannot_be_rows_is_refused_with_its_place(sending: semel.Producer, topic: str) -> None:
    for table, kind, text in (
        ({"value": ["a", "b"], "partition": [0, 9]}, semel.IllegalArgumentException, "row 1: partition 9"),
        ({"value": ["a"], "partition": ["x"]}, semel.IllegalArgumentException, "whole numbers"),
        ({"value": [1]}, semel.InvalidRecordException, "column value has type int64"),
        ({"other": [1]}, semel.InvalidRecordException, "a key or a value column"),
        ({"value": [b"x" * (2 << 20)]}, semel.RecordTooLargeException, "max.request.size"),
    ):
        with pytest.raises(kind, match=text):
            sending.send_arrow(topic, pa.table(table))
    with pytest.raises(semel.IllegalArgumentException, match="not a list"):
        sending.send_arrow(topic, [1])


def test_memory_stays_within_its_bound_while_a_reader_is_sent(broker: ThreadBroker, topic: str) -> None:
    most = 0
    schema = pa.schema([("value", pa.binary()), ("partition", pa.int32())])
    with semel.Producer(bootstrap_servers=broker.bootstrap, buffer_memory=4 << 20) as sending:
        accumulator = sending._core.outbox.accumulator

        def rows() -> Iterator[pa.RecordBatch]:
            nonlocal most
            for _ in range(40):
                most = max(most, accumulator.used_bytes)
                yield pa.record_batch({"value": [b"x" * 1000] * 1000, "partition": [0] * 1000}, schema=schema)

        ranges = sending.send_arrow(topic, pa.RecordBatchReader.from_batches(schema, rows())).result(TIMEOUT)
        assert sum(one.records for one in ranges) == 40_000
        assert 0 < most <= 4 << 20
        assert accumulator.used_bytes == 0


def test_the_round_robin_goes_on_from_row_to_row_and_a_callable_is_refused(
    broker: ThreadBroker, topic: str
) -> None:
    table = pa.table({"key": ["k"] * 7, "value": [b"%d" % n for n in range(7)]})
    with semel.Producer(
        bootstrap_servers=broker.bootstrap, partitioner_class="RoundRobinPartitioner"
    ) as turning:
        turning.send(topic, b"record").result(TIMEOUT)
        turning.send_arrow(topic, table).result(TIMEOUT)
        some = table.append_column("partition", pa.array([None, 0, 0, None, 0, 0, 0], pa.int32()))
        turning.send_arrow(topic, some).result(TIMEOUT)
        turning.send(topic, b"last").result(TIMEOUT)
    values = {index: [r.value for r in records] for index, records in found(broker, topic).items()}
    assert values == {
        0: [b"record", b"4", b"1", b"2", b"4", b"5", b"6", b"last"],
        1: [b"0", b"5"],
        2: [b"1", b"6"],
        3: [b"2", b"0"],
        4: [b"3", b"3"],
    }

    def own(*_: object) -> int:
        return 0

    with semel.Producer(bootstrap_servers=broker.bootstrap, partitioner_class=own) as asking:
        with pytest.raises(
            semel.IllegalArgumentException, match=r"partitioner\.class is .* a column partition"
        ):
            asking.send_arrow(topic, table)
        with pytest.raises(semel.IllegalArgumentException, match="a column partition without nulls"):
            asking.send_arrow(topic, some)
        named = table.append_column("partition", pa.array([2] * 7, pa.int32()))
        assert {one.partition for one in asking.send_arrow(topic, named).result(TIMEOUT)} == {2}


def test_columns_are_sent_from_asyncio_too(broker: ThreadBroker, topic: str) -> None:
    async def story() -> int:
        async with aio.Producer(bootstrap_servers=broker.bootstrap, buffer_memory=3 << 20) as sending:
            table = pa.table({"key": [b"k%d" % n for n in range(100_000)], "value": [b"v" * 80] * 100_000})
            return sum(one.records for one in await (await sending.send_arrow(topic, table)))

    assert asyncio.run(story()) == 100_000
    assert sum(len(records) for records in found(broker, topic).values()) == 100_000

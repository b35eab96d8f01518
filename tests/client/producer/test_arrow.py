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
from semel import aio
from semel.client.partitioner import partition_for_key
from support.compat.compat_kit import ThreadBroker, batches, stored

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
            "timestamp": pa.array([5, 6, None], pa.timestamp("ms", "UTC")),
            "headers": pa.array([[("h", b"x")], [], None], pairs),
            "partition": pa.array([3, 3, 3], pa.int32()),
            "other": pa.array([1, 2, 3]),
        }
    )
    ((told),) = sending.send_arrow(topic, table, timestamp=77, ignore_columns="other").result(TIMEOUT)
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


PAIRS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
REFUSED: dict[str, tuple[Any, str]] = {
    "partition there is none of": ({"value": ["a", "b"], "partition": [0, 9]}, "row 1: partition 9"),
    "partition below zero": ({"value": ["a"], "partition": [-1]}, "row 0: partition -1"),
    "partition beyond": (
        {"value": ["a"], "partition": pa.array([2**64 - 1], pa.uint64())},
        "row 0: partition 18446744073709551615",
    ),
    "partition as text": ({"value": ["a"], "partition": ["x"]}, "column partition has type string: .* whole numbers"),
    "partition as float": ({"value": ["a"], "partition": [0.0]}, "column partition has type double: .*int32"),
    "value as number": ({"value": [1]}, "column value has type int64: it must be bytes or text.*cast"),
    "key as number": ({"key": [1], "value": ["a"]}, "column key has type int64: it must be bytes or text.*'key'"),
    "key as list": ({"key": [["a"]], "value": ["a"]}, "column key has type list<.*: it must be bytes or text"),
    "key of many numbers": (
        {"key": pa.array([1, 1]).dictionary_encode(), "value": ["a", "b"]},
        "column key has type dictionary<.*: it must be bytes or text",
    ),
    "nothing": ({}, "a key or a value column"),
    "no content": ({"partition": [0]}, "columns partition: there must be a key or a value column"),
    "unknown column": (
        {"value": ["a"], "offset": [1]},
        r"column offset is of no record: send_arrow takes key, value, .* ignore_columns=\['offset'\]",
    ),
    "unknown columns": ({"value": ["a"], "b": [1], "Key": ["k"]}, "columns b, Key are of no record"),
    "only unknown": ({"other": [1]}, "column other is of no record"),
    "column twice": (pa.table([["a"], ["b"]], names=["value", "value"]), "column value is there more than once"),
    "time as text": ({"value": ["a"], "timestamp": ["2026"]}, "column timestamp has type string: .*tz='UTC'"),
    "time as float": ({"value": ["a"], "timestamp": [1.5]}, "column timestamp has type double"),
    "time as day": ({"value": ["a"], "timestamp": pa.array([1], pa.date32())}, "column timestamp has type date32"),
    "time before 1970": ({"value": ["a", "b"], "timestamp": [1, -5]}, "row 1: timestamp -5 ms is before 1970"),
    "time too large": (
        {"value": ["a"], "timestamp": pa.array([2**62], pa.timestamp("s", "UTC"))},
        "column timestamp of type .* is not a number of milliseconds",
    ),
    "number too large": (
        {"value": ["a"], "timestamp": pa.array([2**63], pa.uint64())},
        "column timestamp of type uint64 .* is not a number of milliseconds",
    ),
    "headers as text": ({"value": ["a"], "headers": ["h"]}, "column headers has type string: it must be a list"),
    "headers as map": (
        {"value": ["a"], "headers": pa.array([[("h", b"v")]], pa.map_(pa.string(), pa.binary()))},
        "column headers has type map",
    ),
    "header values as numbers": (
        {"value": ["a"], "headers": pa.array([[{"key": "h", "value": 1}]])},
        "column headers has type list<.*int64.*: it must be a list of structs",
    ),
    "header without a key": (
        {"value": ["a", "b"], "headers": pa.array([[("h", b"v")], [("h", b"v"), (None, b"v")]], PAIRS)},
        "row 1: a header has no key",
    ),
    "header that is null": (
        {"value": ["a", "b", "c"], "headers": pa.array([None, [("h", b"v")], [None]], PAIRS)},
        "row 2: a header is null",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_rows_is_refused_by_column_and_row(
    broker: ThreadBroker, sending: semel.Producer, kind: str
) -> None:
    given, text = REFUSED[kind]
    table = given if isinstance(given, pa.Table) else pa.table(given)
    topic = "refused"
    with pytest.raises(semel.IllegalArgumentException, match=text):
        sending.send_arrow(topic, table)

    async def story() -> None:
        async with aio.Producer(bootstrap_servers=broker.bootstrap) as producer:
            with pytest.raises(semel.IllegalArgumentException, match=text):
                await producer.send_arrow(topic, table.to_reader())
            await (await producer.send_arrow(topic, pa.table({"value": ["good"]})))

    asyncio.run(story())
    assert sending.send_arrow(topic, pa.table({"value": ["good"]})).result(TIMEOUT)


def test_arguments_of_send_arrow_are_refused_by_name(sending: semel.Producer, topic: str) -> None:
    rows = pa.table({"value": ["a"]})
    given: Any
    for given, text in (
        ((topic, [1]), "not a list"),
        ((topic, {"value": ["a"]}), "not a dict"),
        ((topic, None), "not None"),
        ((7, rows), "topic=7: invalid topic name: .*got an int"),
        (("a b", rows), "topic='a b': invalid topic name"),
    ):
        with pytest.raises(semel.KafkaException, match=text):
            sending.send_arrow(*given)
    odd: Any
    for odd in (1.5, "2026-01-01", True, -1):
        with pytest.raises(semel.IllegalArgumentException, match="timestamp"):
            sending.send_arrow(topic, rows, timestamp=odd)
    for odd in (7, [7], None):
        with pytest.raises(semel.IllegalArgumentException, match="ignore_columns"):
            sending.send_arrow(topic, rows, ignore_columns=odd)
    with pytest.raises(semel.RecordTooLargeException, match=r"max\.request\.size"):
        sending.send_arrow(topic, pa.table({"value": [b"x" * (2 << 20)]}))


def test_a_row_is_told_by_its_place_in_all_of_them(sending: semel.Producer, topic: str) -> None:
    count = 70_000  # More than a piece.
    schema = pa.schema([("value", pa.string()), ("partition", pa.int32())])
    table = pa.table({"value": ["v"] * count, "partition": [*([0] * (count - 1)), 9]}, schema=schema)
    with pytest.raises(semel.IllegalArgumentException, match=f"row {count - 1}: partition 9"):
        sending.send_arrow(topic, table)


def test_columns_no_record_has_are_let_go_where_that_is_said(
    broker: ThreadBroker, sending: semel.Producer, topic: str
) -> None:
    table = pa.table({"key": ["k"], "value": ["v"], "offset": [7], "topic": ["x"], "partition": [3]})
    for ignored in (True, ["offset", "topic"], ("offset", "topic", "not there")):
        ((told),) = sending.send_arrow(topic, table, ignore_columns=ignored).result(TIMEOUT)
        assert told.partition == 3
    without = ["offset", "topic", "partition"]
    ((told),) = sending.send_arrow(topic, table, ignore_columns=without).result(TIMEOUT)
    assert told.partition == partition_for_key(b"k", PARTITIONS), "a column of records may be let go too"
    with pytest.raises(semel.IllegalArgumentException, match="column topic is of no record"):
        sending.send_arrow(topic, table, ignore_columns="offset")
    with pytest.raises(semel.IllegalArgumentException, match="columns offset, topic are of no record"):
        sending.send_arrow(topic, table, ignore_columns=False)


KINDS = {
    "binary": pa.binary(),
    "string": pa.string(),
    "large_binary": pa.large_binary(),
    "large_string": pa.large_string(),
    "binary_view": pa.binary_view(),
    "string_view": pa.string_view(),
    "fixed": pa.binary(2),
    "dictionary": pa.dictionary(pa.int32(), pa.string()),
}


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_and_text_of_every_kind_of_column_are_sent(
    broker: ThreadBroker, sending: semel.Producer, topic: str, kind: str
) -> None:
    words = pa.array([b"k%d" % n for n in range(8)], pa.binary())
    text = words.cast(pa.string())
    column = text.dictionary_encode() if kind == "dictionary" else words.cast(KINDS[kind])
    name, content = (
        (pa.string_view(), pa.binary_view()) if kind == "string_view" else (pa.string(), pa.binary())
    )
    pairs = pa.list_(pa.struct([("key", name), ("value", content)]))
    headers = pa.array([[("h", b"v")], None] * 4, pairs)
    sending.send_arrow(topic, pa.table({"key": column, "value": column, "headers": headers})).result(TIMEOUT)
    for index, records in found(broker, topic).items():
        expected = [n for n in range(8) if partition_for_key(b"k%d" % n, PARTITIONS) == index]
        assert [(r.key, r.value) for r in records] == [(b"k%d" % n, b"k%d" % n) for n in expected]
        assert [r.headers for r in records] == [() if n % 2 else (("h", b"v"),) for n in expected]


def test_tables_without_rows_are_sent_too_and_their_columns_are_judged(
    sending: semel.Producer, topic: str
) -> None:
    none = pa.table({"value": pa.array([], pa.string())})
    for data in (none, none.to_reader(), pa.RecordBatch.from_pylist([], schema=none.schema)):
        assert sending.send_arrow(topic, data).result(TIMEOUT) == []
    with pytest.raises(semel.IllegalArgumentException, match="column other is of no record"):
        sending.send_arrow(topic, none.append_column("other", pa.array([], pa.int8())))


def test_rows_that_cannot_be_read_to_their_end_keep_the_transaction_from_being_committed(
    broker: ThreadBroker, topic: str
) -> None:
    schema = pa.schema([("value", pa.binary()), ("partition", pa.int32())])

    def rows() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"value": [b"half"] * 70_000, "partition": [0] * 70_000}, schema=schema)
        raise LookupError("the file ends here")

    with semel.Producer(bootstrap_servers=broker.bootstrap, transactional_id=topic) as sending:
        sending.init_transactions()
        sending.begin_transaction()
        with pytest.raises(LookupError):
            sending.send_arrow(topic, pa.RecordBatchReader.from_batches(schema, rows()))
        with pytest.raises(semel.KafkaException) as refused:
            sending.commit_transaction()
        assert refused.value.abortable
        sending.abort_transaction()
        with sending.transaction():
            sending.send_arrow(topic, pa.table({"value": ["whole"]}))


def test_memory_stays_within_its_bound_while_a_reader_is_sent(broker: ThreadBroker, topic: str) -> None:
    most = 0
    schema = pa.schema([("value", pa.binary()), ("partition", pa.int32())])
    with semel.Producer(bootstrap_servers=broker.bootstrap, buffer_memory=4 << 20) as sending:
        accumulator = sending._engine.outbox.accumulator

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

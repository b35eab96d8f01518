"""A topic as rows and back: every row parses or says why not, and the same row always gives the same bytes.

Method: rows as the connector gives them, made by hand, so that no broker is needed for what is decided without one.
"""

import datetime as dt
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from semel.errors import ConfigError
from semel.exceptions import IllegalArgumentException
from semel.spark.pipelines.dead_letters import bad_rows, good_rows
from semel.spark.pipelines.parsing import parsed
from semel.spark.pipelines.records import read, stream, to_records
from semel.spark.pipelines.stateless import branch
from semel.spark.pipelines.table import count, largest, smallest, to_changelog, to_table, total

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CONNECTOR = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
SCHEMA = "id STRING NOT NULL, n INT, tags ARRAY<STRING>"
Record = tuple[bytes | None, bytes | None]


def connector_rows(spark: "SparkSession", records: list[Record]) -> "DataFrame":
    at = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    rows = [
        (key, value, "orders", 0, offset, at, 0, [("h", b"1")]) for offset, (key, value) in enumerate(records)
    ]
    return spark.createDataFrame(rows, CONNECTOR)


def test_values_are_parsed_or_the_reason_is_told(spark: "SparkSession") -> None:
    records: list[Record] = [
        (b"k", b'{"id": "a", "n": 1, "tags": ["x", "y"], "unknown": true}'),
        (b"k", b'{"id": "b"}'),
        (b"k", None),
        (b"k", b'{"id": "c", "n": "many"}'),
        (b"k", b'{"n": 1}'),
        (b"k", b"no json"),
        (b"k", b""),
        (b"k", b"[1]"),
        (b"k", b'{"id": "\xff"}'),
        (b"k", b'{"id": "cut'),
    ]
    raw = connector_rows(spark, records)
    rows = parsed(raw, SCHEMA, key=(), bad_rows="keep")
    told = [
        (row["id"], row["n"], row["tags"], row["_error"]) for row in rows.orderBy("_record.offset").collect()
    ]
    assert told[:3] == [("a", 1, ["x", "y"], None), ("b", None, None, None), (None, None, None, None)]
    no_object = "the value is no JSON object with struct<id:string,n:int,tags:array<string>>"
    assert [error for *_, error in told[3:]] == [
        no_object,
        "id is missing or null",
        no_object,
        no_object,
        no_object,
        "the value is not text in UTF-8",
        no_object,
    ]
    assert [row["id"] for row in good_rows(rows).orderBy("_record.offset").collect()] == ["a", "b", None]
    letters = bad_rows(rows).orderBy("offset").collect()
    assert [(bytes(row["value"]), row["offset"]) for row in letters] == [
        (value, offset) for offset, (_, value) in enumerate(records) if offset >= 3
    ]
    assert parsed(raw, SCHEMA, key=(), bad_rows="drop").count() == 3
    with pytest.raises(Exception, match=r"a row does not parse: .* \(offset \d of orders-0\)\. bad_rows="):
        parsed(raw, SCHEMA, key=(), bad_rows="fail").select("_record.offset").collect()


def test_columns_of_the_key_are_read_from_it_also_for_a_deletion(spark: "SparkSession") -> None:
    raw = connector_rows(spark, [(b"7", b'{"id": 99, "n": 1}'), (b"8", None), (b"x", b"{}"), (None, b"{}")])
    rows = parsed(raw, "id INT, n INT", key=("id",), bad_rows="keep").orderBy("_record.offset").collect()
    assert [(row["id"], row["n"], row["_error"]) for row in rows] == [
        (7, 1, None),
        (8, None, None),
        (None, None, "the key has no id"),
        (None, None, "the key has no id"),
    ]
    two = connector_rows(spark, [(b'{"a": "x", "b": 2}', b'{"n": 3}'), (b'{"a": "x"}', None)])
    rows = (
        parsed(two, "a STRING, b INT, n INT", key=("a", "b"), bad_rows="keep")
        .orderBy("_record.offset")
        .collect()
    )
    assert [(row["a"], row["b"], row["n"], row["_error"]) for row in rows] == [
        ("x", 2, 3, None),
        ("x", None, None, "the key has no b"),
    ]


def test_rows_become_records_and_come_back_the_same(spark: "SparkSession") -> None:
    schema = (
        "id STRING, n BIGINT, x DOUBLE, `a.b` STRING, at TIMESTAMP, tags ARRAY<STRING>, inner STRUCT<p: INT>"
    )
    at = dt.datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=dt.UTC)
    rows = spark.createDataFrame(
        [("ä'\"1", 2**60, 0.1, "dot", at, ["", "t"], (1,)), ("2", None, None, None, None, None, None)], schema
    )
    records = [(bytes(row["key"]), bytes(row["value"])) for row in to_records(rows, key="id").collect()]
    assert [key for key, _ in records] == ["ä'\"1".encode(), b"2"]
    again = parsed(connector_rows(spark, list(records)), schema, key=("id",), bad_rows="fail").drop("_record")
    assert again.orderBy("id").collect() == rows.orderBy("id").collect()
    twice = [(bytes(row["key"]), bytes(row["value"])) for row in to_records(rows, key="id").collect()]
    assert twice == records

    several = to_records(rows, key=["id", "n"]).collect()
    assert bytes(several[1]["key"]) == b'{"id":"2","n":null}'
    plain = to_records(rows.selectExpr("n", "id AS text"), key="n", value="text", topic="t").collect()
    assert [(row["key"] and bytes(row["key"]), bytes(row["value"]), row["topic"]) for row in plain] == [
        (b"%d" % 2**60, "ä'\"1".encode(), "t"),
        (None, b"2", "t"),
    ]


def test_branches_choose_the_first_or_every_topic(spark: "SparkSession") -> None:
    rows = spark.range(6).selectExpr("id AS n")
    routes: Any = {"even": "n % 2 = 0", "three": "n % 3 = 0"}

    def routed(**options: Any) -> list[tuple[str, int]]:
        return sorted((row["_topic"], row["n"]) for row in branch(rows, routes, **options).collect())

    assert routed() == [("even", 0), ("even", 2), ("even", 4), ("three", 3)]
    assert routed(otherwise="rest") == [
        ("even", 0),
        ("even", 2),
        ("even", 4),
        ("rest", 1),
        ("rest", 5),
        ("three", 3),
    ]
    assert routed(every=True) == [("even", 0), ("even", 2), ("even", 4), ("three", 0), ("three", 3)]
    assert routed(every=True, otherwise="rest")[3:5] == [("rest", 1), ("rest", 5)]
    records = to_records(branch(rows, routes), key="n").collect()
    assert {(row["topic"], bytes(row["value"])) for row in records} >= {
        ("even", b'{"n":4}'),
        ("three", b'{"n":3}'),
    }


def test_dead_letters_go_as_they_came_with_the_reason_in_headers(spark: "SparkSession") -> None:
    raw = connector_rows(spark, [(b"k1", b'{"id": "a"}'), (b"k2", b"junk")])
    rows = parsed(raw, "id STRING", key=(), bad_rows="keep")
    good, dead = to_records(rows, key="id", topic="clean", dead_letters="dead").orderBy("topic").collect()
    assert (bytes(good["key"]), bytes(good["value"]), good["topic"], good["headers"]) == (
        b"a",
        b'{"id":"a"}',
        "clean",
        None,
    )
    assert (bytes(dead["key"]), bytes(dead["value"]), dead["topic"]) == (b"k2", b"junk", "dead")
    headers = [(header["key"], bytes(header["value"])) for header in dead["headers"]]
    assert headers == [
        ("h", b"1"),
        ("semel.error", b"the value is no JSON object with struct<id:string>"),
        ("semel.topic", b"orders"),
        ("semel.partition", b"0"),
        ("semel.offset", b"1"),
    ]
    with pytest.raises(ConfigError, match="needs topic="):
        to_records(rows, key="id", dead_letters="dead")
    with pytest.raises(ConfigError, match="there is no column di for a key: there are id"):
        to_records(rows, key="di")
    with pytest.raises(ConfigError, match='bad_rows="keep"'):
        to_records(parsed(raw, "id STRING", key=(), bad_rows="drop"), topic="t", dead_letters="dead")


def test_a_table_is_the_latest_row_of_every_key(spark: "SparkSession") -> None:
    records: list[Record] = [
        (b"a", b'{"n": 1}'),
        (b"b", b'{"n": 2}'),
        (b"a", b'{"n": 3}'),
        (b"b", None),
        (b"c", None),
        (b"c", b'{"n": 4}'),
    ]
    rows = parsed(connector_rows(spark, records), "k STRING, n INT", key=("k",), bad_rows="fail")
    latest = to_table(rows, key="k")
    assert sorted(map(tuple, latest.collect())) == [("a", 3, False), ("b", None, True), ("c", 4, False)]
    changelog = {bytes(row["key"]): row["value"] for row in to_changelog(latest, key="k").collect()}
    assert changelog == {b"a": b'{"k":"a","n":3}', b"b": None, b"c": b'{"k":"c","n":4}'}

    by_value = spark.createDataFrame(
        [("a", 2, "two"), ("a", 1, "one"), ("b", 1, "one")], "k STRING, v INT, w STRING"
    )
    assert sorted(map(tuple, to_table(by_value, key="k", order_by="v").collect())) == [
        ("a", 2, "two", False),
        ("b", 1, "one", False),
    ]
    seed = spark.createDataFrame([("a", 9, "old"), ("z", 5, "old")], by_value.schema)
    assert sorted(map(tuple, to_table(by_value, key="k", order_by="v", seed=seed).collect())) == [
        ("a", 9, "old", False),
        ("b", 1, "one", False),
        ("z", 5, "old", False),
    ]
    seeded = to_table(rows, key="k", seed=spark.createDataFrame([("a", 7), ("z", 8)], "k STRING, n INT"))
    assert min(map(tuple, seeded.collect())) == ("a", 3, False), "the stream is later"
    assert ("z", 8, False) in set(map(tuple, seeded.collect()))


def test_aggregates_go_on_from_a_table_as_if_nothing_had_happened(spark: "SparkSession") -> None:
    rows = spark.createDataFrame([("a", 1), ("a", 5), ("b", 2), ("a", -3)], "k STRING, v INT")
    wanted = {"n": count(), "v": total("v"), "low": smallest("v"), "high": largest("v * 2")}
    whole = to_table(rows, key="k", aggregates=wanted)
    assert sorted(map(tuple, whole.collect())) == [("a", 3, 3, -3, 10), ("b", 1, 2, 2, 4)]
    first, second = rows.limit(2), rows.subtract(rows.limit(2))
    parts = to_table(second, key="k", aggregates=wanted, seed=to_table(first, key="k", aggregates=wanted))
    assert sorted(map(tuple, parts.collect())) == sorted(map(tuple, whole.collect()))
    assert parts.schema.simpleString() == whole.schema.simpleString()


def test_what_makes_no_table_is_refused(spark: "SparkSession") -> None:
    rows = spark.createDataFrame([("a", 1), (None, 2)], "k STRING, v INT")
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"key": ()}, "a table needs a key"),
        ({"key": "k"}, "say order_by="),
        ({"key": "k", "order_by": "v", "aggregates": {"n": count()}}, "give one of both"),
        ({"key": "k", "aggregates": {}}, "at least one column"),
        ({"key": "k", "aggregates": {"k": count()}}, "call the aggregate otherwise"),
        ({"key": "nokey", "order_by": "v"}, "there is no column nokey"),
    ]
    for keywords, message in wrong:
        with pytest.raises(ConfigError, match=message):
            to_table(rows, **keywords)
    with pytest.raises(Exception, match="a row has no k: a table needs a key in every row"):
        to_table(rows, key="k", aggregates={"n": count()}).collect()
    raw = connector_rows(spark, [])
    for schema, key, message in (
        ("_record INT", (), "Semel's own: _record"),
        ("a INT", ("b",), "key column b is not in the schema"),
        (None, ("b",), "are for rows with a schema"),
    ):
        with pytest.raises(ConfigError, match=message):
            parsed(raw, schema, key=key, bad_rows="fail")


@pytest.mark.parametrize("reads", [stream, read])
def test_an_option_is_refused_in_the_users_own_spelling(
    spark: "SparkSession", reads: "Callable[..., DataFrame]"
) -> None:
    """Before Spark sees it: Spark passes names on in lower case."""
    with pytest.raises(
        IllegalArgumentException, match=r"^maxOffsetPerTriger is not an option .*maxOffsetsPerTrigger"
    ):
        reads(spark, "orders", bootstrap="localhost:1", maxOffsetPerTriger=3)

"""The columns and rows that make records, for both sinks.

Method: schemas one rule at a time, for each sink; rows of several topics.
"""

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from semel.exceptions import IllegalArgumentException
from semel.spark.sink.atomic.rows import RULES as ATOMIC
from semel.spark.sink.atomic.rows import shape_of
from semel.spark.sink.common.errors import ColumnsRefusedError, SinkRefusedError
from semel.spark.sink.common.rows import ColumnRules, by_topic, check_columns
from semel.spark.sink.dropin.columns import RULES as DROP_IN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

both = pytest.mark.parametrize("rules", [ATOMIC, DROP_IN], ids=["atomic", "drop-in"])


def parse(ddl: str) -> "StructType":
    """By Spark's own parser, which needs a session."""
    from pyspark.sql.types import StructType

    schema = StructType.fromDDL(ddl)
    assert isinstance(schema, StructType)
    return schema


@both
def test_each_topic_gets_its_rows_in_order(rules: ColumnRules) -> None:
    batch = pa.RecordBatch.from_pydict(
        {"topic": ["a", "b", "a", "a"], "value": ["1", "2", "3", "4"], "other": [1, 2, 3, 4]}
    )
    found = {topic: part.to_pydict() for topic, part in by_topic(batch, None, rules)}
    assert found == {"a": {"value": ["1", "3", "4"]}, "b": {"value": ["2"]}}
    ((topic, part),) = by_topic(batch, "fixed", rules)
    assert topic == "fixed"
    assert part.to_pydict() == {"value": ["1", "2", "3", "4"]}


@both
def test_a_row_without_a_topic(rules: ColumnRules) -> None:
    batch = pa.RecordBatch.from_pydict({"topic": ["a", None], "value": ["1", "2"]})
    with pytest.raises(ColumnsRefusedError, match="row 1 of a batch has no topic") as caught:
        list(by_topic(batch, None, rules))
    assert rules.one_topic in caught.value.way_out


@both
def test_times_without_a_zone_are_utc(rules: ColumnRules) -> None:
    times = pa.array([1_000, None], pa.timestamp("us"))
    ((_topic, part),) = by_topic(
        pa.RecordBatch.from_pydict({"value": ["a", "b"], "timestamp": times}), "t", rules
    )
    assert part.column("timestamp").equals(times.cast(pa.timestamp("us", "UTC")))


ALLOWED_BY_BOTH = [
    ("value string", "t"),
    ("key binary, value binary, topic string, partition int, timestamp timestamp", None),
    ("value string, headers array<struct<key:string,value:binary>>, more double", "t"),
    ("value string, topic int", "t"),  # The topic of all rows wins over the column.
    ("value varchar(9), key string collate UTF8_LCASE", "t"),
]
REFUSED_BY_BOTH = [
    ("key string", "t", "'value' not found, there is no value among the columns key"),
    ("value string", None, "topic option required"),
    ("value int", "t", "column value is int, it must be string or binary"),
    (
        "value string, headers map<string,string>",
        "t",
        "column headers is map<string,string>, it must be array<struct<",
    ),
    ("value string, topic int", None, "column topic is int, it must be string"),
    ("value string, timestamp string", "t", "column timestamp is string, it must be timestamp"),
    ("value string, partition string", "t", "column partition is string"),
]


@both
def test_columns_of_both_sinks(spark: "SparkSession", rules: ColumnRules) -> None:
    for ddl, topic in ALLOWED_BY_BOTH:
        check_columns(parse(ddl), topic, rules, where="sink s")
    for ddl, topic, problem in REFUSED_BY_BOTH:
        with pytest.raises(ColumnsRefusedError) as caught:
            check_columns(parse(ddl), topic, rules, where="sink s")
        assert isinstance(caught.value, SinkRefusedError)
        assert isinstance(caught.value, IllegalArgumentException), "as earlier versions raised it"
        assert caught.value.reason.startswith("sink s: ")
        assert problem in caught.value.reason
        assert caught.value.way_out


@pytest.mark.parametrize(
    ("ddl", "allowing"),
    [
        ("value struct<a:int>", ATOMIC),
        ("value string, key array<int>", ATOMIC),
        ("value void", ATOMIC),
        ("value string, partition bigint", ATOMIC),
        ("value string, timestamp bigint", ATOMIC),
        ("value string, timestamp timestamp_ntz", DROP_IN),
        ("value string, headers void", DROP_IN),
    ],
)
def test_columns_of_one_sink(spark: "SparkSession", ddl: str, allowing: ColumnRules) -> None:
    refusing = DROP_IN if allowing is ATOMIC else ATOMIC
    check_columns(parse(ddl), "t", allowing, where="sink s")
    with pytest.raises(ColumnsRefusedError):
        check_columns(parse(ddl), "t", refusing, where="sink s")


def test_structs_are_encoded_and_text_is_not(spark: "SparkSession") -> None:
    shape = shape_of(parse("key struct<a:int>, value string, partition int"), "t", where="sink s")
    assert (shape.nested, shape.has_topic, shape.has_partition, shape.has_headers) == (
        ("key",),
        False,
        True,
        False,
    )

"""Rows of a task: the columns that are allowed, the topic each goes to, and a digest that tells whether they are the same.

Method: schemas one rule at a time; digests by property, cutting the same rows in different ways and changing one cell.
"""

import itertools
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.exceptions import IllegalArgumentException
from semel.spark.dropin.rows import Digest, by_topic, check_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("key", pa.binary()),
        ("value", pa.string()),
        ("headers", HEADERS),
        ("partition", pa.int32()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
    ]
)
text = st.text(max_size=6)
header = st.fixed_dictionaries({"key": text, "value": st.none() | st.binary(max_size=4)})
rows = st.lists(
    st.fixed_dictionaries(
        {
            "topic": st.sampled_from(["a", "b"]),
            "key": st.none() | st.binary(max_size=5),
            "value": st.none() | text,
            "headers": st.none() | st.lists(header, max_size=2),
            "partition": st.none() | st.integers(0, 9),
            "timestamp": st.none() | st.integers(0, 2**50),
        }
    ),
    min_size=1,
    max_size=12,
)


def digest_of(*batches: pa.RecordBatch) -> tuple[int, str]:
    digest = Digest()
    for batch in batches:
        digest.add(batch)
    return digest.rows, digest.text


@given(given_rows=rows, cuts=st.lists(st.integers(0, 12), max_size=3))
def test_the_digest_does_not_depend_on_batches(given_rows: list[dict[str, object]], cuts: list[int]) -> None:
    whole = pa.RecordBatch.from_pylist(given_rows, schema=SCHEMA)
    edges = sorted({0, *(min(cut, len(given_rows)) for cut in cuts), len(given_rows)})
    parts = [whole.slice(start, end - start) for start, end in itertools.pairwise(edges)]
    assert digest_of(*parts) == digest_of(whole)


@given(given_rows=rows, data=st.data())
def test_the_digest_sees_every_cell(given_rows: list[dict[str, object]], data: st.DataObject) -> None:
    whole = pa.RecordBatch.from_pylist(given_rows, schema=SCHEMA)
    changed = [dict(one) for one in given_rows]
    index = data.draw(st.integers(0, len(changed) - 1))
    column = data.draw(st.sampled_from(SCHEMA.names))
    other = data.draw(rows)[0][column]
    changed[index][column] = other
    again = pa.RecordBatch.from_pylist(changed, schema=SCHEMA)
    assert (digest_of(again) == digest_of(whole)) == (again.equals(whole))


def test_the_digest_sees_the_order() -> None:
    batch = pa.RecordBatch.from_pydict({"value": ["a", "b"]})
    assert digest_of(batch) != digest_of(batch.take([1, 0]))


def test_bytes_behind_nulls_do_not_count() -> None:
    """The same rows with other bytes where there is nothing, as a filter may leave them."""
    values = pa.array(["aa", "xx", "bb"], pa.string())
    hidden = pa.Array.from_buffers(
        pa.string(), 3, [pa.py_buffer(bytes([0b101])), *values.buffers()[1:]], null_count=1
    )
    plain = pa.array(["aa", None, "bb"], pa.string())
    assert hidden.equals(plain)
    assert digest_of(pa.RecordBatch.from_arrays([hidden], ["value"])) == digest_of(
        pa.RecordBatch.from_arrays([plain], ["value"])
    )


def test_each_topic_gets_its_rows_in_order() -> None:
    batch = pa.RecordBatch.from_pydict(
        {"topic": ["a", "b", "a", "a"], "value": ["1", "2", "3", "4"], "other": [1, 2, 3, 4]}
    )
    found = {topic: part.to_pydict() for topic, part in by_topic(batch, None)}
    assert found == {"a": {"value": ["1", "3", "4"]}, "b": {"value": ["2"]}}
    ((topic, part),) = by_topic(batch, "fixed")
    assert topic == "fixed"
    assert part.to_pydict() == {"value": ["1", "2", "3", "4"]}


def test_a_row_without_a_topic() -> None:
    batch = pa.RecordBatch.from_pydict({"topic": ["a", None], "value": ["1", "2"]})
    with pytest.raises(IllegalArgumentException, match="row 1 of a batch has no topic"):
        list(by_topic(batch, None))


def test_columns_that_can_be_written(spark: "SparkSession") -> None:
    from pyspark.sql.types import StructType

    def parse(ddl: str) -> StructType:
        schema = StructType.fromDDL(ddl)  # Spark's own parser, which needs a session.
        assert isinstance(schema, StructType)
        return schema

    check_columns(parse("value string"), "t")
    check_columns(parse("key binary, value binary, topic string, partition int, timestamp timestamp"), None)
    check_columns(parse("value string, headers array<struct<key:string,value:binary>>, more double"), "t")
    for ddl, topic, problem in (
        ("key string", "t", "'value' not found among the columns key"),
        ("value string", None, "topic option required"),
        ("value int", "t", "column value has type int: it must be string or binary"),
        ("value string, key struct<a:int>", "t", "column key has type"),
        ("value string, partition bigint", "t", "column partition has type bigint: it must be int"),
        ("value string, headers map<string,string>", "t", "column headers has type"),
        ("value string, topic int", None, "column topic has type int"),
    ):
        with pytest.raises(IllegalArgumentException) as caught:
            check_columns(parse(ddl), topic)
        assert problem in str(caught.value)

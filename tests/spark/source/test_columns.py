"""The columns of a topic in Spark: the connector's names and types, whatever records hold.

Method: batches of any records are decoded by the kernels and in plain Python, and both must give the rows one would write by hand.
"""

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings

from semel.core.client.fetched import Chunk, Decoding
from semel.core.records.batch import TimestampType
from semel.core.records.build import RecordInput, build_batch
from semel.spark.source.columns import (
    HEADERS_TYPE,
    NAMES,
    RowMaker,
    arrow_schema,
    combined,
    in_microseconds,
    spark_schema,
)
from semel.types import TopicPartition
from support.records.records_kit import record_lists

WHERE = TopicPartition("orders", 3)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def rows(data: bytes, decoding: Decoding, *, include_headers: bool = True) -> list[dict[str, Any]]:
    chunk = Chunk(WHERE, 0, data, 0, aborted=None, check_crcs=True)
    maker = RowMaker(WHERE, include_headers=include_headers)
    batches = []
    while (piece := chunk.take(None, decoding)) is not None:
        batches.append(maker.rows_of(piece))
    whole = combined(batches)
    whole.validate(full=True)
    assert whole.schema == arrow_schema(include_headers=include_headers)
    found: list[dict[str, Any]] = whole.to_pylist()
    return found


def row(record: RecordInput, offset: int, kind: TimestampType, stamp_ms: int | None = None) -> dict[str, Any]:
    timestamp_ms = record.timestamp_ms if stamp_ms is None else stamp_ms
    return {
        "key": record.key,
        "value": record.value,
        "topic": "orders",
        "partition": 3,
        "offset": offset,
        "timestamp": EPOCH + dt.timedelta(milliseconds=timestamp_ms),
        "timestampType": int(kind),
        "headers": [{"key": key, "value": value} for key, value in record.headers] or None,
    }


@settings(max_examples=40)
@given(first=record_lists, second=record_lists)
def test_rows_are_what_was_written(first: list[RecordInput], second: list[RecordInput]) -> None:
    """Two batches, the second stamped by the log: what both share differs from row to row."""
    stamp_ms = 1_700_000_000_123
    created = build_batch(first, base_offset=10)
    stamped = build_batch(
        second,
        base_offset=10 + len(first),
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        log_append_time_ms=stamp_ms,
    )
    expected = [row(one, 10 + index, TimestampType.CREATE_TIME) for index, one in enumerate(first)]
    expected += [
        row(one, 10 + len(first) + index, TimestampType.LOG_APPEND_TIME, stamp_ms)
        for index, one in enumerate(second)
    ]
    data = bytes(created) + bytes(stamped)
    assert rows(data, Decoding.PLAIN) == expected
    assert rows(data, Decoding.KERNELS) == expected
    without = [{name: one[name] for name in NAMES} for one in expected]
    assert rows(data, Decoding.KERNELS, include_headers=False) == without


def test_the_schema_is_the_one_spark_expects_of_it() -> None:
    types = pytest.importorskip("pyspark.sql.pandas.types")
    for include_headers in (False, True):
        schema = spark_schema(include_headers=include_headers)
        assert types.to_arrow_schema(schema, timezone="UTC") == arrow_schema(include_headers=include_headers)
    assert spark_schema(include_headers=True).simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )


def test_times_beyond_sparks_become_its_outermost() -> None:
    """A producer may write any 64 bits as a time; the row must still be readable."""
    limit = (2**63 - 1) // 1000 * 1000
    given = pa.array([-1, 0, 2**63 - 1, -(2**63)], pa.int64()).view(pa.timestamp("ms", tz="UTC"))
    found = in_microseconds(given).view(pa.int64()).to_pylist()
    assert found == [-1000, 0, limit, -limit]


def test_many_batches_become_one() -> None:
    whole = pa.record_batch({"a": [1, 2, 3], "h": pa.nulls(3, HEADERS_TYPE)})
    assert combined([whole.slice(0, 1), whole.slice(1)]).equals(whole)
    assert combined([whole]) is whole

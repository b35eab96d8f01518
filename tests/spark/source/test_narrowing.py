"""Filters decide what is fetched, and never leave out a row that passes them.

Method: any filters over any rows; rows outside the narrowed ranges must not pass the filters.
"""

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.spark.source.narrowing import narrowing
from semel.spark.source.ranges import OffsetRange
from semel.types import TopicPartition

datasource = pytest.importorskip("pyspark.sql.datasource")

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
RANGES = [OffsetRange(T0, 0, 20), OffsetRange(T1, 5, 15), OffsetRange(U0, 0, 10)]
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "EqualTo": lambda a, b: a == b,
    "EqualNullSafe": lambda a, b: a == b,
    "GreaterThan": lambda a, b: a > b,
    "GreaterThanOrEqual": lambda a, b: a >= b,
    "LessThan": lambda a, b: a < b,
    "LessThanOrEqual": lambda a, b: a <= b,
    "In": lambda a, b: a in b,
}


def second(number: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(number, tz=dt.UTC)


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "topic": st.sampled_from(["t", "u", "v"]),
    "partition": st.integers(min_value=-1, max_value=3),
    "offset": st.integers(min_value=-1, max_value=25),
    "timestamp": st.integers(min_value=0, max_value=25).map(second),
}


@st.composite
def filters(draw: st.DrawFn) -> Any:
    column = draw(st.sampled_from(list(VALUES)))
    kind = draw(st.sampled_from(list(COMPARISONS)))
    value = draw(VALUES[column])
    return getattr(datasource, kind)((column,), (value, draw(VALUES[column])) if kind == "In" else value)


@given(pushed=st.lists(filters(), max_size=4))
def test_no_row_that_passes_is_left_out(pushed: list[Any]) -> None:
    """The record at offset n is n seconds old, so that times and offsets run together."""
    wanted = narrowing(pushed)
    since = {}
    if wanted.since_ms is not None:
        since = {one.where: -(-wanted.since_ms // 1000) for one in RANGES}
    left = {
        (one.where, offset) for one in wanted.ranges(RANGES, since) for offset in range(one.start, one.end)
    }
    for one in RANGES:
        for offset in range(one.start, one.end):
            row = {
                "topic": one.where.topic,
                "partition": one.where.partition,
                "offset": offset,
                "timestamp": second(offset),
            }
            if all(COMPARISONS[type(each).__name__](row[each.attribute[0]], each.value) for each in pushed):
                assert (one.where, offset) in left


def test_filters_leave_little_over() -> None:
    pushed = [
        datasource.EqualTo(("topic",), "t"),
        datasource.In(("partition",), (1, 7)),
        datasource.GreaterThan(("offset",), 8),
        datasource.LessThanOrEqual(("offset",), 12),
    ]
    assert narrowing(pushed).ranges(RANGES, {}) == (OffsetRange(T1, 9, 13),)


def test_what_cannot_be_told_is_left_to_spark() -> None:
    pushed = [
        datasource.EqualTo(("value",), b"x"),
        datasource.IsNotNull(("offset",)),
        datasource.Not(datasource.EqualTo(("partition",), 1)),
        datasource.GreaterThan(("timestamp",), "2026-01-01"),
        datasource.EqualTo(("headers", "key"), "k"),
    ]
    assert narrowing(pushed).ranges(RANGES, {}) == tuple(RANGES)

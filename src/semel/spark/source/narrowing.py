"""Filters that decide what is fetched: `where("partition = 3 and offset >= 100")` reads nothing else.

Role.   `narrowing` takes from Spark's filters what can be told by topic, partition, offset and time; `Narrowing.ranges` applies it.
Flow.   `FilteringReader` (option `pushFilters`) -> `narrowing` -> the ranges of a batch.
Rules.  * Spark evaluates every filter again: only rows that no filter can let through are left out here.
        * A time gives a start and no end: a leader knows the first record that is at least so young, but younger ones may stand
          before older ones.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from semel.spark.source.ranges import OffsetRange
from semel.types import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter


@dataclass(slots=True)
class Narrowing:
    """The records that filters leave over; None is all of them."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    since_ms: int | None = None

    def is_wanted(self, where: TopicPartition) -> bool:
        """Whether anything of this partition can pass."""
        by_topic = self.topics is None or where.topic in self.topics
        return by_topic and (self.partitions is None or where.partition in self.partitions)

    def ranges(
        self, ranges: Iterable[OffsetRange], since: Mapping[TopicPartition, int]
    ) -> tuple[OffsetRange, ...]:
        """The ranges that are left; `since` has the offsets at `since_ms`."""
        left = []
        for one in ranges:
            start = max(one.start, self.first_offset or 0, since.get(one.where, 0))
            end = one.end if self.last_offset is None else min(one.end, self.last_offset + 1)
            if self.is_wanted(one.where) and end > start:
                left.append(OffsetRange(one.where, start, end))
        return tuple(left)


def narrowing(filters: "Iterable[Filter]") -> Narrowing:
    """The records that these filters, all of them true, leave over."""
    from pyspark.sql.datasource import (
        EqualNullSafe,
        EqualTo,
        GreaterThan,
        GreaterThanOrEqual,
        In,
        LessThan,
        LessThanOrEqual,
    )

    found = Narrowing()
    for one in filters:
        column = getattr(one, "attribute", ())
        match one:
            case EqualTo(value=value) | EqualNullSafe(value=value):
                _equal(found, column, (value,))
            case In(value=values):
                _equal(found, column, values)
            case GreaterThan(value=value):
                _at_least(found, column, value, beyond=1)
            case GreaterThanOrEqual(value=value):
                _at_least(found, column, value, beyond=0)
            case LessThan(value=value):
                _at_most(found, column, value, before=1)
            case LessThanOrEqual(value=value):
                _at_most(found, column, value, before=0)
    return found


def _equal(found: Narrowing, column: tuple[str, ...], values: tuple[Any, ...]) -> None:
    match column:
        case ("topic",):
            topics = frozenset(value for value in values if isinstance(value, str))
            found.topics = topics if found.topics is None else found.topics & topics
        case ("partition",):
            numbers = frozenset(value for value in values if isinstance(value, int))
            found.partitions = numbers if found.partitions is None else found.partitions & numbers
        case ("offset",) | ("timestamp",):
            known = [value for value in values if value is not None]
            if known:
                _at_least(found, column, min(known), beyond=0)
                _at_most(found, column, max(known), before=0)


def _at_least(found: Narrowing, column: tuple[str, ...], value: Any, *, beyond: int) -> None:
    if column == ("offset",) and isinstance(value, int):
        found.first_offset = max(found.first_offset or 0, value + beyond)
    elif column == ("timestamp",) and isinstance(value, datetime) and value.tzinfo is not None:
        since_ms = max(0, int(value.timestamp() * 1000) - 1)  # Rounded down, whatever the float says.
        found.since_ms = since_ms if found.since_ms is None else max(found.since_ms, since_ms)


def _at_most(found: Narrowing, column: tuple[str, ...], value: Any, *, before: int) -> None:
    if column == ("offset",) and isinstance(value, int):
        last = value - before
        found.last_offset = last if found.last_offset is None else min(found.last_offset, last)

"""Counting and tables with Spark: how fast state is kept, from topic to topic.

Role.   The part of `python -m semel.bench spark` that measures queries with state.
Rules.  * The count is the same query with either format and sink; ours is exactly once, the other at least once.
        * A table has no counterpart in the connector, and is reported alone.
        * The last result of every query is read back and must add up, or there is no figure.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from semel.bench.broker_figures import Figure, figure
from semel.bench.measure import BenchError
from semel.bench.spark import Bench
from semel.bench.spark_rounds import (
    FORMATS,
    filled,
    interleaved,
    new_topics,
    read_options,
    seconds_to_end,
    to_topic,
    unique,
)

if TYPE_CHECKING:
    import pyarrow as pa

KEYS: Final = 10_000
_BATCHES: Final = 4
_ROUNDS_MAX: Final = 3
_SCHEMA: Final = "user string, amount bigint"


@dataclass(frozen=True, slots=True)
class Scale:
    """How much work one run is."""

    records: int = 1_000_000


QUICK: Final = Scale(records=100_000)


def measure(bench: Bench) -> Iterator[list[Figure]]:
    """Figures with the first broker."""
    broker = next(iter(bench.brokers))
    bootstrap = bench.brokers[broker].bootstrap
    records = (QUICK if bench.is_quick else Scale()).records
    topic = filled(bootstrap, records, _orders)
    pairs = min(bench.pairs, _ROUNDS_MAX)
    group = f"State, topic to topic with {broker}"
    counting = interleaved(
        pairs, {name: _counting(bench, name, bootstrap, topic, records) for name in FORMATS}
    )
    rates = [[records / seconds for _, seconds in counting[name]] for name in FORMATS]
    yield [figure(group, f"Running count of {records:,} records, {KEYS:,} keys", "records/s", *rates)]
    keeping = interleaved(pairs, {"semel": _table(bench, bootstrap, topic, records)})["semel"]
    rates = [[records / seconds for _, seconds in keeping]]
    yield [figure(group, f"Table of {KEYS:,} keys from {records:,} JSON rows", "records/s", *rates)]


def _orders(first: int, count: int) -> "dict[str, pa.Array]":
    """Keys in turn, each with an order of one."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    users = pa.array(np.arange(first, first + count) % KEYS).cast(pa.string())
    value = pc.binary_join_element_wise('{"user":"', users, '","amount":1}', "")
    return {"key": users.cast(pa.binary()), "value": value.cast(pa.binary())}


def _counting(bench: Bench, name: str, bootstrap: str, topic: str, records: int) -> Callable[[], float]:
    def run() -> float:
        target = unique("counts")
        new_topics(bootstrap, [target])
        options = read_options(bootstrap, topic, maxOffsetsPerTrigger=str(records // _BATCHES))
        counts = (
            bench.spark.readStream.format(name)
            .options(**options)
            .load()
            .groupBy("key")
            .count()
            .selectExpr("key", "cast(count as string) value")
            .writeStream.outputMode("update")
        )
        writer = to_topic(name, counts, bootstrap, target)
        seconds = seconds_to_end(writer, bench.root / unique("checkpoint"))
        _check_sum(bench, bootstrap, target, "cast(cast(value as string) as bigint)", records)
        return seconds

    return run


def _table(bench: Bench, bootstrap: str, topic: str, records: int) -> Callable[[], float]:
    from semel.spark import count, stream, to_changelog, to_table, total

    def run() -> float:
        target = unique("table")
        new_topics(bootstrap, [target])
        orders = stream(
            bench.spark,
            topic,
            bootstrap=bootstrap,
            schema=_SCHEMA,
            maxOffsetsPerTrigger=str(records // _BATCHES),
        )
        table = to_table(orders, key="user", aggregates={"orders": count(), "amount": total("amount")})
        changes = to_changelog(table, key="user").writeStream.outputMode("update")
        writer = to_topic("semel", changes, bootstrap, target)
        seconds = seconds_to_end(writer, bench.root / unique("checkpoint"))
        amount = "cast(get_json_object(cast(value as string), '$.amount') as bigint)"
        _check_sum(bench, bootstrap, target, amount, records)
        return seconds

    return run


def _check_sum(bench: Bench, bootstrap: str, topic: str, number: str, records: int) -> None:
    """The last value of every key, added up: as many as there are records."""
    rows = bench.spark.read.format("semel").options(**read_options(bootstrap, topic)).load()
    last = rows.selectExpr("key", f"{number} number").groupBy("key").max("number")
    found = last.selectExpr("sum(`max(number)`) total").first()
    if found is None or found["total"] != records:
        raise BenchError(f"{topic} adds up to {found and found['total']} instead of {records}")

"""Stream -> table -> changelog: a table is what a stream of changes adds up to, and its changes are a stream again.

Role.   `to_table` folds a stream into a table, in Spark's state store. `to_changelog` makes records of what changed, for a compacted
        topic. `table` reads such a topic: the latest row of every key, now or as of an offset or a time.

            states = to_table(orders, key="id")                                        # latest row per id
            totals = to_table(orders, key="product", aggregates={"orders": count(), "revenue": total("price")})
            to_changelog(totals, key="product").writeStream.outputMode("update").foreachBatch(TopicSink(…)).start()
            table(spark, "totals", bootstrap=…, schema="product string, orders bigint, revenue double", key="product")

Rules.  * The table is in the topic. The state store is where Spark computes it, and may be lost (`rebuilding`).
        * Built-in aggregation only: no row passes through Python. Use output mode "update": changed rows, once per micro-batch.
        * The latest row of a key is the one furthest in the log, where all records of a key are in one partition; `order_by` says
          otherwise, for keys that come from several. A deletion is a latest row too (`_deleted`), and a null value in the changelog.
        * Aggregates are those that can be added up from parts, so that a table can go on from its changelog.
Limits. A deleted key leaves its name in Spark's state. `as_of` sees what compaction has left: keep it away from the past you need
        with `min.compaction.lag.ms`. More partitions for a keyed topic move keys: then the log is no order any more.
"""

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from semel.client.sync.admin import Admin
from semel.client.values.administration import NewTopic
from semel.errors import ConfigError
from semel.exceptions import TopicExistsException
from semel.spark.pipelines.column_names import columns, names_of, quoted
from semel.spark.pipelines.parsing import RECORD
from semel.spark.pipelines.records import DELETED, own_columns, read, to_records

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

AsOf = int | Mapping[int, int] | dt.datetime
COMPACTED: Final = {"cleanup.policy": "compact"}
_ROW: Final = "_semel_row"
_ORDER: Final = "_semel_order"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A row's contribution to a column of a table, and how two parts of it become one."""

    of: str
    """An SQL expression: the value of one row."""
    merge: Literal["sum", "min", "max"]


def count() -> Aggregate:
    """How many rows."""
    return Aggregate("CAST(1 AS BIGINT)", "sum")


def total(of: str) -> Aggregate:
    """The sum of a column, or of an SQL expression."""
    return Aggregate(of, "sum")


def smallest(of: str) -> Aggregate:
    """The smallest value of a column, or of an SQL expression."""
    return Aggregate(of, "min")


def largest(of: str) -> Aggregate:
    """The largest value of a column, or of an SQL expression."""
    return Aggregate(of, "max")


def to_table(
    rows: "DataFrame",
    *,
    key: str | Sequence[str],
    aggregates: Mapping[str, Aggregate] | None = None,
    order_by: "str | Sequence[str] | None" = None,
    seed: "DataFrame | None" = None,
) -> "DataFrame":
    """A table: the latest row of every key, or aggregates of its rows.

    `seed` is a table of the same columns to go on from (`rebuilding`). A null in a key stops the query: a table needs keys.
    """
    names = names_of(key)
    if not names:
        raise ConfigError("a table needs a key: say key=")
    if aggregates is not None:
        if order_by is not None:
            raise ConfigError(
                "order_by= says which row is the latest; aggregates= count all of them: give one of both"
            )
        return _aggregated(rows, names, aggregates, seed)
    return _latest(rows, names, order_by, seed)


def to_changelog(changed: "DataFrame", *, key: str | Sequence[str], topic: str | None = None) -> "DataFrame":
    """The rows of a table as records: key, and value or null for a row that is deleted."""
    return to_records(changed, key=key, topic=topic)


def table(
    spark: "SparkSession",
    topic: str,
    *,
    bootstrap: str,
    schema: "StructType | str",
    key: str | Sequence[str] = (),
    as_of: AsOf | None = None,
    **options: Any,
) -> "DataFrame":
    """The table that a topic holds: the latest row of every key that is not deleted.

    `as_of` looks into the past: an offset (of a topic with one partition), offsets by partition, or a time. Records below the
    offset, or not later than the time, count.
    """
    from pyspark.sql import functions as F  # noqa: N812 - its usual name.

    past = {} if as_of is None else _as_of(topic, as_of)
    rows = read(spark, topic, bootstrap=bootstrap, schema=schema, key=key, **{**past, **options})
    names = own_columns(rows)
    row = F.struct(*columns(names), F.col(f"{RECORD}.value").isNull().alias(DELETED))
    latest = rows.groupBy(f"{RECORD}.key").agg(F.max_by(row, _log_order()).alias(_ROW))
    return latest.where(f"NOT {_ROW}.{DELETED}").select(*columns(names, of=_ROW))


def create_changelog(topic: str, *, bootstrap: str, partitions: int = 1, **configs: str) -> None:
    """Make a compacted topic, unless it is there; an existing topic that is not compacted is refused.

    `configs` are Kafka's settings of a topic, with underscores for dots.
    """
    from semel.client.values.administration import ConfigResource, ConfigResourceType

    settings = {**COMPACTED, **{name.replace("_", "."): value for name, value in configs.items()}}
    with Admin({"bootstrap.servers": bootstrap}) as admin:
        try:
            admin.create_topics([NewTopic(topic, num_partitions=partitions, configs=settings)])
        except TopicExistsException:
            resource = ConfigResource(ConfigResourceType.TOPIC, topic)
            found = admin.describe_configs(resource, keys=["cleanup.policy"])[resource][
                "cleanup.policy"
            ].value
            if "compact" not in str(found):
                raise ConfigError(
                    f"topic {topic!r} has cleanup.policy={found}: a changelog is compacted, or the table loses old keys. "
                    f"Set it: semel configs set --topic {topic} cleanup.policy=compact"
                ) from None


def _latest(
    rows: "DataFrame",
    key: tuple[str, ...],
    order_by: "str | Sequence[str] | None",
    seed: "DataFrame | None",
) -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812 - its usual name.

    if order_by is None and RECORD not in rows.columns:
        raise ConfigError("these rows have no _record, and so no order of their own: say order_by=")
    names = own_columns(rows)
    deleted = F.lit(False)
    if DELETED in rows.columns:
        deleted = F.coalesce(F.col(DELETED), F.lit(False))
    elif RECORD in rows.columns:
        deleted = F.col(f"{RECORD}.value").isNull()
    order = _log_order() if order_by is None else F.struct(*columns(names_of(order_by)))
    changes = rows.select(*columns(names), deleted.alias(DELETED), order.alias(_ORDER))
    if seed is not None:  # Everything in the stream is later, unless the columns say otherwise.
        before = (
            order
            if order_by is not None
            else F.struct(F.lit(-1).cast("bigint").alias("offset"), F.lit(-1).alias("partition"))
        )
        seeded = seed.select(*columns(names), F.lit(False).alias(DELETED), before.alias(_ORDER))
        changes = changes.unionByName(seeded)
    rest = [*(name for name in names if name not in key), DELETED]
    latest = F.max_by(F.struct(*columns(rest)), F.col(_ORDER)).alias(_ROW)
    grouped = _with_keys(changes, key).groupBy(*columns(key)).agg(latest)
    return grouped.select(*columns(key), *columns(rest, of=_ROW))


def _aggregated(
    rows: "DataFrame", key: tuple[str, ...], aggregates: Mapping[str, Aggregate], seed: "DataFrame | None"
) -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812 - its usual name.

    if not aggregates:
        raise ConfigError("aggregates= is empty: a table needs at least one column besides its key")
    if both := sorted(set(key).intersection(aggregates)):
        raise ConfigError(
            f"{', '.join(both)} is a column of the key and an aggregate: call the aggregate otherwise"
        )
    parts = rows.select(*columns(key), *(F.expr(one.of).alias(name) for name, one in aggregates.items()))
    if seed is not None:
        parts = parts.unionByName(seed.select(*columns([*key, *aggregates])))
    merge = {"sum": F.sum, "min": F.min, "max": F.max}
    merged = [merge[one.merge](F.col(quoted(name))).alias(name) for name, one in aggregates.items()]
    return _with_keys(parts, key).groupBy(*columns(key)).agg(*merged)


def _with_keys(rows: "DataFrame", key: tuple[str, ...]) -> "DataFrame":
    """Rows that all have a key, or the query stops."""
    from pyspark.sql import functions as F  # noqa: N812 - its usual name.

    if missing := [name for name in key if name not in rows.columns]:
        raise ConfigError(
            f"there is no column {', '.join(missing)} for a key: there are {', '.join(own_columns(rows))}"
        )
    fine = F.lit(True)
    for name in key:
        message = F.lit(
            f"a row has no {name}: a table needs a key in every row; leave such rows out with where()"
        )
        fine = F.when(F.col(quoted(name)).isNull(), F.raise_error(message).cast("boolean")).otherwise(fine)
    return rows.where(fine)


def _log_order() -> "Column":
    """The order of a log, inside a partition. Across partitions it is none, but always the same."""
    from pyspark.sql import functions as F  # noqa: N812 - its usual name.

    return F.struct(F.col(f"{RECORD}.offset"), F.col(f"{RECORD}.partition"))


def _as_of(topic: str, as_of: AsOf) -> dict[str, str]:
    """The connector's options for the end of reading."""
    match as_of:
        case dt.datetime():
            if as_of.tzinfo is None:
                raise ConfigError(f"as_of={as_of!r} has no time zone: say which, as in datetime.now(UTC)")
            # The connector ends before the first record at or after a time; ours includes the millisecond.
            return {"endingTimestamp": str(_milliseconds(as_of) + 1)}
        case bool():
            raise ConfigError(f"as_of={as_of!r}: an offset, offsets by partition or a time is expected")
        case int():
            return {"endingOffsets": json.dumps({topic: {"0": _offset(as_of)}})}
        case Mapping():
            return {"endingOffsets": json.dumps({topic: {str(p): _offset(o) for p, o in as_of.items()}})}


def _offset(offset: int) -> int:
    if offset < 0:
        raise ConfigError(f"as_of: {offset} is not an offset; the first one is 0")
    return offset


def _milliseconds(when: dt.datetime) -> int:
    return (when - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(milliseconds=1)

"""Stateful operators: windows, sessions and deduplication, with the state where a restart finds it.

Role.   Spark's own stateful operators, 5 to 20 times faster than state kept by Python. Two parts that are easily forgotten
        are added: the time by which rows may be late, and a state store that survives. Counts and sums are Spark's own
        `groupBy(…).count()`, `.agg(sum(…))`.
Rules.  * State is kept in RocksDB and checkpointed by its changes. `use_state_store` says so; `semel.spark.session` does it.
        * `late` bounds what is remembered: rows that come later than that behind the newest one are left out by Spark.
        * Exactly once needs the checkpoint and an exactly-once sink: state, input offsets and output then tell the same story
          after every restart.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from semel.errors import ConfigError
from semel.spark.pipelines.column_names import names_of
from semel.spark.pipelines.parsing import RECORD
from semel.spark.spark_session import DEFAULTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, GroupedData, SparkSession

_STATE_STORE: Final = "spark.sql.streaming.stateStore."
_WATERMARK: Final = "spark.watermarkDelayMs"  # Where Spark notes in a schema that a column has one.
TIME: Final = "_time"


def use_state_store(spark: "SparkSession") -> None:
    """Queries that are started from now on keep their state in RocksDB, checkpointed by its changes."""
    for key, value in DEFAULTS.items():
        if key.startswith(_STATE_STORE):
            spark.conf.set(key, value)


def windows(
    rows: "DataFrame",
    *,
    length: str,
    late: str,
    by: str | Sequence[str] = (),
    time: str | None = None,
    slide: str | None = None,
) -> "GroupedData":
    """Rows grouped by windows of time, such as `length="1 minute"`, and by columns; `.count()` or `.agg(…)` comes next.

    `time` is the column with a row's time, that of its record if none is given. The window is the column `window`.
    """
    from pyspark.sql import functions as F  # noqa: N812 - its usual name.

    timed, column = _timed(rows, time, late)
    return timed.groupBy(F.window(column, length, slide), *names_of(by))


def sessions(
    rows: "DataFrame", *, gap: str, late: str, by: str | Sequence[str], time: str | None = None
) -> "GroupedData":
    """Rows grouped by sessions: of one value of `by`, with no more than `gap` between two rows."""
    from pyspark.sql import functions as F  # noqa: N812 - its usual name.

    timed, column = _timed(rows, time, late)
    return timed.groupBy(F.session_window(column, gap).alias("session"), *names_of(by))


def deduplicated(
    rows: "DataFrame", *, by: str | Sequence[str], within: str, time: str | None = None
) -> "DataFrame":
    """Each id once: a row is left out if one with the same `by` came before it, no longer ago than `within`."""
    if not names_of(by):
        raise ConfigError("deduplicated needs the columns of the id: by=…")
    timed, _ = _timed(rows, time, within)
    kept = timed.dropDuplicatesWithinWatermark(list(names_of(by)))
    return kept.drop(TIME) if time is None else kept


def _timed(rows: "DataFrame", time: str | None, late: str) -> "tuple[DataFrame, str]":
    """Rows with a watermark on their time; an existing watermark stays."""
    from pyspark.sql import functions as F  # noqa: N812 - its usual name.

    if time is None:
        if RECORD not in rows.columns:
            raise ConfigError("these rows have no _record, and so no time of their own: say time=")
        rows, time = rows.withColumn(TIME, F.col(f"{RECORD}.timestamp")), TIME
    elif time not in rows.columns:
        raise ConfigError(f"there is no column {time} for a row's time: there are {', '.join(rows.columns)}")
    if _WATERMARK in rows.schema[time].metadata:
        return rows, time
    return rows.withWatermark(time, late), time

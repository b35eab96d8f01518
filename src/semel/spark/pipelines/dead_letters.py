"""Rows that do not parse, in a topic of their own: nothing is lost, and the rest goes on.

Role.   `good_rows`, `bad_rows` and what makes a bad row a dead letter. `to_records(…, dead_letters=topic)` routes both in one pass, so that
        with `TopicSink` good rows and dead letters of a micro-batch are visible together.
Rules.  * A dead letter has the key, the value and the headers of its record. Headers of its own name the place and the error:
          `semel.error`, `semel.topic`, `semel.partition`, `semel.offset`.
        * Mended, it can be sent again as it is.
"""

from typing import TYPE_CHECKING, Final

from semel.errors import ConfigError
from semel.spark.pipelines.parsing import ERROR, RECORD

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ERROR_HEADER: Final = "semel.error"
_PLACE_HEADERS: Final = {"semel.topic": "topic", "semel.partition": "partition", "semel.offset": "offset"}


def good_rows(rows: "DataFrame") -> "DataFrame":
    """Rows that parsed, of a stream read with `bad_rows="keep"`."""
    return _kept(rows).where(f"{ERROR} IS NULL").drop(ERROR)


def bad_rows(rows: "DataFrame") -> "DataFrame":
    """The records of rows that did not parse, with the reason in `error`."""
    return _kept(rows).where(f"{ERROR} IS NOT NULL").selectExpr(f"{RECORD}.*", f"{ERROR} AS error")


def error_headers() -> "Column":
    """The headers of a dead letter: its own, then ours."""
    from pyspark.sql import functions as F  # noqa: N812 - its usual name.

    def header(name: str, text: "Column") -> "Column":
        return F.struct(F.lit(name).alias("key"), text.cast("string").cast("binary").alias("value"))

    place = [header(name, F.col(f"{RECORD}.{field}")) for name, field in _PLACE_HEADERS.items()]
    ours = F.array(header(ERROR_HEADER, F.col(ERROR)), *place)
    own = F.col(f"{RECORD}.headers")
    return F.when(own.isNull(), ours).otherwise(F.concat(own, ours))


def _kept(rows: "DataFrame") -> "DataFrame":
    if ERROR not in rows.columns:
        raise ConfigError('these rows have no column _error: read them with bad_rows="keep"')
    return rows

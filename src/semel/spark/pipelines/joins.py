"""A stream with a stream, and a stream with a table.

Role.   `join_within` joins two streams by columns and by time. A table needs no help: `stream.join(table(…), on)` looks up every
        micro-batch in the table as it is then.
Rules.  * Both sides are remembered only as long as a row of the other side can still come: `within` and `late` bound the state.
        * The table's side is planned anew for every micro-batch. Rows committed before the batch began are seen; a batch repeated
          after a crash may see a newer table. Where the answer must not change, keep the table's value in the stream.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from semel.spark.pipelines.column_names import names_of
from semel.spark.pipelines.parsing import RECORD

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def join_within(
    left: "DataFrame",
    right: "DataFrame",
    *,
    on: str | Sequence[str],
    within: str,
    late: str,
    how: Literal["inner", "left_outer"] = "inner",
) -> "DataFrame":
    """Rows of two streams with equal columns `on`, the right one no earlier than the left one and at most `within` later.

    Times are those of the records. `left_outer` also gives left rows for which none came, once none can come any more.
    The columns are those of both sides, `on` once; of the right side's `_record` nothing is kept.
    """
    from pyspark.sql import functions as F  # noqa: N812 - its usual name.

    names = names_of(on)
    first = left.withColumn("_left_time", F.col(f"{RECORD}.timestamp")).withWatermark("_left_time", late)
    second = right.withColumn("_right_time", F.col(f"{RECORD}.timestamp")).drop(RECORD)
    for name in names:
        second = second.withColumnRenamed(name, f"_right_{name}")
    second = second.withWatermark("_right_time", late)
    same = [F.col(name) == F.col(f"_right_{name}") for name in names]
    in_time = F.expr(f"_right_time >= _left_time AND _right_time <= _left_time + INTERVAL {within}")
    joined = first.join(second, [*same, in_time], how)
    return joined.drop("_left_time", "_right_time", *(f"_right_{name}" for name in names))

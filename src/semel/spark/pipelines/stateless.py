"""Rows to many topics, by condition. Map, filter and flatMap are Spark's own `select`, `where` and `explode`.

Role.   `branch` gives each row the topic it goes to, in the column `_topic` that `to_records` understands.
Rules.  * Nothing here remembers anything: the same rows give the same records, whenever and wherever they are computed.
        * The first condition that holds decides, in the order they are given; with `every`, a row goes to all topics whose
          condition holds.
        * A row for which none holds goes to `otherwise`, or nowhere if there is none.
"""

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING

from semel.errors import ConfigError
from semel.spark.pipelines.records import TOPIC

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def branch(
    rows: "DataFrame",
    routes: "Mapping[str, str | Column]",
    *,
    otherwise: str | None = None,
    every: bool = False,
) -> "DataFrame":
    """Rows with the topic they go to: topic -> condition, as SQL or as a column."""
    from pyspark.sql import functions as F  # noqa: N812 - its usual name.

    if not routes:
        raise ConfigError("branch needs at least one topic with its condition")
    conditions = {topic: F.expr(when) if isinstance(when, str) else when for topic, when in routes.items()}
    if every:
        chosen = F.filter(
            F.array(*(F.when(when, F.lit(topic)) for topic, when in conditions.items())),
            lambda one: one.isNotNull(),
        )
        rest = F.array(F.lit(otherwise)) if otherwise is not None else F.array().cast("array<string>")
        return rows.withColumn(TOPIC, F.explode(F.when(F.size(chosen) > 0, chosen).otherwise(rest)))
    (first, condition), *others = conditions.items()
    topic = reduce(
        lambda column, route: column.when(route[1], F.lit(route[0])), others, F.when(condition, F.lit(first))
    )
    if otherwise is not None:
        return rows.withColumn(TOPIC, topic.otherwise(F.lit(otherwise)))
    return rows.withColumn(TOPIC, topic).where(F.col(TOPIC).isNotNull())

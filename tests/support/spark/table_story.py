"""A table kept by Spark whose driver is killed, whose batches are repeated and whose checkpoint is lost: it equals the model.

`Sales` writes random orders and knows what they add up to. As a program, `python tests/support/spark/table_story.py BOOTSTRAP TOPIC TABLE
CHECKPOINT` is the driver that is killed: it keeps the table for ever, in small micro-batches.
"""

import json
import random
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

sys.path.insert(0, str(Path(__file__).parents[2]))  # As a program it finds its neighbours by itself.

from semel import Producer
from semel.spark import TableQuery, count, session, stream, to_table, total
from support.spark.spark_kit import small_config

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ORDERS: Final = "product STRING, cents BIGINT"
SOLD: Final = "product STRING, orders BIGINT, cents BIGINT"
_PRODUCTS: Final = 12
_PER_TRIGGER: Final = 60


class Sales:
    """Orders of random products, and their sums."""

    def __init__(self, bootstrap: str, topic: str, *, seed: int) -> None:
        self.topic = topic
        self._bootstrap = bootstrap
        self._dice = random.Random(seed)
        self.model: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))

    def write(self, count: int) -> None:
        with Producer(bootstrap_servers=self._bootstrap) as producer:
            for _ in range(count):
                product, cents = f"product-{self._dice.randrange(_PRODUCTS)}", self._dice.randrange(1000)
                producer.send(self.topic, json.dumps({"product": product, "cents": cents}), key=product)
                orders, total_cents = self.model[product]
                self.model[product] = orders + 1, total_cents + cents

    def table(self) -> dict[str, tuple[int, int]]:
        return dict(self.model)


class SoldTable:
    """The pipeline: orders -> orders and cents per product."""

    def __init__(self, bootstrap: str, topic: str, table: str, checkpoint: str) -> None:
        self.query: Final = TableQuery(
            table, key="product", schema=SOLD, bootstrap=bootstrap, checkpoint=checkpoint, partitions=2
        )
        self._bootstrap: Final = bootstrap
        self._topic: Final = topic

    def run(self, spark: "SparkSession") -> None:
        self.query.run(spark, lambda start, seed: self._sold(spark, start(self._topic), seed))

    def keep(self, spark: "SparkSession") -> None:
        trigger = {"processingTime": "0 seconds"}
        running = self.query.start(
            spark, lambda start, seed: self._sold(spark, start(self._topic), seed), trigger=trigger
        )
        running.awaitTermination()

    def rows(self, spark: "SparkSession") -> dict[str, tuple[int, int]]:
        return {row["product"]: (row["orders"], row["cents"]) for row in self.query.table(spark).collect()}

    def _sold(self, spark: "SparkSession", start: str, seed: "DataFrame") -> "DataFrame":
        orders = stream(
            spark,
            self._topic,
            bootstrap=self._bootstrap,
            schema=ORDERS,
            startingOffsets=start,
            maxOffsetsPerTrigger=_PER_TRIGGER,
        )
        sums = {"orders": count(), "cents": total("cents")}
        return to_table(orders, key="product", aggregates=sums, seed=seed)


def main() -> None:
    bootstrap, topic, table, checkpoint = sys.argv[1:]
    with tempfile.TemporaryDirectory() as scratch:
        spark = session("table-story", master="local[2]", config=small_config(Path(scratch)))
        SoldTable(bootstrap, topic, table, checkpoint).keep(spark)


if __name__ == "__main__":
    main()

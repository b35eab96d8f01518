"""The pipeline: a PySpark program as a user writes one, which can be killed at any moment.

Role.   Run by the story as `python -m semel.verify.demo.shop.pipeline`. Three queries, from topic to topic:

            orders ──clean, join products──> orders-clean, orders-rejected
            orders-clean ──paid, per product and minute──> revenue        (a table: compacted)
            orders-clean ──latest step of an order──> order-states        (a table: compacted)

Flow.   Every query writes through `TopicSink`: each micro-batch is one transaction over all the topics it writes to, with a
        receipt of how many rows there are. The checkpoint and the sink's ledger do the rest.
Rules.  * Says `ready` when the queries run and `finished` when, told to `finish`, everything there is has been written.
        * A query that fails ends the program, with the reason: the program that runs it starts it again.
        * Ends when its standard input does.
"""

import argparse
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from semel.verify.demo.shop import model, topics
from semel.verify.demo.shop.judgement import CLEAN_QUERY, REVENUE_QUERY, STATES_QUERY

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_BROKEN: Final = "_broken"
_EVENT: Final = "order long, step int, transaction long, state string, product int, quantity int, at_ms long"
_CLEAN: Final = (
    "order long, step int, state string, product int, name string, quantity int, cents long, at_ms long"
)
_PRODUCT: Final = "product int, name string, price_cents long"
_TRIGGER: Final = "300 milliseconds"
_INITIALIZING: Final = "Initializing sources"
_LOOK_SECONDS: Final = 0.1


class ShopPipeline:
    """The three queries on one session."""

    def __init__(self, spark: "SparkSession", bootstrap: str, checkpoints: Path, batch_rows_max: int) -> None:
        self._spark = spark
        self._bootstrap = bootstrap
        self._checkpoints = checkpoints
        self._batch_rows_max = batch_rows_max

    def start(self) -> "Iterator[StreamingQuery]":
        """Start the queries, in the order of the data, and one after the other: Spark gives up a source whose process does
        not answer within ten seconds, and several of them start at once otherwise.
        """
        yield self._query(CLEAN_QUERY, self._cleaned(), "append", self._clean_rows)
        yield self._query(REVENUE_QUERY, self._revenue(), "update", self._revenue_rows)
        yield self._query(STATES_QUERY, self._states(), "update", self._state_rows)

    # orders -> orders-clean, orders-rejected

    def _cleaned(self) -> "DataFrame":
        from pyspark.sql import functions as f

        event = f.from_json(
            f.col("value").cast("string"),
            f"{_EVENT}, {_BROKEN} string",
            {"columnNameOfCorruptRecord": _BROKEN},
        )
        parsed = self._stream(topics.ORDERS).select("key", "value", event.alias("event"))
        reason = (
            f.when(
                f.col(f"event.{_BROKEN}").isNotNull() | f.col("event.at_ms").isNull(),
                model.REASONS[model.BROKEN],
            )
            .when(f.col("event.quantity") <= 0, model.REASONS[model.BAD_QUANTITY])
            .when(f.col("name").isNull(), model.REASONS[model.BAD_PRODUCT])
        )
        products = self._products()
        joined = parsed.join(f.broadcast(products), f.col("event.product") == products["number"], "left")
        return joined.withColumn("reason", reason)

    def _products(self) -> "DataFrame":
        """The product table: the latest value of each key of its topic."""
        from pyspark.sql import functions as f

        rows = self._spark.read.format("semel").options(**self._options(topics.PRODUCTS)).load()
        latest = rows.groupBy("key").agg(f.max_by("value", "offset").alias("value"))
        parsed = latest.select(f.from_json(f.col("value").cast("string"), _PRODUCT).alias("product"))
        return parsed.select(
            f.col("product.product").alias("number"), "product.name", "product.price_cents"
        ).cache()

    @staticmethod
    def _clean_rows(rows: "DataFrame", batch: int) -> "DataFrame":
        from pyspark.sql import functions as f

        clean = f.col("reason").isNull()
        event = [f.col(f"event.{name}") for name in ("order", "step", "state", "product")]
        cents = (f.col("event.quantity") * f.col("price_cents")).alias("cents")
        columns = [
            *event,
            f.col("name"),
            f.col("event.quantity"),
            cents,
            f.col("event.at_ms"),
            f.lit(batch).alias("batch"),
        ]
        order = f.col("key").cast("string").cast("long").alias("order")
        refused = [
            order,
            f.col("reason"),
            f.col("value").cast("string").alias("value"),
            f.lit(batch).alias("batch"),
        ]
        return rows.select(
            f.when(clean, topics.CLEAN).otherwise(topics.REJECTED).alias("topic"),
            f.col("key"),
            f.when(clean, _json(*columns)).otherwise(_json(*refused)).alias("value"),
        )

    # orders-clean -> revenue

    def _revenue(self) -> "DataFrame":
        from pyspark.sql import functions as f

        minute = f.window(f.timestamp_millis(f.col("at_ms")), "1 minute")
        paid = self._clean_events().where(f.col("state") == model.STATES[model.PAID])
        counted = paid.groupBy("product", "name", minute.alias("minute"))
        return counted.agg(f.count("*").alias("orders"), f.sum("cents").alias("cents"))

    @staticmethod
    def _revenue_rows(rows: "DataFrame", batch: int) -> "DataFrame":
        from pyspark.sql import functions as f

        minute = f.unix_millis("minute.start").alias("minute")
        key = f.concat_ws("@", "product", f.unix_millis("minute.start"))
        columns = [f.col("product"), f.col("name"), minute, f.col("orders"), f.col("cents")]
        return rows.select(
            f.lit(topics.REVENUE).alias("topic"),
            key.cast("binary").alias("key"),
            _json(*columns, f.lit(batch).alias("batch")).alias("value"),
        )

    # orders-clean -> order-states

    def _states(self) -> "DataFrame":
        from pyspark.sql import functions as f

        return self._clean_events().groupBy("order").agg(f.max_by("state", "step").alias("state"))

    @staticmethod
    def _state_rows(rows: "DataFrame", batch: int) -> "DataFrame":
        from pyspark.sql import functions as f

        return rows.select(
            f.lit(topics.STATES).alias("topic"),
            f.col("order").cast("string").cast("binary").alias("key"),
            _json(f.col("order"), f.col("state"), f.lit(batch).alias("batch")).alias("value"),
        )

    # Shared by all three

    def _query(
        self,
        name: str,
        frame: "DataFrame",
        mode: str,
        rows_of: "Callable[[DataFrame, int], DataFrame]",
    ) -> "StreamingQuery":
        from semel.spark import TopicSink

        sink = TopicSink(bootstrap=self._bootstrap, name=f"shop-{name}")

        def write(frame: "DataFrame", batch: int) -> None:
            rows = rows_of(frame, batch).persist()
            try:
                sink(rows.unionByName(_receipt(rows, name, batch)), batch)
            finally:
                rows.unpersist()

        writer = frame.writeStream.queryName(name).outputMode(mode).trigger(processingTime=_TRIGGER)
        query = writer.option("checkpointLocation", str(self._checkpoints / name)).foreachBatch(write).start()
        while query.isActive and query.status["message"] == _INITIALIZING:
            time.sleep(_LOOK_SECONDS)
        return query

    def _clean_events(self) -> "DataFrame":
        from pyspark.sql import functions as f

        event = f.from_json(f.col("value").cast("string"), _CLEAN).alias("event")
        return self._stream(topics.CLEAN).select(event).select("event.*")

    def _stream(self, topic: str) -> "DataFrame":
        options = {**self._options(topic), "maxOffsetsPerTrigger": str(self._batch_rows_max)}
        return self._spark.readStream.format("semel").options(**options).load()

    def _options(self, topic: str) -> dict[str, str]:
        return {
            "kafka.bootstrap.servers": self._bootstrap,
            "subscribe": topic,
            "startingOffsets": "earliest",
        }


def _receipt(rows: "DataFrame", query: str, batch: int) -> "DataFrame":
    """How many rows the micro-batch has, as one more row of it."""
    from pyspark.sql import functions as f

    columns = [f.lit(query).alias("query"), f.lit(batch).alias("batch"), f.col("rows")]
    return rows.agg(f.count("*").alias("rows")).select(
        f.lit(topics.RECEIPTS).alias("topic"),
        f.lit(f"{query}/{batch}").cast("binary").alias("key"),
        _json(*columns).alias("value"),
    )


def _json(*columns: "Column") -> "Column":
    from pyspark.sql import functions as f

    return f.to_json(f.struct(*columns)).cast("binary")


class _Orders:
    """Orders on standard input: `finish`; its end is the end of the program."""

    def __init__(self) -> None:
        self.finish = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in sys.stdin:
            if line.strip() == "finish":
                self.finish.set()
        os._exit(1)


def main() -> None:
    parser = argparse.ArgumentParser(description="Run the shop's pipeline.")
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--directory", type=Path, required=True, help="for checkpoints and Spark's own files")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--batch-rows-max", type=int, default=20_000)
    given = parser.parse_args()
    orders = _Orders()

    from semel import spark as semel_spark

    scratch = given.directory / "spark"
    scratch.mkdir(parents=True, exist_ok=True)
    config = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        # Short lives: compile quickly rather than well.
        "spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djava.io.tmpdir={scratch}",
    }
    spark = semel_spark.session("shop", master=given.master, config=config)
    spark.sparkContext.setLogLevel("ERROR")
    pipeline = ShopPipeline(spark, given.bootstrap, given.directory / "checkpoints", given.batch_rows_max)
    queries = list(pipeline.start())
    print("ready", flush=True)
    while not orders.finish.wait(_LOOK_SECONDS):
        for query in queries:
            if (error := query.exception()) is not None:
                raise error
    for query in queries:
        query.processAllAvailable()
    for query in queries:
        query.stop()
    print("finished", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()

"""A driver to be killed: numbers in, two topics out, in several queries at once, each of which stops where it is told.

Started by `kill_lives` with its orders as JSON. Every query has a file `NAME.order`, written by whoever plays with it: the step at
which the query is to wait, and from which batch on. A query that is there writes `NAME.at` and waits for the next order: by then
somebody has been killed. Steps are those of the sink on the driver, and two in its tasks. A query that failed is started again, as
an operator would do it; that and everything else the driver does is said on standard output.

The sinks: `atomic` is Semel's TopicSink, `dropin` is `writeStream.format("semel")`, `spark` is Spark's own Kafka sink.
"""

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from semel.spark.data_source import SemelDataSource
from semel.spark.sink.atomic import stage
from semel.spark.sink.atomic.task_writer import Assignment, write_rows
from semel.spark.sink.atomic.topic_sink import TopicSink
from semel.spark.sink.common.rows import check_columns
from semel.spark.sink.dropin.columns import RULES
from semel.spark.sink.dropin.sink_options import SinkOptions
from semel.spark.sink.dropin.writers import StreamWriter, TaskMessage
from semel.spark.spark_session import session

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

TASK_BEGUN, TASK_WROTE = "task begun", "task wrote"
"""The first: one task is about to write, another has; the second: a task has written all, and told nobody."""
_HALF = 1  # The task that waits before it writes.
_POLL_SECONDS = 0.05
_LOOK_SECONDS = 0.25


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


class Park:
    """Where a query waits to be disturbed; in whatever process the step is reached."""

    def __init__(self, folder: str, query: str, life: int) -> None:
        self.folder = folder
        self.query = query
        self.life = life

    def order(self) -> dict[str, Any]:
        """What the query was told last."""
        found: dict[str, Any] = json.loads((Path(self.folder) / f"{self.query}.order").read_text())
        return found

    def __call__(self, step: str, batch_id: int) -> None:
        order = self.order()
        if (order["life"], order["step"]) != (self.life, step) or batch_id < order["batch"]:
            return
        at = {"number": order["number"], "batch": batch_id, "step": step, "pid": os.getpid()}
        place = Path(self.folder) / f"{self.query}.at"
        draft = place.with_suffix(f".at-{os.getpid()}")
        draft.write_text(json.dumps(at))
        draft.rename(place)
        while self.order()["number"] == order["number"]:
            time.sleep(_POLL_SECONDS)

    def in_task(self, step: str) -> None:
        """The same in a task, which knows its batch from Spark."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        if step != TASK_BEGUN or context.partitionId() == _HALF:
            self(step, int(context.getLocalProperty("streaming.sql.batchId") or -1))


# The three sinks


def atomic(writer: Any, orders: dict[str, Any], park: Park) -> "StreamingQuery":
    """Semel's TopicSink."""
    sink = TopicSink(bootstrap=orders["bootstrap"], name=park.query, on_step=park, tasks_max=2)
    query: StreamingQuery = writer.foreachBatch(sink).start()
    return query


def park_tasks_of_the_atomic_sink(folder: str, life: int) -> None:
    """Have its tasks stop, too."""

    def parked(assignment: Assignment, batches: Iterable["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        park = Park(folder, assignment.settings["transactional.id"].removeprefix("semel-sink-"), life)
        park.in_task(TASK_BEGUN)
        report = list(write_rows(assignment, batches))
        park.in_task(TASK_WROTE)
        yield from report

    setattr(stage, "write_rows", parked)  # noqa: B010 - not a name it exports.


def dropin(writer: Any, orders: dict[str, Any], park: Park) -> "StreamingQuery":
    """Semel's `writeStream.format("semel")`."""
    query: StreamingQuery = (
        writer.format(f"semel_{park.query}")
        .option("kafka.bootstrap.servers", orders["bootstrap"])
        .option("sinkName", park.query)
        .start()
    )
    return query


def parked_source(park: Park) -> type[SemelDataSource]:
    """The data source, whose sink stops where it is told."""

    class ParkedWriter(StreamWriter):
        def write(self, iterator: "Iterator[pa.RecordBatch]") -> TaskMessage:
            park.in_task(TASK_BEGUN)
            message = super().write(iterator)
            park.in_task(TASK_WROTE)
            return message

        def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803 - Spark's name.
            self._on_step = lambda step: park(step.value, batchId)
            super().commit(messages, batchId)

    class ParkedSource(SemelDataSource):
        @classmethod
        def name(cls) -> str:
            return f"semel_{park.query}"

        def streamWriter(self, schema: "StructType", overwrite: bool) -> StreamWriter:
            options = SinkOptions.of(self.options)
            check_columns(schema, options.topic, RULES, where=options.subject)
            return ParkedWriter(options)

    return ParkedSource


def own(writer: Any, orders: dict[str, Any], _park: Park) -> "StreamingQuery":
    """Spark's own Kafka sink."""
    query: StreamingQuery = (
        writer.format("kafka").option("kafka.bootstrap.servers", orders["bootstrap"]).start()
    )
    return query


SINKS = {"atomic": atomic, "dropin": dropin, "spark": own}


# The queries


def rows(orders: dict[str, Any], topics: list[str], spark: "SparkSession") -> "DataFrame":
    """Every number as a record of both topics; a batch has as many as it is told, in two tasks."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", orders["rows"])
    frame: DataFrame = (
        source.option("numPartitions", 2)
        .load()
        .selectExpr(
            f"explode(array({', '.join(repr(topic) for topic in topics)})) topic",
            "cast(value as string) key",
            "cast(value as string) value",
        )
    )
    return frame


class Played:
    """A query that is started again whenever it failed, and when its order asks for a fresh start."""

    def __init__(self, spark: "SparkSession", orders: dict[str, Any], query: dict[str, Any]) -> None:
        self.park = Park(orders["folder"], query["name"], orders["life"])
        if orders["sink"] == "dropin":
            spark.dataSource.register(parked_source(self.park))
        self._spark = spark
        self._orders = orders
        self._query = query
        self._fresh = self.park.order()["number"]
        self._running = self._started()

    def _started(self) -> "StreamingQuery":
        frame = rows(self._orders, self._query["topics"], self._spark)
        if self._orders["sink"] == "spark":
            park = self.park

            def parked(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
                park.in_task(TASK_BEGUN)
                yield from batches

            frame = frame.mapInArrow(parked, frame.schema)
        writer = frame.writeStream.option("checkpointLocation", self._query["checkpoint"])
        return SINKS[self._orders["sink"]](writer, self._orders, self.park)

    def look(self, *, is_over: bool) -> bool:
        """Start it again if need be; whether it runs."""
        failure = self._running.exception()
        if failure is not None:
            if not is_over:
                say("failed", self.park.query, str(failure)[:3000].replace("\n", " | "))
                self._running = self._started()
            return not is_over
        order = self.park.order()
        if order["fresh"] and order["number"] != self._fresh and order["life"] == self.park.life:
            self._fresh = order["number"]
            self._running.stop()
            self._running = self._started()
        return True


def main() -> None:
    orders = json.loads(sys.argv[1])
    spark = session("kills", master=orders["master"], config=orders["config"])
    say("app", spark.sparkContext.applicationId)
    if orders["sink"] == "atomic":
        park_tasks_of_the_atomic_sink(orders["folder"], orders["life"])
    queries = [Played(spark, orders, query) for query in orders["queries"]]
    over = Path(orders["folder"]) / f"{orders['life']}.over"
    is_running = True
    while is_running:
        is_over = over.exists()
        is_running = bool([query for query in queries if query.look(is_over=is_over)])  # Each is looked at.
        time.sleep(_LOOK_SECONDS)
    say("replaced")  # Somebody else has its queries, and each of them has noticed.
    with contextlib.suppress(Exception):
        spark.stop()


if __name__ == "__main__":
    main()

"""A driver to be killed: numbers in, two topics out, through Semel's atomic sink, its drop-in sink, or Spark's own Kafka sink.

Started by `kill_story` with its orders as JSON. It says on standard output what it has done, and kills its own process group at
the step it was told; everything else is done to it from outside.
"""

import json
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

from semel.spark.sink.topic_sink import TopicSink
from semel.spark.spark_session import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


class Killer:
    """Ends this driver and its JVM after a step of the batch it was told, counted from the first of this life."""

    def __init__(self, step: str | None, batches: int) -> None:
        self._step = step
        self._batches = batches
        self._seen: set[int] = set()

    def __call__(self, step: str, batch_id: int) -> None:
        self._seen.add(batch_id)
        say("step", batch_id, step)
        if step == self._step and len(self._seen) > self._batches:
            os.killpg(os.getpgid(0), signal.SIGKILL)


def rows(orders: dict[str, Any], spark: Any) -> "DataFrame":
    """Every number as a record of both topics."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", orders["rows"])
    frame: DataFrame = (
        source.option("numPartitions", 2)
        .load()
        .selectExpr(
            f"explode(array({', '.join(repr(topic) for topic in orders['topics'])})) topic",
            "cast(value as string) key",
            "cast(value as string) value",
        )
    )
    return frame


def main() -> None:
    orders = json.loads(sys.argv[1])
    spark = session("kill-story", master=orders["master"], config=orders["config"])
    writer = rows(orders, spark).writeStream.option("checkpointLocation", orders["checkpoint"])
    if orders["kind"] == "semel":
        killer = Killer(orders["step"], orders["after_batches"])
        sink = TopicSink(bootstrap=orders["bootstrap"], name=orders["name"], on_step=killer)
        query = writer.foreachBatch(sink).start()
    elif orders["kind"] == "dropin":
        query = writer.format("semel").option("kafka.bootstrap.servers", orders["bootstrap"]).start()
    else:
        query = writer.format("kafka").option("kafka.bootstrap.servers", orders["bootstrap"]).start()
    first: int | None = None
    while True:
        progress = query.lastProgress
        if query.exception() is not None:
            say("failed", query.exception())
            sys.exit(3)
        if progress is not None:
            first = progress["batchId"] if first is None else first
            if orders["batches"] is not None and progress["batchId"] - first + 1 >= orders["batches"]:
                break
        time.sleep(0.05)
    query.stop()
    spark.stop()
    say("done")


if __name__ == "__main__":
    main()

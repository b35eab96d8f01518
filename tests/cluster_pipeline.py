"""A pipeline for a cluster, with everything that goes wrong on one: a task fails, an executor is killed, an attempt is overtaken.

Run by spark-submit or as a plain program. Arguments: bootstrap servers, the topic to read, a topic for the drop-in sink, one for the
atomic sink, a folder all processes see. What happens when, by batch of the drop-in query: in batch 0 the first attempt of task 0
raises; in batch 1 the first attempt of task 1 kills its executor; in batch 2 the first attempt of task 0 waits until a second
attempt has begun, so that both write at the same time. Prints one line of JSON.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext

from semel.spark import session
from semel.spark.sink.topic_sink import TopicSink

SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "100ms",
}


def main() -> None:
    bootstrap, source, target, atomic_target, folder = sys.argv[1:]
    scratch = Path(folder)
    spark = session("pipeline", config={**SPECULATION, "spark.sql.shuffle.partitions": "2"})

    def with_trouble(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        where = (int(context.getLocalProperty("streaming.sql.batchId") or -1), context.partitionId())
        first = context.attemptNumber() == 0
        if where == (0, 0) and first:
            (scratch / "failed").touch()
            raise RuntimeError("the first attempt of task 0 fails")
        if where == (1, 1) and first and not (scratch / "killed").exists():
            (scratch / "killed").touch()
            daemon = os.getppid()
            stat = Path(f"/proc/{daemon}/stat").read_text(encoding="utf-8")
            os.kill(int(stat.rpartition(")")[2].split()[1]), signal.SIGKILL)
        if where == (2, 0):
            overtaken = scratch / "overtaken"
            if not first:
                overtaken.touch()
            deadline = time.monotonic() + 60
            while not overtaken.exists() and time.monotonic() < deadline:
                time.sleep(0.02)
        yield from batches

    def who(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import semel

        for _batch in batches:
            yield pa.RecordBatch.from_pydict({"file": [str(semel.__file__)]})

    tasks = spark.range(2, numPartitions=2).mapInArrow(who, "file string").collect()
    frame = (
        spark.readStream.format("semel")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "40")
        .load()
        .select("key", "value")
    )
    dropin = (
        frame.mapInArrow(with_trouble, "key binary, value binary")
        .writeStream.format("semel")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", target)
        .option("checkpointLocation", str(scratch / "checkpoint-dropin"))
        .trigger(availableNow=True)
        .start()
    )
    dropin.awaitTermination()
    with TopicSink(atomic_target, bootstrap=bootstrap) as sink:
        query = (
            frame.writeStream.foreachBatch(sink)
            .option("checkpointLocation", str(scratch / "checkpoint-atomic"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    print(
        json.dumps({"master": spark.sparkContext.master, "files": sorted({one.file for one in tasks})}),
        flush=True,
    )
    spark.stop()


if __name__ == "__main__":
    main()

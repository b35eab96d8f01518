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
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from semel.spark import TopicSink, session
from semel.spark.data_source import SemelDataSource
from semel.spark.sink.dropin.writers import StreamWriter, TaskMessage

SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.efficiency.enabled": "false",  # By time alone, not by rows per second.
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "100ms",
}


def troubled_source(folder: str) -> type[SemelDataSource]:
    """The data source, whose drop-in sink meets trouble."""

    class TroubledWriter(StreamWriter):
        def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
            trouble(Path(folder))
            return super().write(iterator)

    class TroubledSource(SemelDataSource):
        @classmethod
        def name(cls) -> str:
            return "semel_troubled"

        def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
            return TroubledWriter.of(self.options, schema, overwrite=overwrite)

    def trouble(scratch: Path) -> None:
        context = TaskContext.get()
        assert context is not None
        where = (int(context.getLocalProperty("streaming.sql.batchId") or -1), context.partitionId())
        is_first = context.attemptNumber() == 0
        if where == (0, 0) and is_first:
            (scratch / "failed").touch()
            raise RuntimeError("the first attempt of task 0 fails")
        if where == (1, 1) and is_first and not (scratch / "killed").exists():
            (scratch / "killed").touch()
            stat = Path(f"/proc/{os.getppid()}/stat").read_text(encoding="utf-8")
            os.kill(int(stat.rpartition(")")[2].split()[1]), signal.SIGKILL)
        if where == (2, 0):
            overtaken = scratch / "overtaken"
            if not is_first:
                overtaken.touch()
            deadline = time.monotonic() + 100
            while not overtaken.exists() and time.monotonic() < deadline:
                time.sleep(0.02)

    return TroubledSource


def who(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Where a task found Semel."""
    import semel

    for _batch in batches:
        yield pa.RecordBatch.from_pydict({"file": [str(semel.__file__)]})


def main() -> None:
    bootstrap, source, target, atomic_target, folder = sys.argv[1:]
    spark = session("pipeline", config={**SPECULATION, "spark.sql.shuffle.partitions": "2"})
    spark.dataSource.register(troubled_source(folder))
    tasks = spark.range(2, numPartitions=2).mapInArrow(who, "file string").collect()

    def stream(rows_per_batch: int) -> DataFrame:
        reader = spark.readStream.format("semel").option("kafka.bootstrap.servers", bootstrap)
        reader = reader.option("subscribe", source).option("startingOffsets", "earliest")
        return reader.option("maxOffsetsPerTrigger", str(rows_per_batch)).load().select("key", "value")

    dropin = (
        stream(40)
        .writeStream.format("semel_troubled")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", target)
        .option("checkpointLocation", f"{folder}/checkpoint-dropin")
        .trigger(availableNow=True)
        .start()
    )
    dropin.awaitTermination()
    with TopicSink(atomic_target, bootstrap=bootstrap) as sink:
        atomic = (
            stream(1000)
            .writeStream.foreachBatch(sink)
            .option("checkpointLocation", f"{folder}/checkpoint-atomic")
            .trigger(availableNow=True)
            .start()
        )
        atomic.awaitTermination()
    said = {"master": spark.sparkContext.master, "files": sorted({one.file for one in tasks})}
    print(json.dumps(said), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()

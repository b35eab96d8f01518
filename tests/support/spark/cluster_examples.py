"""A driver for a cluster: every example of `examples/spark/` that is a Spark program, and a query whose work can be shared.

Run as a plain program. Arguments: the master, the brokers, a folder, and `examples`, `scaling` or `pair`. Prints one line of JSON: what
each example said, how many seconds the query took with one executor and with four, or which executors ran tasks of a pair of queries.
"""

import contextlib
import importlib
import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[2]))  # As a program it finds its neighbours by itself.

import pyarrow as pa

from semel.spark import TopicSink, session
from support.spark.spark_kit import PATIENCE_SECONDS

EXAMPLES: Final = Path(__file__).parents[3] / "examples" / "spark"
PROGRAMS: Final = (
    "stream_and_back",
    "counting",
    "order_table",
    "joining",
    "into_database",
    "database_changes",
)
WAIT_SECONDS: Final = 4.0
"""What a task of the shared query waits for: a service it asks, say."""
_CONFIG: Final = {
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.driver.memory": "640m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.executorEnv.PYTHONPATH": str(EXAMPLES),
}


def run_examples(master: str, servers: str, folder: Path) -> dict[str, list[str]]:
    """What each example printed."""
    sys.path.insert(0, str(EXAMPLES))
    from shop import Shop

    spark = session("examples", master=master, config=_CONFIG)
    said: dict[str, list[str]] = {}
    for name in PROGRAMS:
        directory = folder / name
        directory.mkdir()
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            importlib.import_module(name).main(Shop(spark, servers, directory, suffix=f"-{name}"))
        said[name] = output.getvalue().splitlines()
    spark.stop()
    return said


def asked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of a task, after a wait."""
    time.sleep(WAIT_SECONDS)
    yield from batches


def run_shared(master: str, servers: str, folder: Path, executors: int) -> float:
    """Seconds of a query, topic to topic, with so many executors of one core each."""
    spark = session("shared", master=master, config={**_CONFIG, "spark.cores.max": str(executors)})
    source = spark.readStream.format("semel").options(
        **{"kafka.bootstrap.servers": servers, "subscribe": "shared-in", "startingOffsets": "earliest"}
    )
    rows = source.load().select("value").mapInArrow(asked, "value binary")
    spark.range(executors).repartition(executors).mapInArrow(
        lambda some: some, "id bigint"
    ).count()  # All are up.
    began = time.monotonic()
    query = (
        rows.writeStream.foreachBatch(TopicSink(f"shared-out-{executors}", bootstrap=servers))
        .option("checkpointLocation", str(folder / f"checkpoint-{executors}"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    seconds = time.monotonic() - began
    spark.stop()
    return seconds


def together(folder: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The rows of a task, once a task of another executor is at work beside it. Leaves a file for each executor."""

    def met(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        directory = Path(folder)
        (
            directory / str(os.getppid())
        ).touch()  # Python's workers are children of their executor's one daemon.
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(list(directory.iterdir())) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        yield from batches

    return met


def run_pair(master: str, servers: str, folder: Path) -> list[str]:
    """A query without state through the drop-in sink, one with state through the atomic sink; the executors that ran the first."""
    config = {**_CONFIG, "spark.executorEnv.PYTHONPATH": str(Path(__file__).parents[2])}
    spark = session("pair", master=master, config=config)
    executors = folder / "executors"
    executors.mkdir()
    source = spark.readStream.format("semel").options(
        **{"kafka.bootstrap.servers": servers, "subscribe": "pair-in", "startingOffsets": "earliest"}
    )
    rows = source.load()
    upper = rows.selectExpr("upper(cast(value as string)) value").mapInArrow(
        together(str(executors)), "value string"
    )
    plain = upper.writeStream.format("semel").options(
        **{"kafka.bootstrap.servers": servers, "topic": "pair-upper"}
    )
    counted = rows.groupBy("key").count().selectExpr("key", "concat(cast(key as string), ':', count) value")
    sink = TopicSink("pair-counts", bootstrap=servers)
    for name, query in (
        ("plain", plain),
        ("counted", counted.writeStream.outputMode("update").foreachBatch(sink)),
    ):
        query = query.option("checkpointLocation", str(folder / name)).trigger(availableNow=True)
        query.start().awaitTermination()
    sink.close()
    spark.stop()
    return sorted(one.name for one in executors.iterdir())


if __name__ == "__main__":
    cluster, brokers, scratch, what = sys.argv[1:]
    if what == "examples":
        print(json.dumps(run_examples(cluster, brokers, Path(scratch))))
    elif what == "pair":
        print(json.dumps(run_pair(cluster, brokers, Path(scratch))))
    else:
        print(json.dumps([run_shared(cluster, brokers, Path(scratch), count) for count in (1, 4)]))

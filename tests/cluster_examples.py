"""A driver for a cluster: every example of `examples/spark/` that is a Spark program, and a query whose work can be shared.

Run as a plain program. Arguments: the master, the brokers, a folder, and `examples` or `scaling`. Prints one line of JSON: what each
example said, or how many seconds the query took with one executor and with four.
"""

import contextlib
import importlib
import io
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa

from semel.spark import TopicSink, session

EXAMPLES: Final = Path(__file__).parents[1] / "examples" / "spark"
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


if __name__ == "__main__":
    cluster, brokers, scratch, what = sys.argv[1:]
    if what == "examples":
        print(json.dumps(run_examples(cluster, brokers, Path(scratch))))
    else:
        print(json.dumps([run_shared(cluster, brokers, Path(scratch), count) for count in (1, 4)]))

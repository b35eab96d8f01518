"""A driver for the tests that kill it: several queries with the drop-in sink, each of which stops dead at one step.

Arguments: bootstrap servers, the topic to read, a folder for checkpoints and signs, and the steps. For each step there is a query
from the topic to the topic `out-STEP` of the argument after it (STEP=TOPIC). While the file `go` is not in the folder, a query
that reaches its step leaves the file STEP there and waits to be killed.
"""

import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[2]))  # As a program it finds its neighbours by itself.

from semel.spark import session
from semel.spark.data_source import SemelDataSource
from semel.spark.sink.common.rows import check_columns
from semel.spark.sink.dropin.columns import RULES
from semel.spark.sink.dropin.committing import Step
from semel.spark.sink.dropin.sink_options import SinkOptions
from semel.spark.sink.dropin.writers import StreamWriter, TaskMessage
from support.spark.spark_kit import small_config

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.types import StructType

WRITTEN = "written"
"""The step of a task that has left its transaction open and told nobody."""


@dataclass
class Stop:
    """Waits to be killed, where its step is reached."""

    folder: str
    step: str

    def __call__(self, step: Step | str) -> None:
        name = step.value if isinstance(step, Step) else step
        if name != self.step or (Path(self.folder) / "go").exists():
            return
        (Path(self.folder) / name).touch()
        parent = os.getppid()
        while os.getppid() == parent:  # Until Spark is gone.
            time.sleep(0.02)
        os._exit(1)


class StoppingWriter(StreamWriter):
    """The drop-in sink, with a task that may stop too."""

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> TaskMessage:
        message = super().write(iterator)
        if self._on_step is not None:
            self._on_step(WRITTEN)  # type: ignore[arg-type]  # a step of the test's own
        return message


def stopping_source(folder: str, step: str) -> type[SemelDataSource]:
    """A data source like the real one whose queries stop at a step."""

    class StoppingSource(SemelDataSource):
        @classmethod
        def name(cls) -> str:
            return f"semel_stops_{step}"

        def streamWriter(self, schema: "StructType", overwrite: bool) -> StreamWriter:
            options = SinkOptions.of(self.options)
            check_columns(schema, options.topic, RULES, where=options.subject)
            return StoppingWriter(options, Stop(folder, step))

    return StoppingSource


def main() -> None:
    bootstrap, source, folder, *targets = sys.argv[1:]
    master = os.environ.get("SEMEL_TEST_MASTER", "local[12]")
    spark = session("stopping", master=master, config=small_config(Path(folder) / "spark"))
    frame = (
        spark.readStream.format("semel")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "20")
        .load()
        .select("key", "value")
    )
    is_to_die = not (Path(folder) / "go").exists()
    for target in targets:
        step, _equals, topic = target.partition("=")
        spark.dataSource.register(stopping_source(folder, step))
        query = (
            frame.writeStream.format(f"semel_stops_{step}")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("topic", topic)
            .option("checkpointLocation", f"{folder}/checkpoint-{step}")
            .trigger(availableNow=True)
            .start()
        )
        # One after another: Spark gives a new Python process ten seconds to report, whatever else the machine does.
        while not query.awaitTermination(1) and not (is_to_die and (Path(folder) / step).exists()):
            continue
    if is_to_die:
        signal.pause()
    print("done", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()

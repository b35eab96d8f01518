"""A PySpark program of a proof: a topic in, a topic out, exactly once, to be killed at any moment.

Role.   `spark_work` runs it as `python -m semel.verify.proof.spark_driver`. Every input has one output, which names it.
Flow.   `format("semel")` -> `foreachBatch(TopicSink)`: a transaction per micro-batch.
Rules.  * Says `ready` when the query runs. A query that fails ends the program, with the reason; the program that runs it starts it again.
        * Ends when its standard input does.
        * An output says which attempt at its micro-batch made it: an output made again is another value.
"""

import argparse
import os
import sys
import threading
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Final

from semel.verify.proof.judge import BY, OUTPUT_OF

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TRIGGER: Final = "300 milliseconds"
_BATCH_ROWS_MAX: Final = 20_000
_LOOK_SECONDS: Final = 1


def main() -> None:
    parser = argparse.ArgumentParser(description="Run the Spark pipeline of a proof.")
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--scratch", type=Path, required=True)
    given = parser.parse_args()
    threading.Thread(target=_end_with_input, daemon=True).start()

    from pyspark.sql import functions as f

    from semel import spark as semel_spark
    from semel.spark.sink.atomic.topic_sink import TopicSink

    given.scratch.mkdir(parents=True, exist_ok=True)
    config = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.local.dir": str(given.scratch),
        "spark.sql.warehouse.dir": str(given.scratch / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        # Short lives: compile quickly rather than well.
        "spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djava.io.tmpdir={given.scratch}",
    }
    spark = semel_spark.session("verify", master="local[2]", config=config)
    spark.sparkContext.setLogLevel("ERROR")
    sink = TopicSink(given.target, bootstrap=given.bootstrap, name=given.name)
    options = {
        "kafka.bootstrap.servers": given.bootstrap,
        "subscribe": given.source,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(_BATCH_ROWS_MAX),
    }

    def write(rows: "DataFrame", batch: int) -> None:
        attempt = f"{BY}spark:{batch}:{uuid.uuid4().hex[:8]}"
        text = f.concat(f.lit(OUTPUT_OF), f.col("value").cast("string"), f.lit(attempt))
        sink(rows.select(text.cast("binary").alias("value"), "partition"), batch)

    stream = spark.readStream.format("semel").options(**options).load()
    query = (
        stream.writeStream.option("checkpointLocation", str(given.checkpoint))
        .trigger(processingTime=_TRIGGER)
        .foreachBatch(write)
        .start()
    )
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while not query.awaitTermination(_LOOK_SECONDS):  # Raises what the query failed of.
        pass


def _end_with_input() -> None:
    for _line in sys.stdin:
        pass
    os._exit(1)


if __name__ == "__main__":
    main()

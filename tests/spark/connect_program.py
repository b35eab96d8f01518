"""A program over Spark Connect: reads and writes with `format("semel")`; tries the atomic sink and prints what it is told.

Arguments: bootstrap servers, a topic to read, a topic to write, a folder for the checkpoint.
"""

import json
import sys

from semel.spark import TopicSink, session


def main() -> None:
    bootstrap, source, target, folder = sys.argv[1:]
    spark = session("connected")
    server = {"kafka.bootstrap.servers": bootstrap}
    rows = spark.readStream.format("semel").options(**server, subscribe=source, startingOffsets="earliest")
    frame = rows.load().select("key", "value")
    query = (
        frame.writeStream.format("semel")
        .options(**server, topic=target)
        .option("checkpointLocation", folder)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    read = spark.read.format("semel").options(**server, subscribe=target).load()
    said = ""
    try:
        frame.writeStream.foreachBatch(TopicSink(target, bootstrap=bootstrap))
    except Exception as refused:  # Whatever it is, the test looks at it.
        said = f"{type(refused).__name__}: {refused}"
    print(json.dumps({"session": type(spark).__module__, "rows": read.count(), "said": said}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()

"""`spark.readStream.format("semel")` on a real Spark: once each, through restarts, limits and new partitions.

Method: queries over what is available, with `foreachBatch` keeping the rows of each batch id; a replayed batch replaces itself, as a
sink that knows batch ids would. Planning itself is tried in `test_stream_reader`, without Spark.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from semel import Admin, Producer
from semel.spark import lag
from support.spark.spark_kit import drained, eventually, new_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


class Kept:
    """The rows of every batch, by its id."""

    def __init__(self) -> None:
        self.batches: dict[int, list[tuple[int, bytes]]] = {}

    def __call__(self, batch: "DataFrame", batch_id: int) -> None:
        self.batches[batch_id] = [(row.partition, row.value) for row in batch.collect()]

    @property
    def values(self) -> list[int]:
        return sorted(int(value) for rows in self.batches.values() for _, value in rows)


def writer(
    spark: "SparkSession", bootstrap: str, kept: Kept, checkpoint: Path, **options: Any
) -> "DataStreamWriter":
    given = {"kafka.bootstrap.servers": bootstrap, "startingOffsets": "earliest", **options}
    stream = spark.readStream.format("semel").options(**given).load()
    return stream.writeStream.foreachBatch(kept).option("checkpointLocation", str(checkpoint))


@contextmanager
def running(query: "StreamingQuery") -> Iterator["StreamingQuery"]:
    try:
        yield query
    finally:
        query.stop()


def produce(bootstrap: str, topic: str, numbers: range, partitions: int = 2) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in numbers:
            producer.send(topic, b"%d" % number, partition=number % partitions)


@pytest.mark.mission("STR-13")
def test_a_query_goes_on_where_it_left_off(
    spark: "SparkSession", either_bootstrap: str, tmp_path: Path
) -> None:
    """Available now, in limited batches; then more records, more partitions, and a batch whose commit was lost."""
    topic = new_topic(either_bootstrap, partitions=2)
    produce(either_bootstrap, topic, range(100))
    kept, checkpoint = Kept(), tmp_path / "checkpoint"
    options = {"subscribe": topic, "maxOffsetsPerTrigger": "40"}

    def run() -> "StreamingQuery":
        query = (
            writer(spark, either_bootstrap, kept, checkpoint, **options).trigger(availableNow=True).start()
        )
        drained(query)
        return query

    query = run()
    assert kept.values == list(range(100))
    assert len(kept.batches) == 3
    progress = query.lastProgress
    assert progress is not None
    assert lag(progress).metrics()["maxOffsetsBehindLatest"] == "0"
    first = next(one for one in query.recentProgress if one["batchId"] == 0)
    assert lag(first).total == 60
    run()  # Nothing new.
    assert len(kept.batches) == 3
    with Admin(bootstrap_servers=either_bootstrap) as admin:
        admin.create_partitions({topic: 3})
    produce(either_bootstrap, topic, range(100, 190), partitions=3)
    # The driver died after the last batch, before Spark wrote that down: it is read again, and the same.
    last = max(kept.batches)
    was = kept.batches[last]
    (checkpoint / "commits" / str(last)).unlink()
    (checkpoint / "commits" / f".{last}.crc").unlink(missing_ok=True)
    run()
    assert sorted(kept.batches[last]) == sorted(was)
    assert kept.values == list(range(190))
    assert {partition for rows in kept.batches.values() for partition, _ in rows} == {0, 1, 2}


@pytest.mark.mission("STR-13")
def test_the_first_batch_of_a_query_from_latest_is_replayed(
    spark: "SparkSession", spark_bootstrap: str, tmp_path: Path
) -> None:
    """Its start is known to nobody but its end: Spark has only that in its log."""
    topic = new_topic(spark_bootstrap, partitions=2)
    produce(spark_bootstrap, topic, range(10))
    kept, checkpoint = Kept(), tmp_path / "checkpoint"
    options = {"subscribe": topic, "startingOffsets": "latest"}
    with running(writer(spark, spark_bootstrap, kept, checkpoint, **options).start()) as query:
        eventually(lambda: 0 in kept.batches, "the first batch has run")
        produce(spark_bootstrap, topic, range(10, 20))
        eventually(lambda: kept.values == list(range(10, 20)), "the new records were read")
        query.processAllAvailable()
        assert query.lastProgress is not None
        assert lag(query).total == 0
    # As if the driver had died in the very first batch: all commits are lost, and with them everything it wrote.
    shutil.rmtree(checkpoint / "commits")
    for name in (checkpoint / "offsets").iterdir():
        if name.name.lstrip(".").split(".")[0] != "0":
            name.unlink()
    produce(spark_bootstrap, topic, range(20, 30))
    kept.batches.clear()
    drained(writer(spark, spark_bootstrap, kept, checkpoint, **options).trigger(availableNow=True).start())
    assert kept.values == list(range(10, 30))


def test_topics_of_a_pattern_are_picked_up(
    spark: "SparkSession", spark_bootstrap: str, tmp_path: Path
) -> None:
    first = new_topic(spark_bootstrap, "pattern-source", partitions=1)
    produce(spark_bootstrap, first, range(5), partitions=1)
    kept = Kept()
    options = {"subscribePattern": "^pattern-source-.*", "minPartitions": "4"}
    with running(
        writer(spark, spark_bootstrap, kept, tmp_path, **options)
        .trigger(processingTime="100 milliseconds")
        .start()
    ):
        eventually(lambda: kept.values == list(range(5)), "the first topic was read")
        second = new_topic(spark_bootstrap, "pattern-source", partitions=1)
        produce(spark_bootstrap, second, range(5, 9), partitions=1)
        eventually(lambda: kept.values == list(range(9)), "the second topic was read")


def test_lost_records_end_the_query_or_are_passed_over(
    spark: "SparkSession", spark_bootstrap: str, tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    topic = new_topic(spark_bootstrap, partitions=1)
    produce(spark_bootstrap, topic, range(10), partitions=1)
    kept = Kept()

    def run(**options: Any) -> None:
        chosen = {"subscribe": topic, "fetchOffset.retryIntervalMs": "10", **options}
        drained(writer(spark, spark_bootstrap, kept, tmp_path, **chosen).trigger(availableNow=True).start())

    run()
    produce(spark_bootstrap, topic, range(10, 30), partitions=1)
    with Admin(bootstrap_servers=spark_bootstrap) as admin:
        admin.delete_records({(topic, 0): 20})
    with pytest.raises(StreamingQueryException, match="failOnDataLoss"):
        run()
    run(failOnDataLoss="false")
    assert kept.values == [*range(10), *range(20, 30)]


def test_a_stream_refuses_an_end(spark: "SparkSession", spark_bootstrap: str, tmp_path: Path) -> None:
    from pyspark.errors import PySparkException

    topic = new_topic(spark_bootstrap, partitions=1)
    with pytest.raises(PySparkException, match="not valid in streaming queries"):
        drained(
            writer(spark, spark_bootstrap, Kept(), tmp_path, subscribe=topic, endingOffsets="latest")
            .trigger(availableNow=True)
            .start()
        )

"""Spark's pages and progress show a batch of either sink: its topic, its number, its rows.

Method: real queries in the shared session; descriptions from the store that Spark's pages are made of.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as sf

from semel import Producer
from semel.spark import TopicSink
from semel.spark.query_properties import JOB_DESCRIPTION
from semel.spark.sink.atomic.shared_transaction import Step
from support.spark.spark_kit import drained, eventually, new_topic, unique

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

ROWS = 6


def _rows(spark: "SparkSession", bootstrap: str, topic: str) -> "DataFrame":
    reader = spark.readStream.format("semel").option("kafka.bootstrap.servers", bootstrap)
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(ROWS // 2)}
    return reader.options(**options).load().select("value")


def _filled(bootstrap: str) -> str:
    topic = new_topic(bootstrap, "shown", partitions=1)
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(ROWS):
            producer.send(topic, str(number))
    return topic


def _descriptions(spark: "SparkSession", query_id: str) -> list[str]:
    """Of all jobs of a query, the oldest first."""
    store: Any = spark._jsparkSession.sparkContext().statusStore()
    jobs = store.jobsList(None)
    shown = [jobs.apply(place).description() for place in range(jobs.size())]
    return [one.get() for one in reversed(shown) if one.isDefined() and query_id in one.get()]


def _progress(query: "StreamingQuery") -> Any:
    return query.lastProgress


def test_jobs_of_the_atomic_sink_are_named(
    spark: "SparkSession", spark_bootstrap: str, tmp_path: Path
) -> None:
    source, target = _filled(spark_bootstrap), new_topic(spark_bootstrap, "shown", partitions=1)
    name = unique("shown")
    sink = TopicSink(target, bootstrap=spark_bootstrap, name=name)
    after = list[str]()

    def write(df: "DataFrame", batch_id: int) -> None:
        sink(df, batch_id)
        after.append(str(df.sparkSession.sparkContext.getLocalProperty(JOB_DESCRIPTION)))
        df.count()  # A job of the user's own, in the same function.

    observed = _rows(spark, spark_bootstrap, source).observe("written", sf.count(sf.lit(1)).alias("rows"))
    writer = observed.writeStream.foreachBatch(write)
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    drained(query)
    query_id = str(query.id)
    titles = [f"TopicSink {name}: batch {number} to topic {target}" for number in (0, 1)]
    titles[1] += f"; batch 0 had {ROWS // 2} rows"
    eventually(lambda: len(_descriptions(spark, query_id)) >= 4, "the jobs of both batches")
    shown = _descriptions(spark, query_id)
    for title in titles:
        ours = [one for one in shown if one.startswith(f"{title}\n")]
        assert ours, shown
        assert "runId" in ours[0], "Spark's own description is below"
    assert [one for one in shown if "TopicSink" not in one], "the user's own jobs keep Spark's description"
    assert len(after) == 2
    assert not [one for one in after if "TopicSink" in one]
    assert sink.last is not None
    assert sink.last.rows == ROWS // 2
    assert _progress(query).sink.numOutputRows == -1, "Spark counts no rows of foreachBatch"
    counts = [one.observedMetrics["written"]["rows"] for one in query.recentProgress if one.batchId < 2]
    assert counts == [ROWS // 2, ROWS // 2], "but those it is asked to observe, as docs/spark.md says"


def test_a_batch_that_is_stored_says_so(spark: "SparkSession", spark_bootstrap: str, tmp_path: Path) -> None:
    source, target = _filled(spark_bootstrap), new_topic(spark_bootstrap, "shown", partitions=1)
    name = unique("shown")

    def die(step: str, _batch_id: int) -> None:
        if step == Step.COMMITTED.value:
            raise RuntimeError("the driver dies")

    def start(on_step: Callable[[str, int], None] | None) -> "StreamingQuery":
        sink = TopicSink(target, bootstrap=spark_bootstrap, name=name, on_step=on_step)
        writer = _rows(spark, spark_bootstrap, source).writeStream.foreachBatch(sink)
        return writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()

    with pytest.raises(StreamingQueryException, match="the driver dies"):
        drained(start(die))
    query = start(None)
    drained(query)
    query_id = str(query.id)
    title = f"TopicSink {name}: batch 0 to topic {target}: stored already, evaluated for the query's state\n"
    eventually(
        lambda: any(one.startswith(title) for one in _descriptions(spark, query_id)), "the evaluated batch"
    )


def test_progress_counts_the_rows_of_the_drop_in_sink(
    spark: "SparkSession", spark_bootstrap: str, tmp_path: Path
) -> None:
    source, target = _filled(spark_bootstrap), new_topic(spark_bootstrap, "shown", partitions=1)
    name = f"{source} to {target}"
    writer = _rows(spark, spark_bootstrap, source).writeStream.format("semel").queryName(name)
    options = {"kafka.bootstrap.servers": spark_bootstrap, "topic": target}
    query = writer.options(**options, checkpointLocation=str(tmp_path)).trigger(availableNow=True).start()
    drained(query)
    counts = [one.sink.numOutputRows for one in query.recentProgress if one.batchId < 2]
    assert counts == [ROWS // 2, ROWS // 2]
    assert [one.batchId for one in query.recentProgress][:2] == [0, 1]
    eventually(lambda: len(_descriptions(spark, str(query.id))) >= 2, "a job of every batch")
    assert [one for one in _descriptions(spark, str(query.id)) if one.startswith(name)], (
        "Spark shows the query's name"
    )

"""`writeStream.format("semel")` on a running Spark: every row once, in the right topic, and what is wrong is said.

Method: one session, small topics, `availableNow`; the same on Semel and on Apache Kafka. Replays are made by deleting Spark's own
note of a commit from the checkpoint, which is what a driver that dies right before it leaves behind.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from semel import Producer
from support.spark.spark_kit import drained, left_open, new_topic, read_all, unique, values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def produced(bootstrap: str, topic: str, texts: list[str]) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for text in texts:
            producer.send(topic, key=text[:1], value=text)


def stream(spark: "SparkSession", bootstrap: str, topic: str, **options: str) -> "DataFrame":
    reader = spark.readStream.format("semel").option("kafka.bootstrap.servers", bootstrap)
    return reader.option("subscribe", topic).option("startingOffsets", "earliest").options(**options).load()


def written(frame: "DataFrame", bootstrap: str, checkpoint: Path, **options: str) -> "StreamingQuery":
    writer = frame.writeStream.format("semel").option("kafka.bootstrap.servers", bootstrap)
    return (
        writer.option("checkpointLocation", str(checkpoint))
        .options(**options)
        .trigger(availableNow=True)
        .start()
    )


def forget_last_commit(checkpoint: Path) -> int:
    """What is left when a driver dies after the sink's commit and before Spark's own note of it; which batch it was."""
    last = max(int(one.name) for one in (checkpoint / "commits").iterdir() if one.name.isdecimal())
    for name in (f"{last}", f".{last}.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)
    return last


def test_a_query_from_topic_to_topic(spark: "SparkSession", either_bootstrap: str, tmp_path: Path) -> None:
    """Three batches, then more rows, then a replayed batch: all rows once, with key, headers, timestamp."""
    source, target = new_topic(either_bootstrap, "in"), new_topic(either_bootstrap, "out", 3)
    texts = [f"{index}-row" for index in range(30)]
    produced(either_bootstrap, source, texts)
    frame = stream(spark, either_bootstrap, source, maxOffsetsPerTrigger="10").selectExpr(
        "key",
        "upper(cast(value as string)) as value",
        "timestamp",
        "array(named_struct('key', 'from', 'value', cast(topic as binary))) as headers",
    )
    drained(written(frame, either_bootstrap, tmp_path, topic=target))
    assert values(either_bootstrap, target) == sorted(text.upper() for text in texts)

    more = [f"{index}-more" for index in range(5)]
    produced(either_bootstrap, source, more)
    drained(written(frame, either_bootstrap, tmp_path, topic=target))
    last = forget_last_commit(tmp_path)
    drained(written(frame, either_bootstrap, tmp_path, topic=target))
    found = read_all(either_bootstrap, target)
    assert sorted(found["value"].to_pylist()) == sorted(text.upper().encode() for text in texts + more)
    assert {one[0]["value"] for one in found["headers"].to_pylist()} == {source.encode()}
    assert last >= 3
    original = read_all(either_bootstrap, source)
    assert _stamps(found) == {text.upper(): stamp for text, stamp in _stamps(original).items()}
    assert not left_open(either_bootstrap, target)


def _stamps(table: pa.Table) -> dict[str, object]:
    texts = (one.decode() for one in table["value"].to_pylist())
    return dict(zip(texts, table["timestamp"].to_pylist(), strict=True))


def test_rows_name_their_topics(spark: "SparkSession", spark_bootstrap: str, tmp_path: Path) -> None:
    source = new_topic(spark_bootstrap, "in")
    even, odd = new_topic(spark_bootstrap, "even"), new_topic(spark_bootstrap, "odd")
    produced(spark_bootstrap, source, [f"{index:02}" for index in range(20)])
    frame = stream(spark, spark_bootstrap, source).selectExpr(
        f"if(cast(value as string) % 2 = 0, '{even}', '{odd}') as topic", "value", "1 as partition"
    )
    drained(written(frame, spark_bootstrap, tmp_path))
    assert values(spark_bootstrap, even) == [f"{index:02}" for index in range(0, 20, 2)]
    assert values(spark_bootstrap, odd) == [f"{index:02}" for index in range(1, 20, 2)]
    assert set(read_all(spark_bootstrap, odd)["partition"].to_pylist()) == {1}


def test_a_lost_checkpoint_is_noticed_by_name(
    spark: "SparkSession", both_bootstrap: str, tmp_path: Path
) -> None:
    """A new checkpoint is a new query: the name's row says that another one wrote, and the sink refuses until it is told."""
    source, target = new_topic(both_bootstrap, "in"), new_topic(both_bootstrap, "out")
    name = unique("sink")
    produced(both_bootstrap, source, ["a", "b"])
    frame = stream(spark, both_bootstrap, source).select("value")
    first = written(frame, both_bootstrap, tmp_path / "one", topic=target, sinkName=name)
    drained(first)
    again = written(frame, both_bootstrap, tmp_path / "two", topic=target, sinkName=name)
    with pytest.raises(Exception, match="belongs to query") as caught:
        drained(again)
    assert f"option('continues', '{first.id}')" in str(caught.value)
    assert values(both_bootstrap, target) == ["a", "b"]
    told = written(
        frame, both_bootstrap, tmp_path / "two", topic=target, sinkName=name, continues=str(first.id)
    )
    drained(told)
    assert values(both_bootstrap, target) == ["a", "a", "b", "b"]


@pytest.mark.campaign  # It waits for the broker's patience to end.
def test_a_batch_that_takes_too_long_says_which_setting(
    spark: "SparkSession", both_bootstrap: str, tmp_path: Path
) -> None:
    """One task waits until the broker has given up the transaction of the other: nothing is seen, and the error says why."""
    source, target, name = (
        new_topic(both_bootstrap, "in", 2),
        new_topic(both_bootstrap, "out"),
        unique("late"),
    )
    with Producer(bootstrap_servers=both_bootstrap) as producer:
        for index in range(20):
            producer.send(source, value=str(index), partition=index % 2)
    frame = stream(spark, both_bootstrap, source).select("value")
    prefix = f"semel-sink:{name}:"

    def wait(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import time

        from pyspark import TaskContext

        from semel import Admin

        context = TaskContext.get()
        with Admin(bootstrap_servers=both_bootstrap) as admin:
            while context is not None and context.partitionId() == 1:
                ended = admin.list_transactions(states=["CompleteAbort"])
                if any(one.transactional_id.startswith(prefix) for one in ended):
                    break
                time.sleep(0.2)
        yield from batches

    options = {"topic": target, "sinkName": name}
    late = frame.mapInArrow(wait, frame.schema)
    with pytest.raises(Exception, match=r"not open any more .*kafka\.transaction\.timeout\.ms") as caught:
        drained(
            written(late, both_bootstrap, tmp_path, **options, **{"kafka.transaction.timeout.ms": "1000"})
        )
    assert "transaction.max.timeout.ms" in str(caught.value)
    assert values(both_bootstrap, target) == []
    drained(written(frame, both_bootstrap, tmp_path, **options))
    assert values(both_bootstrap, target) == sorted(str(index) for index in range(20))


def test_a_task_that_fails_leaves_nothing(
    spark: "SparkSession", spark_bootstrap: str, tmp_path: Path
) -> None:
    """One row of one task cannot be divided: the query fails, and no row of the batch is seen; mended, each is seen once."""
    source, target = new_topic(spark_bootstrap, "in", 2), new_topic(spark_bootstrap, "out")
    with Producer(bootstrap_servers=spark_bootstrap) as producer:
        for index in range(20):
            producer.send(source, value=str(index), partition=index % 2)
    divisor = tmp_path / "divisor"
    frame = stream(spark, spark_bootstrap, source)
    broken = frame.selectExpr(
        "if(cast(value as string) = '19', raise_error('no such row'), cast(value as string)) as value"
    )
    with pytest.raises(Exception, match="no such row"):
        drained(written(broken, spark_bootstrap, divisor, topic=target))
    assert values(spark_bootstrap, target) == []
    drained(written(frame.select("value"), spark_bootstrap, divisor, topic=target))
    assert values(spark_bootstrap, target) == sorted(str(index) for index in range(20))


def test_wrong_options_and_columns_are_said(
    spark: "SparkSession", spark_bootstrap: str, tmp_path: Path
) -> None:
    source = new_topic(spark_bootstrap, "in")
    produced(spark_bootstrap, source, ["a"])
    frame = stream(spark, spark_bootstrap, source)
    for wrong, options, problem in (
        (frame.select("value"), {}, "topic option required"),
        (frame.select("value"), {"topic": "t", "sinkNam": "x"}, "did you mean sinkName?"),
        (
            frame.select("offset"),
            {"topic": "t"},
            "'value' not found, there is no value among the columns offset",
        ),
        (
            frame.selectExpr("offset as value"),
            {"topic": "t"},
            "column value is bigint, it must be string or binary",
        ),
    ):
        with pytest.raises(Exception, match=re.escape(problem)):
            drained(written(wrong, spark_bootstrap, tmp_path / unique("checkpoint"), **options))

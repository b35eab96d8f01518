"""The sink in a streaming query: every row once, whatever step its driver dies at; and what it says when it cannot go on.

Method: a source that gives numbers, a batch per run, and is the same after a restart. A driver dies by an error at a named step,
which leaves everything as a kill would: nothing is aborted, nothing is closed. Real kills are in `kill_story`.
"""

import json
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.functions import col

from semel import Admin, TopicPartition
from semel.client.partitioner import partition_for_key
from semel.client.settings import ConsumerConfig
from semel.core.records.batch import BatchHeader, read_header
from semel.core.records.codecs import Compression
from semel.errors import ErrorCode, RefusedError
from semel.exceptions import (
    GroupAuthorizationException,
    IllegalStateException,
    TimeoutException,
    exception_for,
)
from semel.spark.sink.atomic import stage
from semel.spark.sink.atomic.shared_transaction import SharedTransactions, Step
from semel.spark.sink.atomic.task_writer import Assignment, write_rows
from semel.spark.sink.atomic.topic_sink import TopicSink, Written
from semel.spark.sink.common.batch_ledger import Entry
from semel.spark.sink.common.errors import CallRefusedError, SinkRefusedError
from semel.spark.source.broker_client import Asked, BrokerClient
from support.spark.spark_kit import drained, eventually, new_topic, read_all, unique, values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 40


class Died(Exception):  # noqa: N818 - the driver's end, not an error of its.
    """A driver that is no more."""


def numbers(spark: "SparkSession", rows: int = ROWS) -> "DataFrame":
    """0, 1, 2, …: `rows` more with every run."""
    source = spark.readStream.format("rate-micro-batch")
    return source.option("rowsPerBatch", rows).option("numPartitions", 2).load().select("value")


def run(
    df: "DataFrame",
    sink: "Callable[[DataFrame, int], None]",
    checkpoint: Path,
    *,
    expect: type | str | None = None,
    mode: str = "append",
) -> str:
    """One run of a query: the batch that was left undone, and one more. The text it fails with, if it is expected to."""
    from pyspark.errors import StreamingQueryException

    writer = df.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    query = writer.outputMode(mode).trigger(availableNow=True).start()
    if expect is None:
        drained(query)
        return ""
    with pytest.raises(StreamingQueryException) as failed:
        drained(query)
    name = expect if isinstance(expect, str) else expect.__name__
    assert name in str(failed.value), str(failed.value)
    return str(failed.value)


def shows(bootstrap: str, topic: str, rows: list[str]) -> None:
    """A commit is answered when it is decided; its markers reach the partitions a moment later."""
    eventually(lambda: values(bootstrap, topic) == rows, f"{len(rows)} rows", seconds=20)


def keyed(df: "DataFrame") -> "DataFrame":
    return df.selectExpr("concat('k', value % 10) key", "cast(value as string) value")


def expected(batches: int, rows: int = ROWS) -> list[str]:
    return sorted(str(n) for n in range(batches * rows))


@pytest.mark.mission("STR-14")
def test_a_driver_may_die_after_any_step(
    spark: "SparkSession", either_bootstrap: str, tmp_path: Path
) -> None:
    topic = new_topic(either_bootstrap, "steps", partitions=3)
    for last in Step:

        def die(step: str, _batch_id: int, last: Step = last) -> None:
            if step == last.value:
                raise Died(f"after {step}")

        # Every life begins the same batch anew, and gets a step further than the one before.
        sink = TopicSink(topic, bootstrap=either_bootstrap, on_step=die, tasks_max=2)
        run(keyed(numbers(spark)), sink, tmp_path / "checkpoint", expect=Died)
        shows(either_bootstrap, topic, expected(1 if last is Step.COMMITTED else 0))
    sink, lives = TopicSink(topic, bootstrap=either_bootstrap), list[Written | None]()

    def remembered(df: "DataFrame", batch_id: int) -> None:
        sink(df, batch_id)
        lives.append(sink.last)

    run(keyed(numbers(spark)), remembered, tmp_path / "checkpoint")
    run(keyed(numbers(spark)), remembered, tmp_path / "checkpoint")
    told = [(one.batch_id, one.skipped, sum(one.records.values())) for one in lives if one is not None]
    assert told == [(0, True, 0), (1, False, ROWS), (2, False, ROWS)], (
        "the last life finds the first batch stored"
    )
    shows(either_bootstrap, topic, expected(3))
    keys = read_all(either_bootstrap, topic)
    wrong = [
        (key, partition)
        for key, partition in zip(
            keys.column("key").to_pylist(), keys.column("partition").to_pylist(), strict=True
        )
        if partition_for_key(key, 3) != partition
    ]
    assert not wrong, "rows are where Kafka's own producers would put them"


def test_a_query_with_state_goes_on_after_a_repeated_batch_and_a_killed_task(
    spark: "SparkSession", spark_bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(spark_bootstrap, "state", partitions=2)
    counts = numbers(spark).groupBy((col("value") % 5).cast("string").alias("key")).count()
    frame = counts.selectExpr("key", "concat(key, ':', count) value")

    def count_of(batches: int) -> list[str]:
        return [f"{key}:{ROWS // 5 * n}" for key in range(5) for n in range(1, batches + 1)]

    def die(step: str, _batch_id: int) -> None:
        if step == Step.COMMITTED.value:
            raise Died

    def once_more(sink: TopicSink, *, expect: type | None = None) -> None:
        run(frame, sink, tmp_path / "checkpoint", expect=expect, mode="update")

    once_more(TopicSink(topic, bootstrap=spark_bootstrap, on_step=die), expect=Died)
    once_more(TopicSink(topic, bootstrap=spark_bootstrap))
    shows(spark_bootstrap, topic, sorted(count_of(2)))
    dead = str(tmp_path / "dead")

    def killed_once(assignment: Assignment, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        reports = list(write_rows(assignment, batches))
        if context is not None and context.partitionId() == 1 and not os.path.exists(dead):
            open(dead, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        yield from reports

    monkeypatch.setattr(stage, "write_rows", killed_once)
    sink = TopicSink(topic, bootstrap=spark_bootstrap, tasks_max=2)
    once_more(sink)
    assert os.path.exists(dead)
    assert sink.last is not None
    assert sink.last.attempts == 2
    shows(spark_bootstrap, topic, sorted(count_of(3)))
    everything = values(spark_bootstrap, topic, isolation="read_uncommitted")
    assert len(everything) > len(count_of(3)), "what the first attempt wrote is there for who wants to see it"


@pytest.mark.java
def test_sparks_own_sink_repeats_what_ours_does_not(
    spark: "SparkSession", spark_bootstrap: str, tmp_path: Path, spark_connector_installed: None
) -> None:
    own, ours = (new_topic(spark_bootstrap, word, partitions=2) for word in ("own", "ours"))
    sink = TopicSink(ours, bootstrap=spark_bootstrap)

    def write(df: "DataFrame", batch_id: int) -> None:
        writer = df.write.format("kafka").option("kafka.bootstrap.servers", spark_bootstrap)
        writer.option("topic", own).save()
        sink(df, batch_id)

    def write_and_die(df: "DataFrame", batch_id: int) -> None:
        write(df, batch_id)
        raise Died

    run(keyed(numbers(spark)), write_and_die, tmp_path / "checkpoint", expect=Died)
    run(keyed(numbers(spark)), write, tmp_path / "checkpoint")
    shows(spark_bootstrap, ours, expected(2))
    shows(spark_bootstrap, own, sorted([*expected(2), *expected(1)]))


def test_every_part_of_a_record_comes_from_its_column(
    spark: "SparkSession", either_bootstrap: str, tmp_path: Path
) -> None:
    first, second = (new_topic(either_bootstrap, word, partitions=5) for word in ("one", "two"))
    records = numbers(spark, 12).selectExpr(
        f"if(value % 2 = 0, '{first}', '{second}') topic",
        "if(value < 4, null, cast(concat('key-', value) as binary)) key",
        "if(value = 5, null, cast(value as string)) value",
        "if(value % 3 = 0, array(named_struct('key', 'n', 'value', cast(cast(value as string) as binary)), "
        "named_struct('key', 'none', 'value', cast(null as binary))), null) headers",
        "if(value > 9, 4, cast(null as int)) partition",
        "timestamp_millis(1700000000000 + value) timestamp",
        "'ignored' other",
    )
    sink = TopicSink(bootstrap=either_bootstrap, name=unique("many"), compression_type="zstd", tasks_max=2)
    run(records, sink, tmp_path / "checkpoint")
    found = {}
    for topic in (first, second):
        for row in read_all(either_bootstrap, topic).to_pylist():
            number = int(row["timestamp"].timestamp() * 1000) - 1700000000000
            assert row["topic"] == (first, second)[number % 2]
            found[number] = row
    assert sorted(found) == list(range(12))
    for number, row in found.items():
        assert row["key"] == (None if number < 4 else f"key-{number}".encode())
        assert row["value"] == (None if number == 5 else str(number).encode())
        headers = [{"key": "n", "value": str(number).encode()}, {"key": "none", "value": None}]
        assert row["headers"] == (headers if number % 3 == 0 else None)
        if number > 9:
            assert row["partition"] == 4
        elif number >= 4:
            assert row["partition"] == partition_for_key(f"key-{number}".encode(), 5)
    assert sink.last is not None
    assert {topic for topic, _partition in sink.last.records} == {first, second}
    for place in sink.last.records:
        assert first_batch(either_bootstrap, *place).compression == Compression.ZSTD


def first_batch(bootstrap: str, topic: str, partition: int) -> BatchHeader:
    """The header of a partition's first batch, as it is stored."""
    client = BrokerClient(ConsumerConfig.of({"bootstrap.servers": bootstrap}))
    try:
        asked = Asked(TopicPartition(topic, partition), 0, 1 << 20)
        return read_header(client.fetched(client.start_fetch(asked, patience_ms=20_000)).data)
    finally:
        client.close()


def test_structs_become_json(spark: "SparkSession", spark_bootstrap: str, tmp_path: Path) -> None:
    topic = new_topic(spark_bootstrap, "json", partitions=1)
    frame = numbers(spark, 3)
    run(
        frame.selectExpr(
            "named_struct('id', value) key", "named_struct('n', value, 'tags', array('a')) value"
        ),
        TopicSink(topic, bootstrap=spark_bootstrap),
        tmp_path / "structs",
    )
    rows = read_all(spark_bootstrap, topic).to_pylist()
    found = sorted((json.loads(row["key"])["id"], json.loads(row["value"])) for row in rows)
    assert found == [(n, {"n": n, "tags": ["a"]}) for n in range(3)]


def test_a_lost_checkpoint_and_a_second_query_are_noticed(
    spark: "SparkSession", both_bootstrap: str, tmp_path: Path
) -> None:
    topic = new_topic(both_bootstrap, "owner", partitions=2)
    frame = keyed(numbers(spark))
    run(frame, TopicSink(topic, bootstrap=both_bootstrap), tmp_path / "first")
    first = TopicSink(topic, bootstrap=both_bootstrap)
    said = run(
        frame, TopicSink(topic, bootstrap=both_bootstrap), tmp_path / "second", expect=SinkRefusedError
    )
    assert "belongs to query" in said
    assert "name=" in said
    old = said.split("belongs to query ")[1].split(",")[0]
    run(frame, first, tmp_path / "first")
    shows(both_bootstrap, topic, expected(2))  # The second did not disturb the first.
    allowed = TopicSink(topic, bootstrap=both_bootstrap, continues=old)
    run(frame, allowed, tmp_path / "second")
    eventually(lambda: len(values(both_bootstrap, topic)) == 4 * ROWS, "it continues, as it was told")
    said = run(frame, first, tmp_path / "first", expect=SinkRefusedError)
    assert "belongs to query" in said, "permission was for one way only"
    run(frame, TopicSink(topic, bootstrap=both_bootstrap, name=unique("own")), tmp_path / "third")
    eventually(
        lambda: len(values(both_bootstrap, topic)) == 5 * ROWS, "a name of its own needs no permission"
    )


def test_a_ledger_that_is_gone_is_noticed(spark: "SparkSession", both_bootstrap: str, tmp_path: Path) -> None:
    topic = new_topic(both_bootstrap, "gone", partitions=2)
    frame, name = keyed(numbers(spark)), unique("gone")
    run(frame, TopicSink(topic, bootstrap=both_bootstrap, name=name), tmp_path / "checkpoint")
    with Admin(bootstrap_servers=both_bootstrap) as admin:
        admin.delete_consumer_groups([f"semel-sink-{name}"])
    sink = TopicSink(topic, bootstrap=both_bootstrap, name=name)
    said = run(frame, sink, tmp_path / "checkpoint", expect=SinkRefusedError)
    assert "offsets.retention.minutes" in said
    sink = TopicSink(topic, bootstrap=both_bootstrap, name=name, continues="none")
    run(frame, sink, tmp_path / "checkpoint")
    shows(both_bootstrap, topic, expected(3))


@pytest.mark.parametrize("is_answered", [True, False])
def test_an_entry_that_is_not_written_yet_is_no_reason_to_refuse(
    spark: "SparkSession",
    spark_bootstrap: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_answered: bool,
) -> None:
    """The last commit was answered, its marker is on the way: who does not wait for it finds no entry."""
    topic = new_topic(spark_bootstrap, "unsettled", partitions=2)
    frame = keyed(numbers(spark))
    run(frame, TopicSink(topic, bootstrap=spark_bootstrap), tmp_path / "checkpoint")
    settled_ledger = SharedTransactions.ledger

    def ledger(self: SharedTransactions, *, settled: bool) -> Entry | None:
        if not settled:
            return None
        if not is_answered:
            raise RefusedError(
                ErrorCode.UNSTABLE_OFFSET_COMMIT, "the entry is refused: UNSTABLE_OFFSET_COMMIT"
            )
        return settled_ledger(self, settled=True)

    monkeypatch.setattr(SharedTransactions, "ledger", ledger)
    sink = TopicSink(topic, bootstrap=spark_bootstrap)
    if is_answered:
        run(frame, sink, tmp_path / "checkpoint")
    else:
        said = run(frame, sink, tmp_path / "checkpoint", expect=SinkRefusedError)
        assert "has no record of any batch" in said
    shows(spark_bootstrap, topic, expected(2 if is_answered else 1))


def test_a_commit_that_is_refused_holds_no_reader_back(
    spark: "SparkSession", spark_bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, name = new_topic(spark_bootstrap, "denied", partitions=2), unique("denied")

    def commit(_self: SharedTransactions, _entry: Entry, _on_step: object) -> None:
        assert is_open(spark_bootstrap, name)
        raise exception_for(ErrorCode.GROUP_AUTHORIZATION_FAILED, "the batch's number is refused")

    sink = TopicSink(topic, bootstrap=spark_bootstrap, name=name)
    with monkeypatch.context() as patched:
        patched.setattr(SharedTransactions, "commit", commit)
        said = run(keyed(numbers(spark)), sink, tmp_path / "checkpoint", expect=GroupAuthorizationException)
    assert "the batch's number is refused" in said
    assert not is_open(spark_bootstrap, name)
    run(keyed(numbers(spark)), sink, tmp_path / "checkpoint")
    shows(spark_bootstrap, topic, expected(2))


def is_open(bootstrap: str, name: str) -> bool:
    """Whether the sink's transaction is."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        return f"semel-sink-{name}" in {
            one.transactional_id for one in admin.list_transactions(states=["Ongoing"])
        }


def test_a_batch_that_takes_too_long_says_which_setting(
    spark: "SparkSession", both_bootstrap: str, tmp_path: Path
) -> None:
    topic, name = new_topic(both_bootstrap, "late", partitions=2), unique("late")

    def linger(step: str, _batch_id: int) -> None:
        if step == Step.WRITTEN.value:
            eventually(lambda: not is_open(both_bootstrap, name), "the end of the broker's patience")

    late = TopicSink(topic, bootstrap=both_bootstrap, name=name, transaction_timeout_ms=1000, on_step=linger)
    said = run(keyed(numbers(spark)), late, tmp_path / "checkpoint", expect=TimeoutException)
    for words in (
        f"sink {name}, query ",
        f"batch 0, topic {topic}: the broker aborted the transaction",
        "transaction.timeout.ms=1000",
        "TopicSink(..., transaction_timeout_ms=...)",
        "transaction.max.timeout.ms",
        "maxOffsetsPerTrigger",
        "Nothing of the batch is seen",
    ):
        assert words in said
    assert values(both_bootstrap, topic) == []
    run(keyed(numbers(spark)), TopicSink(topic, bootstrap=both_bootstrap, name=name), tmp_path / "checkpoint")
    shows(both_bootstrap, topic, expected(2))


def test_it_does_not_travel_and_says_what_to_use_with_spark_connect(spark_bootstrap: str) -> None:
    from pyspark import serializers

    pickler: Any = serializers.CloudPickleSerializer
    with pytest.raises(IllegalStateException, match=r"Spark Connect.*writeStream\.format\('semel'\)"):
        pickler().dumps(TopicSink("t", bootstrap=spark_bootstrap))


@pytest.mark.parametrize(
    ("columns", "settings", "kind", "words"),
    [
        (["repeat('x', 2000000) value"], {}, "Exception", ["RecordTooLarge", "max.request.size"]),
        (["'v' value", "99 partition"], {}, "Exception", ["partition 99", "has 2 partitions"]),
        (["'v' value", "cast(null as string) topic"], {"topic": None}, "ColumnsRefusedError", ["null topic"]),
        (["'v' value", "'no such topic' topic"], {"topic": None}, "Exception", ["no such topic"]),
        (["value"], {}, "ColumnsRefusedError", ["column value is bigint", "cast it"]),
        (["'v' other"], {}, "ColumnsRefusedError", ["no value", "semel.spark.to_records"]),
        (
            ["'v' value", "1 headers"],
            {},
            "ColumnsRefusedError",
            ["column headers is int", "array<struct<key:string,value:binary>>"],
        ),
        (["'v' value", "'x' timestamp"], {}, "ColumnsRefusedError", ["column timestamp is string"]),
        (["'v' value"], {"transaction_timeout_ms": 10**9}, "Exception", ["transaction.max.timeout.ms"]),
    ],
    ids=lambda one: str(one)[:30],
)
def test_what_cannot_be_written_is_refused_in_words(
    spark: "SparkSession",
    spark_bootstrap: str,
    tmp_path: Path,
    columns: list[str],
    settings: dict[str, Any],
    kind: str,
    words: list[str],
) -> None:
    topic = new_topic(spark_bootstrap, "refused", partitions=2)
    given = {"topic": topic, "name": unique("refused"), **settings}
    sink = TopicSink(bootstrap=spark_bootstrap, **given)
    said = run(numbers(spark, 2).selectExpr(*columns), sink, tmp_path / "checkpoint", expect=kind)
    assert not [word for word in words if word not in said], said
    assert f": sink {given['name']}, query " in said, "our line begins with the batch"
    assert values(spark_bootstrap, topic, isolation="read_committed") == []


def test_a_second_frame_of_the_same_batch_is_not_taken_for_a_repetition(
    spark: "SparkSession", spark_bootstrap: str, tmp_path: Path
) -> None:
    topic = new_topic(spark_bootstrap, "twice", partitions=2)
    sink = TopicSink(topic, bootstrap=spark_bootstrap)

    def twice(df: "DataFrame", batch_id: int) -> None:
        sink(df.where("value % 2 = 0"), batch_id)
        sink(df.where("value % 2 = 1"), batch_id)

    said = run(keyed(numbers(spark)), twice, tmp_path / "checkpoint", expect=CallRefusedError)
    assert "called twice for batch 0" in said
    frame = spark.range(3).selectExpr("cast(id as string) value")
    with pytest.raises(IllegalStateException, match=r"df\.write\.format\('semel'\)"):
        sink(frame, 0)


def test_rows_of_five_megabytes(spark: "SparkSession", spark_bootstrap: str, tmp_path: Path) -> None:
    """Through the atomic sink, the source, and the drop-in sink."""
    first, second = (
        new_topic(spark_bootstrap, word, partitions=2, max_message_bytes="8000000")
        for word in ("huge", "copy")
    )
    huge = "repeat(cast(value as string), 5000000) value"
    sink = TopicSink(first, bootstrap=spark_bootstrap, max_request_size=8_000_000, tasks_max=2)
    run(numbers(spark, 4).selectExpr("cast(value as string) key", huge), sink, tmp_path / "checkpoint")
    reader = spark.read.format("semel").option("kafka.bootstrap.servers", spark_bootstrap)
    writer = reader.option("subscribe", first).load().select("key", "value").write.format("semel")
    writer.mode("append").options(
        **{"kafka.bootstrap.servers": spark_bootstrap, "kafka.max.request.size": "8000000", "topic": second}
    ).save()
    for topic in (first, second):
        found = values(spark_bootstrap, topic)
        assert [(len(text), set(text)) for text in found] == [(5_000_000, {str(n)}) for n in range(4)]


def test_a_thousand_partitions_and_rows_without_keys(
    spark: "SparkSession", spark_bootstrap: str, tmp_path: Path
) -> None:
    topic = new_topic(spark_bootstrap, "wide", partitions=1000)
    frame = numbers(spark, 5000)
    run(
        frame.selectExpr("cast(value as string) key", "cast(value as string) value"),
        TopicSink(topic, bootstrap=spark_bootstrap, tasks_max=2),
        tmp_path / "keys",
    )
    shows(spark_bootstrap, topic, expected(1, 5000))
    plain = new_topic(spark_bootstrap, "plain", partitions=3)
    sink = TopicSink(plain, bootstrap=spark_bootstrap, tasks_max=2)
    run(numbers(spark, 40_000).selectExpr("cast(value as string) value"), sink, tmp_path / "plain")
    shows(spark_bootstrap, plain, expected(1, 40_000))
    assert sink.last is not None
    assert len(sink.last.records) == 3, "rows without keys are spread"
    empty = TopicSink(plain, bootstrap=spark_bootstrap, name=unique("empty"))
    run(numbers(spark, 10).where("value < 0").selectExpr("'x' value"), empty, tmp_path / "empty")
    assert (empty.last is not None, empty.last and dict(empty.last.records)) == (True, {})

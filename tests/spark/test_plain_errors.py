"""Our errors come first in Spark's: no traceback of a worker and no Java before the text.

Method: the rules by value; then real queries in the shared session, which fail in every place where our code meets Spark's. The
StackOverflowError is Spark's own, from a real Java error that stopped a job.
"""

import contextlib
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException

from semel import Producer
from semel.client.settings import ProducerConfig
from semel.errors import InvariantError, SemelError
from semel.exceptions import IllegalArgumentException
from semel.spark import TopicSink
from semel.spark.data_source import SemelDataSource
from semel.spark.plain_errors import begin_with, in_plain_words, java_text
from semel.spark.pyspark_extra import need_pyspark
from semel.spark.sink.atomic.shared_transaction import Step
from semel.spark.sink.common.first_contact import FIRST_CONTACT_MS, patience_ms
from support.spark.spark_kit import PATIENCE_SECONDS, drained, eventually, new_topic, unique

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOBODY = "127.0.0.1:9"
"""The port of a service that no machine has had for decades."""
SHORT = {"kafka.max.block.ms": "1000", "kafka.delivery.timeout.ms": "31000"}


@pytest.mark.parametrize(
    ("error", "runtime", "is_hidden"),
    [
        (IllegalArgumentException("minPartitions='many'"), "PYTHON_WORKER", True),
        (IllegalArgumentException("minPartitions='many'"), None, False),
        (InvariantError("two writers"), "PYTHON_WORKER", False),
        (ValueError("a bug"), "PYTHON_WORKER", False),
    ],
)
def test_only_errors_for_users_lose_their_traceback_and_only_in_workers(
    monkeypatch: pytest.MonkeyPatch, error: Exception, runtime: str | None, is_hidden: bool
) -> None:
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")
    if runtime is None:
        monkeypatch.delenv("SPARK_PYTHON_RUNTIME", raising=False)
    else:
        monkeypatch.setenv("SPARK_PYTHON_RUNTIME", runtime)

    @in_plain_words
    def fail() -> None:
        raise error

    with pytest.raises(type(error)):
        fail()
    assert bool(os.environ["SPARK_HIDE_TRACEBACK"]) is is_hidden


def test_a_subject_is_named_once() -> None:
    error = SemelError("nobody listens")
    begin_with(error, "sink a")
    begin_with(error, "sink a")
    assert str(error) == "sink a: nobody listens"


def test_a_first_batch_gives_up_sooner_than_a_running_query() -> None:
    config = ProducerConfig.of({"bootstrap.servers": NOBODY, "transactional.id": "t"})
    assert patience_ms(config, is_first=True) == FIRST_CONTACT_MS == 10_000
    assert patience_ms(config, is_first=False) == config.max_block_ms == 60_000


def test_without_pyspark_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(ModuleNotFoundError, match="runs on PySpark, which is not installed: pip install"):
        need_pyspark()


# In Spark


@pytest.fixture(scope="module")
def orders(spark_bootstrap: str) -> str:
    topic = new_topic(spark_bootstrap, "orders")
    with Producer(bootstrap_servers=spark_bootstrap) as producer:
        for number in range(4):
            producer.send(topic, str(number))
    return topic


Fails = Callable[["SparkSession", str, str, Path], object]


def _read(spark: "SparkSession", server: str, **options: str) -> "DataFrame":
    return spark.read.format("semel").option("kafka.bootstrap.servers", server).options(**options).load()


def _stream(spark: "SparkSession", server: str, **options: str) -> "DataFrame":
    reader = spark.readStream.format("semel").option("kafka.bootstrap.servers", server)
    return reader.options(startingOffsets="earliest", **options).load()


def _run(writer: Any, checkpoint: Path) -> None:
    drained(writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start())


def _batch_sink(frame: "DataFrame", server: str, **options: str) -> None:
    options = {"kafka.bootstrap.servers": server, "topic": "out", **SHORT, **options}
    frame.selectExpr("value").write.format("semel").mode("append").options(**options).save()


def _stream_sink(frame: "DataFrame", server: str, checkpoint: Path, **options: str) -> None:
    options = {"kafka.bootstrap.servers": server, "topic": "out", **SHORT, **options}
    _run(frame.selectExpr("value").writeStream.format("semel").options(**options), checkpoint)


def _atomic_sink(frame: "DataFrame", server: str, checkpoint: Path, column: str = "value") -> None:
    sink = TopicSink(
        "out", bootstrap=server, name=unique("plain"), max_block_ms=1000, delivery_timeout_ms=31_000
    )
    _run(frame.selectExpr(f"value as {column}").writeStream.foreachBatch(sink), checkpoint)


PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text(encoding="utf-8")
TROUBLES = re.findall(
    r"^\| `([^|]+?)`[^|]*\|[^|]+\|[^|]+\|$",
    PAGE.partition("\n## Troubleshooting\n")[2].partition("\n## ")[0],
    re.MULTILINE,
)
"""The errors of the page, as it writes them."""
ELSEWHERE = {
    "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: semel.": "test_plain_session.py",
    "ModuleNotFoundError: No module named 'semel'": "test_plain_session.py",
    "semel.spark runs on PySpark, which is not installed": "test_plain_errors.py",
    "Spark needs Java 17 or newer and there is none": "test_java.py",
    "belongs to query ID, which stored batch N": "pipelines/test_database.py",
    "[FOREACH_BATCH_USER_FUNCTION_ERROR]": "test_plain_errors.py",
    'Expected e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}, got {…, "first batch began at": …}': (
        "source/test_beside_connector.py"
    ),
    "Python worker failed to connect back": "test_plain_errors.py",
    "StackOverflowError": "test_plain_errors.py",
}
"""Shown by tests of their own: where."""


def _as_pattern(trouble: str) -> str:
    """An error of the page as an expression: its words for names stand for any name."""
    return re.sub(r"HOST:PORT|NAME|ID|\bN\b", r"\\S+", re.escape(trouble).replace("…", ".*"))


_READER_GONE = {"kafka.default.api.timeout.ms": "1000"}
_GONE = f"no broker of {NOBODY} can be reached (nobody listens at {NOBODY})"

FAILURES: dict[str, tuple[Fails, str]] = {
    "batch source, option": (
        lambda spark, server, topic, _: _read(spark, server, subscribe=topic, minPartitions="many"),
        "minPartitions='many' is not a whole number",
    ),
    "batch source, topic": (
        lambda spark, server, topic, _: _read(spark, server, subscribe=topic[:-1]).count(),
        "does not exist at ",
    ),
    "batch source, broker": (
        lambda spark, _server, topic, _: _read(spark, NOBODY, subscribe=topic, **_READER_GONE).count(),
        _GONE,
    ),
    "stream source, option": (
        lambda spark, server, topic, directory: _run(
            _stream(spark, server, subscribe=topic, endingOffsets="latest").writeStream.format("noop"),
            directory,
        ),
        "endingTimestamp are not valid in streaming queries",
    ),
    "stream source, broker": (
        lambda spark, _server, topic, directory: _run(
            _stream(spark, NOBODY, subscribe=topic, **_READER_GONE).writeStream.format("noop"), directory
        ),
        _GONE,
    ),
    "drop-in sink, option": (
        lambda spark, server, topic, directory: _stream_sink(
            _stream(spark, server, subscribe=topic), server, directory, topik="t"
        ),
        "unknown option 'topik' of a sink: did you mean topic?",
    ),
    "drop-in sink, columns": (
        lambda spark, server, topic, directory: _run(
            _stream(spark, server, subscribe=topic)
            .selectExpr("value as v")
            .writeStream.format("semel")
            .options(**{"kafka.bootstrap.servers": server, "topic": "out"}),
            directory,
        ),
        "Required attribute 'value' not found",
    ),
    "drop-in batch, mode": (
        lambda spark, server, topic, _: (
            _read(spark, server, subscribe=topic)
            .selectExpr("value")
            .write.format("semel")
            .mode("overwrite")
            .options(**{"kafka.bootstrap.servers": server, "topic": "out"})
            .save()
        ),
        "mode('overwrite') cannot replace what a topic has",
    ),
    "batch source, unknown option": (
        lambda spark, server, topic, _: _read(spark, server, subscribe=topic, maxOffsetPerTriger="3"),
        'is not an option for reading format("semel")',
    ),
    "drop-in sink, broker": (
        lambda spark, server, topic, directory: _stream_sink(
            _stream(spark, server, subscribe=topic), NOBODY, directory
        ),
        f"batch 0, topic out: {_GONE}",
    ),
    "drop-in batch, broker": (
        lambda spark, server, topic, _: _batch_sink(_read(spark, server, subscribe=topic), NOBODY),
        f"batch write, topic out: {_GONE}",
    ),
    "drop-in batch, topic": (
        lambda spark, server, topic, _: _batch_sink(
            _read(spark, server, subscribe=topic), server, topic="a b"
        ),
        "batch write, topic a b: topic='a b'",
    ),
}


NOT_ON_THE_PAGE = ("batch source, option", "drop-in batch, topic")
"""The error says everything."""


@pytest.mark.parametrize("place", FAILURES)
def test_the_text_is_in_the_first_lines(
    spark: "SparkSession", spark_bootstrap: str, orders: str, tmp_path: Path, place: str
) -> None:
    fails, words = FAILURES[place]
    with pytest.raises(PySparkException) as failed:
        fails(spark, spark_bootstrap, orders, tmp_path)
    head = str(failed.value).splitlines()[:2]  # An error of a task has Spark's words on a line of their own.
    assert words in "\n".join(head), str(failed.value)
    assert "Traceback" not in str(failed.value)
    shown = [trouble for trouble in TROUBLES if re.search(_as_pattern(trouble), "\n".join(head))]
    assert shown or place in NOT_ON_THE_PAGE


def test_every_error_of_the_page_is_shown_by_a_test() -> None:
    assert len(TROUBLES) > 10
    assert set(ELSEWHERE) <= set(TROUBLES)
    here = [words for _fails, words in FAILURES.values()]
    for trouble in set(TROUBLES) - set(ELSEWHERE):
        pattern = _as_pattern(trouble)
        assert any(re.search(pattern, f"topic orders {words}x:9") for words in here), trouble


@pytest.mark.parametrize(
    ("server", "column", "words"),
    [
        (NOBODY, "value", f"batch 0, topic out: {_GONE}"),
        (None, "v", "batch 0, topic out: Required attribute"),
    ],
)
def test_the_atomic_sinks_text_comes_before_java(
    spark: "SparkSession",
    spark_bootstrap: str,
    orders: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    server: str | None,
    column: str,
    words: str,
) -> None:
    """Spark shows a traceback for every error of `foreachBatch`: ours comes behind the text. There is a line in the log as well."""
    frame = _stream(spark, spark_bootstrap, subscribe=orders)
    with caplog.at_level("ERROR", "semel"), pytest.raises(StreamingQueryException) as failed:
        _atomic_sink(frame, server or spark_bootstrap, tmp_path, column)
    lines = str(failed.value).splitlines()
    assert "[FOREACH_BATCH_USER_FUNCTION_ERROR]" in lines[0]
    assert words in lines[0]
    assert len([line for line in lines if words in line]) == 2, "and once more behind the traceback"
    assert not [line for line in lines[:20] if line.startswith("\tat ")]
    assert [message for message in caplog.messages if words in message]


def test_a_python_that_starts_too_slowly_is_sparks_own_error(
    spark: "SparkSession", spark_bootstrap: str, orders: str, tmp_path: Path
) -> None:
    """Spark waits ten seconds for the process of a streaming source, whatever it is told to wait; for other workers it waits longer."""
    slow = tmp_path / "slow-python"
    slow.write_text(
        f'#!/bin/sh\ncase "$*" in *streaming_source_runner*) sleep 60;; esac\nexec \'{sys.executable}\' "$@"\n'
    )
    slow.chmod(0o755)

    class SlowlyStarted(SemelDataSource):
        @classmethod
        def name(cls) -> str:
            return "semel_slowly_started"

    context = spark.sparkContext
    quick = context.pythonExec
    context.pythonExec = str(slow)
    try:
        spark.dataSource.register(SlowlyStarted)
    finally:
        context.pythonExec = quick
    options = {"kafka.bootstrap.servers": spark_bootstrap, "subscribe": orders}
    frame = spark.readStream.format("semel_slowly_started").options(**options).load()
    with pytest.raises(StreamingQueryException, match=r"Python worker failed to connect back"):
        _run(frame.writeStream.format("noop"), tmp_path / "checkpoint")


# Stopping


class Stopped:
    """A query that is stopped while its sink writes."""

    def __init__(self, spark: "SparkSession") -> None:
        self.spark = spark
        self.query: Any = None
        self.text: str | None = None
        self._stopping: threading.Thread | None = None

    def stop(self) -> None:
        """Stop the query from another thread, and return when its own has been interrupted."""
        from pyspark import InheritableThread

        self._stopping = InheritableThread(target=self.query.stop)
        self._stopping.start()
        jvm: Any = self.spark._jvm
        java_thread = jvm.java.lang.Thread
        eventually(lambda: bool(java_thread.currentThread().isInterrupted()), "the interrupt")

    def ended(self) -> None:
        assert self._stopping is not None
        self._stopping.join(PATIENCE_SECONDS)
        assert not self._stopping.is_alive()


@contextlib.contextmanager
def started(writer: Any, checkpoint: Path, stopped: Stopped, may_start: threading.Event) -> Iterator[None]:
    stopped.query = writer.option("checkpointLocation", str(checkpoint)).start()
    may_start.set()
    try:
        yield
    finally:
        stopped.query.stop()


def test_stopping_a_query_in_the_middle_of_a_batch_is_no_error(
    spark: "SparkSession", spark_bootstrap: str, orders: str, tmp_path: Path
) -> None:
    stopped, may_start, has_stopped = Stopped(spark), threading.Event(), threading.Event()

    def on_step(step: str, _batch_id: int) -> None:
        if step == Step.IDENTIFIED.value:
            assert may_start.wait(PATIENCE_SECONDS)
            stopped.stop()
            has_stopped.set()

    out = new_topic(spark_bootstrap, "out")
    sink = TopicSink(out, bootstrap=spark_bootstrap, on_step=on_step)
    frame = _stream(spark, spark_bootstrap, subscribe=orders).selectExpr("value")
    with started(frame.writeStream.foreachBatch(sink), tmp_path, stopped, may_start):
        assert has_stopped.wait(PATIENCE_SECONDS)
        stopped.ended()
        assert stopped.query.exception() is None


def test_spark_can_search_the_text_of_a_stopped_job(
    spark: "SparkSession", spark_bootstrap: str, orders: str, tmp_path: Path
) -> None:
    """Spark asks its expression whether a query is being stopped. Java's frames overflow it, and our text does not."""
    from py4j.protocol import Py4JJavaError

    stopped, may_start, seen = Stopped(spark), threading.Event(), list[Py4JJavaError]()

    def write(df: "DataFrame", _batch_id: int) -> None:
        assert may_start.wait(PATIENCE_SECONDS)
        stopped.stop()
        try:
            df.collect()
        except Py4JJavaError as error:
            seen.append(error)

    frame = _stream(spark, spark_bootstrap, subscribe=orders).selectExpr("value")
    with started(frame.writeStream.foreachBatch(write), tmp_path, stopped, may_start):
        eventually(lambda: bool(seen), "the interrupted job")
        stopped.ended()
    (error,) = seen
    text = java_text(error)
    assert text is not None
    jvm: Any = spark._jvm
    runtime = jvm.org.apache.spark.sql.execution.streaming.runtime.StreamExecution

    def is_recognized(message: str) -> bool:
        return bool(
            runtime.isInterruptionException(jvm.py4j.Py4JException(message), spark.sparkContext._jsc.sc())
        )

    assert is_recognized(text)
    with pytest.raises(Py4JJavaError, match="StackOverflowError"):
        is_recognized(f"py4j.protocol.Py4JJavaError: {error}")


def test_an_error_of_java_keeps_its_text_and_loses_its_frames(spark: "SparkSession") -> None:
    from py4j.protocol import Py4JJavaError

    jvm: Any = spark._jvm
    with pytest.raises(Py4JJavaError) as failed:
        jvm.java.lang.Class.forName("no.such.Class")
    text = java_text(failed.value)
    assert text is not None
    assert text.startswith("java.lang.ClassNotFoundException: no.such.Class")
    assert "\tat " in str(failed.value)
    assert "\tat " not in text
    assert java_text(ValueError("a bug")) is None

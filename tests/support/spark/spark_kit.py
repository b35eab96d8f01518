"""What tests on Spark share: one session per process, quick to start and small, and programs in processes of their own.

`shared_session` is what the fixture `spark` gives. A test never stops it: starting Spark takes seconds, and Spark allows one
session per process. Tests that kill a driver run a program with `driver_process` instead.
"""

import atexit
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import pyarrow as pa

from semel import Admin, Consumer, NewTopic, TopicPartition
from semel.peers import spark as spark_peer
from semel.peers.kafka import PeerMissingError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PATIENCE_SECONDS: Final = float(os.environ.get("SEMEL_PATIENCE", "240"))
"""How long anything is waited for; a machine that does much else may need more."""
_POLL_MS: Final = 200
_TESTS: Final = Path(__file__).parents[2]
_SOURCES: Final = _TESTS.parent / "src"

# A JVM for small data: starts fast, compiles little, collects on one thread.
JVM_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss1m -Dderby.system.home={scratch}"


def small_config(scratch: Path, *, memory: str = "640m") -> dict[str, str]:
    """Settings of a session for tests: no web pages, few partitions, nothing left in the working directory."""
    jvm = JVM_OPTIONS.format(scratch=scratch)
    return {
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": jvm,
        "spark.executor.extraJavaOptions": jvm,
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch / "local"),
        "spark.log.level": "ERROR",
        # Old micro-batches are not needed again, and their metadata is not looked at.
        "spark.sql.streaming.minBatchesToRetain": "2",
    }


def connector_config() -> dict[str, str]:
    """Spark's own Kafka connector and its Avro module on the class path, where they are installed: for tests beside and with them."""
    there: list[str] = []
    for classpath in (spark_peer.connector_classpath, spark_peer.avro_classpath):
        with contextlib.suppress(PeerMissingError):
            there.append(classpath())
    return {"spark.driver.extraClassPath": os.pathsep.join(there)} if there else {}


class _Shared:
    session: "SparkSession | None" = None
    scratch: Path | None = None


def shared_session() -> "SparkSession":
    """The session of this process, started by the first test that asks. Stopped when the process ends."""
    if _Shared.session is None:
        from semel.spark.spark_session import session

        _Shared.scratch = Path(tempfile.mkdtemp(prefix="semel-spark-"))
        config = {**small_config(_Shared.scratch), **connector_config()}
        _Shared.session = session("semel-tests", master="local[2]", config=config)
        atexit.register(stop_shared_session)
    return _Shared.session


def stop_shared_session() -> None:
    """Stop Spark and its JVM, wait for it, and remove what it left. Stopping twice is harmless."""
    session, _Shared.session = _Shared.session, None
    if session is None:
        return
    from pyspark import SparkContext

    for query in session.streams.active:
        query.stop()
    session.stop()
    gateway = SparkContext._gateway
    SparkContext._gateway = None
    SparkContext._jvm = None
    if gateway is not None:
        gateway.shutdown()
        process = gateway.proc
        process.stdin.close()  # Spark's gateway ends with its input.
        try:
            process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if _Shared.scratch is not None:
        shutil.rmtree(_Shared.scratch, ignore_errors=True)


def unique(word: str) -> str:
    """A name no other test uses."""
    return f"{word}-{uuid.uuid4().hex[:10]}"


def new_topic(bootstrap: str, word: str = "topic", partitions: int = 2, **configs: str) -> str:
    """A new topic on any broker; settings with underscores for dots. It keeps records of any time: brokers delete those of 1970 soon."""
    name = unique(word)
    settings = {"retention.ms": "-1", **{key.replace("_", "."): value for key, value in configs.items()}}
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(name, num_partitions=partitions, configs=settings)])
    return name


def read_all(bootstrap: str, topic: str, *, isolation: str = "read_committed") -> pa.Table:
    """Every record of a topic up to its end as it is now: topic, partition, offset, timestamp, key, value, headers."""
    markers_written(bootstrap)
    with Consumer(bootstrap_servers=bootstrap, isolation_level=isolation) as consumer:
        partitions = [TopicPartition(topic, one.partition) for one in consumer.partitions_for(topic)]
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(partitions)
        batches = list[pa.RecordBatch]()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while any(consumer.position(one) < ends[one] for one in partitions):
            assert time.monotonic() < deadline, f"{topic} cannot be read to its end {ends}"
            batch = consumer.poll_arrow(timeout_ms=_POLL_MS)
            if batch.num_rows:
                batches.append(batch)
        schema = batches[0].schema if batches else consumer.poll_arrow(timeout_ms=0).schema
    return pa.Table.from_batches(batches, schema=schema)


def markers_written(bootstrap: str) -> None:
    """A commit is answered when it is decided; Kafka writes its markers afterwards. Wait for those decided until now."""
    with Admin(bootstrap_servers=bootstrap) as admin:

        def decided() -> set[str]:
            listed = admin.list_transactions(states=["PrepareCommit", "PrepareAbort"])
            return {one.transactional_id for one in listed}

        before = decided()
        eventually(lambda: not before & decided(), f"the markers of {sorted(before)}")


def values(bootstrap: str, topic: str, *, isolation: str = "read_committed") -> list[str]:
    """The values of a topic as text, sorted: what a multiset comparison needs."""
    column = read_all(bootstrap, topic, isolation=isolation).column("value")
    return sorted(one.decode() for one in column.to_pylist() if one is not None)


def eventually(happened: Callable[[], bool], what: str, *, seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until it is so, and fail saying what did not happen."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.02)


def left_open(bootstrap: str, topic: str) -> list[str]:
    """Transactions that hold readers of this topic back."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        open_ids = [one.transactional_id for one in admin.list_transactions(states=["Ongoing"])]
        described = admin.describe_transactions(open_ids) if open_ids else {}
    return [
        name
        for name, one in described.items()
        if one.state == "Ongoing" and any(place.topic == topic for place in one.topic_partitions)
    ]


def drained(query: "StreamingQuery") -> None:
    """Wait for a query over what is available, and raise what it raised; it is stopped either way."""
    try:
        assert query.awaitTermination(int(PATIENCE_SECONDS)), "the query did not end"
    finally:
        query.stop()


@dataclass
class DriverProcess:
    """A Python program in a process group of its own, with Spark's JVM and workers below it."""

    process: subprocess.Popen[str]
    output: Path

    def text(self) -> str:
        """What it has written so far, to standard output and error."""
        return self.output.read_text(encoding="utf-8", errors="replace")

    def kill(self) -> None:
        """End the driver, its JVM and every worker at once, as a lost machine would."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, 9)
        self.process.wait()

    def wait(self, seconds: float = PATIENCE_SECONDS) -> int:
        """The exit code. A program that does not end in time is killed, and the test fails with what it said."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"it did not end within {seconds} s:\n{self.text()[-6000:]}") from None


@contextlib.contextmanager
def driver_process(
    program: str | Path,
    arguments: Sequence[str] = (),
    *,
    directory: Path,
    environment: Mapping[str, str] | None = None,
) -> Iterator[DriverProcess]:
    """Run a Python program (a file, or its text) as a driver; whatever is left of it at the end is killed."""
    directory.mkdir(parents=True, exist_ok=True)
    if isinstance(program, str):
        file = directory / f"{unique('driver')}.py"
        file.write_text(program, encoding="utf-8")
        program = file
    output = directory / f"{unique('output')}.txt"
    with output.open("w", encoding="utf-8") as sink:
        process = _started([sys.executable, str(program), *arguments], sink, environment)
    driver = DriverProcess(process, output)
    try:
        yield driver
    finally:
        driver.kill()


def _started(
    command: Sequence[str], sink: IO[str], environment: Mapping[str, str] | None
) -> "subprocess.Popen[str]":
    paths = [str(_TESTS), str(_SOURCES), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.Popen(
        command,
        stdout=sink,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # A group of its own: the kill reaches the JVM and the workers too.
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), **(environment or {})},
    )

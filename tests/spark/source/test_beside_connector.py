"""`format("semel")` beside Spark's own `format("kafka")`: the same topic, the same options, the same rows, offsets and refusals.

Method: both formats in one session, on Semel's broker and on Apache Kafka. Where we differ on purpose (docs/spark.md) is not here. How
ranges are divided is compared with the connector's own class, over seeded cases.
"""

import datetime as dt
import json
import os
import random
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException

from semel import Producer
from semel.errors import SemelError
from semel.peers import spark as spark_peer
from semel.peers.kafka import PeerMissingError, java
from semel.spark.source.batch_reader import BatchReader
from semel.spark.source.columns import arrow_schema
from semel.spark.source.offsets import BEGAN
from semel.spark.source.options import SourceOptions
from semel.spark.source.ranges import OffsetRange, divided
from semel.types import TopicPartition
from support.spark.spark_kit import drained, markers_written, new_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.java
FORMATS = ("semel", "kafka")
PARTS = {"minPartitions", "maxRecordsPerPartition"}
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
JAVA = Path(__file__).parents[2] / "java"
PAGE = (Path(__file__).parents[3] / "docs" / "spark.md").read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def connector() -> str:
    """The connector's jars; skips with a reason where they are missing, fails where peers are required."""
    try:
        return spark_peer.connector_classpath()
    except PeerMissingError as missing:
        if os.environ.get("SEMEL_REQUIRE_PEERS"):
            raise
        pytest.skip(str(missing))


def test_ranges_are_divided_as_the_connector_divides_them(connector: str) -> None:
    dice = random.Random(8)
    cases = []
    for _ in range(1500):
        ranges = [
            OffsetRange(
                TopicPartition(topic, partition),
                start := dice.randrange(1000),
                start + dice.choice((0, 1, 7, 90, 1000, 10**6)),
            )
            for topic in ("t", "u")
            for partition in range(dice.randrange(4))
        ]
        low = dice.choice((None, dice.randrange(1, 40)))
        high = dice.choice((None, dice.choice((1, 10, 500, 10**6)) + dice.randrange(50)))
        if ranges and (high is None or all(one.size / high < 2000 for one in ranges)):
            cases.append((low, high, ranges))
    words = [
        " ".join(
            [
                str(low or "-"),
                str(high or "-"),
                *(f"{one.where.topic}:{one.where.partition}:{one.start}:{one.end}" for one in ranges),
            ]
        )
        for low, high, ranges in cases
    ]
    answers = _asked_in_java(connector, "\n".join(words) + "\n").splitlines()
    for (low, high, ranges), answer in zip(cases, answers, strict=True):
        ours = divided(ranges, min_partitions=low, max_records=high)
        said = [f"{one.where.topic}:{one.where.partition}:{one.start}:{one.end}" for one in ours]
        assert said == answer.split(), (low, high, ranges)


def _asked_in_java(connector: str, cases: str) -> str:
    import pyspark

    (scala,) = (Path(pyspark.__file__).parent / "jars").glob("scala-library-*.jar")
    done = subprocess.run(
        [
            java(),
            "-Xmx256m",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            f"{connector}:{scala}",
            str(JAVA / "SparkRanges.java"),
        ],
        input=cases,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class Topic:
    """Two partitions with committed, aborted and plain records, nulls, headers, and times that run with the offsets."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.name = new_topic(bootstrap, "beside", partitions=2)
        with Producer(bootstrap_servers=bootstrap) as producer:
            for number in range(40):
                producer.send(
                    self.name,
                    None if number % 5 == 0 else b"%d" % number,
                    None if number % 3 == 0 else b"k%d" % number,
                    partition=number % 2,
                    timestamp=10_000 + number,
                    headers=[("a", b"%d" % number), ("b", None)] if number % 4 == 0 else None,
                )
        settings = {"bootstrap.servers": bootstrap, "transactional.id": self.name}
        with Producer(settings) as producer:
            producer.init_transactions()
            for commits in (False, True, False):
                producer.begin_transaction()
                for number in range(10):
                    producer.send(self.name, b"t%d" % number, partition=number % 2, timestamp=20_000 + number)
                producer.flush()
                if commits:
                    producer.commit_transaction()
                else:
                    producer.abort_transaction()
        markers_written(bootstrap)

    def offsets(self, first: int, second: int) -> str:
        return json.dumps({self.name: {"0": first, "1": second}})


@pytest.fixture(params=["spark_bootstrap", "kafka_broker"])
def topic(request: pytest.FixtureRequest, connector: str) -> Topic:
    given = request.getfixturevalue(request.param)
    return Topic(given if isinstance(given, str) else given.bootstrap)


def options_of(topic: Topic, given: dict[str, str]) -> dict[str, str]:
    named = given.keys() & {"subscribe", "subscribePattern", "assign"}
    return {
        "kafka.bootstrap.servers": topic.bootstrap,
        "kafka.isolation.level": "read_committed",
        "includeHeaders": "true",
        "fetchOffset.retryIntervalMs": "10",
        "kafkaConsumer.pollTimeoutMs": "3000",
        "kafka.fetch.max.wait.ms": "50",
        **({} if named else {"subscribe": topic.name}),
        **given,
    }


def theirs(spark: "SparkSession", topic: Topic, given: dict[str, str]) -> Any:
    """The connector's rows in order and its number of tasks, or that it refused."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        frame = spark.read.format("kafka").options(**options_of(topic, given)).load()
        rows = [row.asDict(recursive=True) for row in frame.select(*COLUMNS).collect()]
        tasks = frame.rdd.getNumPartitions() if given.keys() & PARTS else None
    except (PySparkException, Py4JJavaError):
        return "refused"
    return in_order(rows), tasks


def ours(topic: Topic, given: dict[str, str]) -> Any:
    """The same of our reader, called as Spark calls it."""
    try:
        reader = BatchReader(SourceOptions.of(options_of(topic, given)).for_batch())
        parts = reader.partitions()
        batches = [batch for part in parts for batch in reader.read(part)]
    except SemelError:
        return "refused"
    table = pa.Table.from_batches(batches, schema=arrow_schema(include_headers=True))
    return in_order(table.select(COLUMNS).to_pylist()), len(parts) if given.keys() & PARTS else None


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for row in rows:
        row["timestamp"] = row["timestamp"].astimezone(dt.UTC)
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["offset"]))


def test_the_same_rows_and_refusals(spark: "SparkSession", topic: Topic) -> None:
    of, name = topic.offsets, topic.name
    answered = [
        {},
        {"startingOffsets": of(5, -2)},
        {"startingOffsets": of(3, 30), "endingOffsets": of(7, -1)},
        {"endingOffsets": of(22, 25)},
        {"startingTimestamp": "10020", "endingTimestamp": "10030"},
        {"startingOffsetsByTimestamp": of(10_011, 20_000), "endingTimestamp": "99999999999999"},
        {"startingTimestamp": "99999999999999", "startingOffsetsByTimestampStrategy": "latest"},
        {"assign": json.dumps({name: [1]})},
        {"subscribePattern": f"{name[:-2]}.."},
        {"subscribePattern": name[3:-3]},
        {"minPartitions": "7"},
        # With ends that are not numbers the connector counts one record per partition, and divides nothing.
        {"maxRecordsPerPartition": "9", "startingOffsets": of(0, 1), "endingOffsets": of(35, 30)},
        {"minPartitions": "9", "maxRecordsPerPartition": "20"},
        {"startingOffsets": of(5, 5), "endingOffsets": of(5, 5)},
    ]
    refused = [
        {"startingOffsets": "latest"},
        {"endingOffsets": "earliest"},
        {"startingOffsets": of(-1, 0)},
        {"startingOffsets": "nonsense"},
        {"startingOffsets": json.dumps({name: {"0": 1}})},
        {"startingOffsets": of(9, 9), "endingOffsets": of(3, 9)},
        {"startingOffsets": of(5000, 0)},
        {"endingOffsets": of(5000, 9)},
        {"startingTimestamp": "99999999999999"},
        {"startingTimestamp": "soon"},
        {"subscribe": name, "assign": json.dumps({name: [1]})},
        {
            "subscribe": "nowhere-at-all",
            "kafka.default.api.timeout.ms": "2000",
            "kafka.request.timeout.ms": "1000",
        },
        {"minPartitions": "0"},
        {"kafka.auto.offset.reset": "earliest"},
        {"kafka.key.deserializer": "x"},
        {"failOnDataLoss": "perhaps"},
    ]
    for given in answered:
        found = ours(topic, given)
        assert found != "refused", given
        assert found == theirs(spark, topic, given), given
    for given in refused:
        assert (ours(topic, given), theirs(spark, topic, given)) == ("refused", "refused"), given


def test_the_same_micro_batches(spark: "SparkSession", topic: Topic, tmp_path: Path) -> None:
    """Every batch of a limited stream ends at the same offsets, and the lag that is reported is the same."""
    ends: dict[str, list[Any]] = {}
    behind: dict[str, list[Any]] = {}
    for name in FORMATS:
        frame = (
            spark.readStream.format(name)
            .option("kafka.bootstrap.servers", topic.bootstrap)
            .option("subscribe", topic.name)
            .option("startingOffsets", topic.offsets(4, -2))
            .option("maxOffsetsPerTrigger", "17")
            .option("kafka.isolation.level", "read_committed")
            .load()
        )
        query = (
            frame.writeStream.format("noop")
            .option("checkpointLocation", str(tmp_path / name))
            .trigger(availableNow=True)
            .start()
        )
        drained(query)
        progress = [one for one in query.recentProgress if one["numInputRows"]]
        sources = [one["sources"][0] for one in progress]
        ends[name] = [_offsets(one["endOffset"]) for one in sources]
        behind[name] = [(_offsets(one["latestOffset"]), one["numInputRows"]) for one in sources]
    assert ends["semel"] == ends["kafka"]
    assert behind["semel"] == behind["kafka"]
    assert len(ends["semel"]) >= 3


@pytest.mark.mission("STR-13")
def test_a_checkpoint_goes_from_one_format_to_the_other(
    spark: "SparkSession", topic: Topic, tmp_path: Path
) -> None:
    """One word is changed between two runs on the same checkpoint, and changed back."""
    seen: list[tuple[int, int]] = []

    def run(name: str, new: int, checkpoint: str = "checkpoint") -> None:
        with Producer(bootstrap_servers=topic.bootstrap) as producer:
            for number in range(new):
                producer.send(topic.name, b"later", partition=number % 2)
        frame = (
            spark.readStream.format(name)
            .option("kafka.bootstrap.servers", topic.bootstrap)
            .option("subscribe", topic.name)
            .option("startingOffsets", "earliest")
            .option("kafka.isolation.level", "read_committed")
            .load()
        )
        keep = frame.writeStream.foreachBatch(
            lambda batch, _: seen.extend((row.partition, row.offset) for row in batch.collect())
        )
        checkpoint = str(tmp_path / checkpoint)
        drained(keep.option("checkpointLocation", checkpoint).trigger(availableNow=True).start())

    run("kafka", 0)
    first = len(seen)
    run("semel", 10)
    run("kafka", 4)
    assert len(seen) == first + 14
    assert len(set(seen)) == len(seen)
    # The first batch of a query of ours keeps its start beside its end, and the connector does not read that.
    run("semel", 0, "ours")
    with pytest.raises(StreamingQueryException) as refused:
        run("kafka", 2, "ours")
    for words in (
        'Expected e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}, got ',
        '"first batch began at"',
    ):
        assert words in str(refused.value)
        assert words in PAGE
    seen.clear()
    run("semel", 0, "ours")  # One more batch of ours,
    run("kafka", 3, "ours")  # and the connector goes on.
    assert len(seen) == 2 + 3
    assert len(set(seen)) == len(seen)


def _offsets(kept: Any) -> Any:
    found = json.loads(kept) if isinstance(kept, str) else kept
    return {name: value for name, value in found.items() if name != BEGAN}

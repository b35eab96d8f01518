"""`spark.read.format("semel")` on a real Spark: columns, options, tasks, filters, errors.

Method: one session, small topics; what was produced is the reference.
"""

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from semel import Producer
from support.spark.spark_kit import drained, new_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from semel.peers.kafka import KafkaBroker


def frame(spark: "SparkSession", bootstrap: str, topic: str, **options: Any) -> "DataFrame":
    reader = (
        spark.read.format("semel").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    )
    return reader.options(**{name.replace("__", "."): value for name, value in options.items()}).load()


def filled(bootstrap: str, partitions: int = 3, count: int = 300) -> str:
    """Record n has the value n, in partition n % partitions, one second after the other."""
    topic = new_topic(bootstrap, partitions=partitions)
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(count):
            producer.send(
                topic,
                b"%d" % number,
                b"k%d" % (number % 7),
                partition=number % partitions,
                timestamp=number * 1000,
                headers=[("n", b"%d" % number)] if number % 2 else None,
            )
    return topic


@pytest.mark.mission("STR-13")
def test_a_topic_is_a_data_frame(spark: "SparkSession", both_bootstrap: str) -> None:
    topic = filled(both_bootstrap)
    plain = frame(spark, both_bootstrap, topic)
    assert plain.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int>"
    )
    with_headers = frame(spark, both_bootstrap, topic, includeHeaders=True)
    rows = sorted(with_headers.collect(), key=lambda row: int(row.value))
    assert [int(row.value) for row in rows] == list(range(300))
    for number, row in enumerate(rows):
        assert (row.key, row.topic, row.partition, row.offset) == (
            b"k%d" % (number % 7),
            topic,
            number % 3,
            number // 3,
        )
        assert row.timestamp.astimezone(dt.UTC) == dt.datetime.fromtimestamp(number, tz=dt.UTC)
        assert row.timestampType == 0
        headers = None if row.headers is None else [(one.key, one.value) for one in row.headers]
        assert headers == ([("n", b"%d" % number)] if number % 2 else None)
    assert plain.count() == 300
    assert plain.selectExpr("sum(cast(cast(value as string) as int))").collect() == [(sum(range(300)),)]


def test_options_decide_what_is_read_and_by_how_many(spark: "SparkSession", spark_bootstrap: str) -> None:
    topic = filled(spark_bootstrap)
    ends = f'{{"{topic}": {{"0": 10, "1": 20, "2": -1}}}}'
    starts = f'{{"{topic}": {{"0": 5, "1": -2, "2": 99}}}}'
    some = frame(spark, spark_bootstrap, topic, startingOffsets=starts, endingOffsets=ends)
    assert some.groupBy("partition").count().orderBy("partition").collect() == [(0, 5), (1, 20), (2, 1)]
    assert frame(spark, spark_bootstrap, topic).rdd.getNumPartitions() == 3
    many = frame(spark, spark_bootstrap, topic, minPartitions=7)
    assert 6 <= many.rdd.getNumPartitions() <= 9
    assert many.count() == 300
    assert frame(spark, spark_bootstrap, topic, maxRecordsPerPartition=30).rdd.getNumPartitions() == 12
    assigned = (
        spark.read.format("semel")
        .option("kafka.bootstrap.servers", spark_bootstrap)
        .option("assign", f'{{"{topic}": [1]}}')
        .load()
    )
    assert assigned.select("partition").distinct().collect() == [(1,)]
    empty = frame(spark, spark_bootstrap, new_topic(spark_bootstrap))
    assert empty.collect() == []


def test_filters_decide_what_is_fetched(spark: "SparkSession", spark_bootstrap: str) -> None:
    """The number of tasks shows what is not even asked for."""
    topic = filled(spark_bootstrap)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        whole = frame(spark, spark_bootstrap, topic, pushFilters="true")
        one = whole.where("partition = 1 and offset >= 40 and offset < 45")
        assert [row.offset for row in one.orderBy("offset").collect()] == [40, 41, 42, 43, 44]
        assert one.rdd.getNumPartitions() == 1
        late = whole.where("timestamp >= timestamp_millis(299000)")
        assert [row.value for row in late.collect()] == [b"299"]
        assert late.rdd.getNumPartitions() <= 3
        assert whole.where("topic = 'elsewhere'").collect() == []
        assert frame(spark, spark_bootstrap, topic).where("partition = 1").count() == 100
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_mistakes_are_told_in_words_that_help(spark: "SparkSession", spark_bootstrap: str) -> None:
    from pyspark.errors import PySparkException

    topic = filled(spark_bootstrap, count=3)

    def refused(action: Any) -> str:
        with pytest.raises(PySparkException) as refusal:
            action()
        return str(refusal.value)

    assert "did you mean startingOffsets?" in refused(
        lambda: frame(spark, spark_bootstrap, topic, startingOffset="earliest")
    )
    assert "did you mean kafka.fetch.max.bytes?" in refused(
        lambda: frame(spark, spark_bootstrap, topic, kafka__fetch__max__byte="1")
    )
    assert f"did you mean {topic}?" in refused(lambda: frame(spark, spark_bootstrap, topic[:-1]).count())
    assert "startingOffsets can't be latest" in refused(
        lambda: frame(spark, spark_bootstrap, topic, startingOffsets="latest").count()
    )
    assert "takes no schema" in refused(
        lambda: (
            spark.read.format("semel")
            .schema("value string")
            .option("kafka.bootstrap.servers", spark_bootstrap)
            .option("subscribe", topic)
            .load()
            .count()
        )
    )
    assert "takes no path" in refused(lambda: spark.read.format("semel").load("orders"))


def test_a_thousand_partitions(spark: "SparkSession", spark_bootstrap: str, tmp_path: Path) -> None:
    """Every one of them holds a record: few tasks read them all, in a batch and as a stream."""
    check_a_thousand_partitions(spark, spark_bootstrap, tmp_path)


@pytest.mark.java
@pytest.mark.campaign  # Kafka takes long to make them.
def test_a_thousand_partitions_of_kafka(
    spark: "SparkSession", kafka_broker: "KafkaBroker", tmp_path: Path
) -> None:
    check_a_thousand_partitions(spark, kafka_broker.bootstrap, tmp_path)


def check_a_thousand_partitions(spark: "SparkSession", bootstrap: str, scratch: Path) -> None:
    topic = new_topic(bootstrap, partitions=1000)
    with Producer(bootstrap_servers=bootstrap, linger_ms=100) as producer:
        for partition in range(1000):
            producer.send(topic, b"%d" % partition, partition=partition)
    read = frame(spark, bootstrap, topic).select("partition", "offset", "value")
    assert read.rdd.getNumPartitions() == 33
    rows = read.collect()
    assert sorted((row.partition, row.offset, int(row.value)) for row in rows) == [
        (one, 0, one) for one in range(1000)
    ]
    stream = (
        spark.readStream.format("semel")
        .options(**{"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"})
        .load()
    )
    query = (
        stream.selectExpr("partition", "cast(cast(value as string) as int) number")
        .writeStream.format("memory")
        .queryName("thousand")
        .option("checkpointLocation", str(scratch / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    drained(query)
    assert [one["numInputRows"] for one in query.recentProgress if one["numInputRows"]] == [1000]
    rows = spark.table("thousand").collect()
    assert sorted((row.partition, row.number) for row in rows) == [(one, one) for one in range(1000)]

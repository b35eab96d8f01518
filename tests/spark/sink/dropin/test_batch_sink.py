"""`write.format("semel")`: a data frame is in the topic as a whole, or not at all.

Method: the same on Semel and on Apache Kafka; a job with a task that fails must leave nothing, and no transaction open.
"""

from typing import TYPE_CHECKING

import pytest

from support.spark.spark_kit import eventually, left_open, new_topic, read_all, values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_frame_is_written_as_a_whole(spark: "SparkSession", either_bootstrap: str) -> None:
    topic = new_topic(either_bootstrap, "out", 3)
    frame = spark.range(0, 5000, numPartitions=3).selectExpr(
        "cast(id % 7 as string) as key", "cast(id as string) as value"
    )
    frame.write.format("semel").mode("append").option("kafka.bootstrap.servers", either_bootstrap).option(
        "topic", topic
    ).save()
    table = read_all(either_bootstrap, topic)
    assert sorted(int(one) for one in table["value"].to_pylist()) == list(range(5000))
    places = set(zip(table["key"].to_pylist(), table["partition"].to_pylist(), strict=True))
    assert len(places) == 7, "a key has one partition"


def test_a_frame_goes_to_five_hundred_partitions(spark: "SparkSession", spark_bootstrap: str) -> None:
    topic = new_topic(spark_bootstrap, "wide", 500)
    frame = spark.range(0, 2000, numPartitions=4).selectExpr(
        "cast(id as string) as value", "cast(id % 500 as int) as partition"
    )
    frame.write.format("semel").mode("append").option("kafka.bootstrap.servers", spark_bootstrap).option(
        "topic", topic
    ).save()
    table = read_all(spark_bootstrap, topic)
    places = zip(table["value"].to_pylist(), table["partition"].to_pylist(), strict=True)
    assert sorted((int(value), partition) for value, partition in places) == [
        (n, n % 500) for n in range(2000)
    ]
    assert not left_open(spark_bootstrap, topic)


def test_a_job_that_fails_leaves_nothing(spark: "SparkSession", either_bootstrap: str) -> None:
    topic = new_topic(either_bootstrap, "out", 2)
    frame = spark.range(0, 100, numPartitions=2).selectExpr(
        "if(id = 99, raise_error('no such row'), cast(id as string)) as value"
    )
    writer = frame.write.format("semel").mode("append").option("kafka.bootstrap.servers", either_bootstrap)
    with pytest.raises(Exception, match="no such row"):
        writer.option("topic", topic).save()
    assert values(either_bootstrap, topic) == []
    eventually(lambda: not left_open(either_bootstrap, topic), "no transaction holds readers back")


def test_an_empty_frame_and_a_mode_that_cannot_be(spark: "SparkSession", spark_bootstrap: str) -> None:
    topic = new_topic(spark_bootstrap, "out")
    empty = spark.range(0).selectExpr("cast(id as string) as value")
    writer = empty.write.format("semel").option("kafka.bootstrap.servers", spark_bootstrap)
    writer.mode("append").option("topic", topic).save()
    assert values(spark_bootstrap, topic) == []
    with pytest.raises(Exception, match="cannot replace what a topic has"):
        writer.mode("overwrite").option("topic", topic).save()

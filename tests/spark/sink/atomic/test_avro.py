"""Avro through Spark's own module: a struct is written by the atomic sink and read back; a session without the module says what it lacks.

Method: one query on a real Spark that has the module's jar (a peer, `make peers`); the other session is made up.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from semel import Producer
from semel.exceptions import ConfigException
from semel.peers import spark as spark_peer
from semel.peers.kafka import PeerMissingError
from semel.spark import TopicSink, read, stream
from semel.spark.sink.atomic.avro import check_avro
from support.spark.spark_kit import drained, new_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS = "id STRING, cents BIGINT"
AVRO = """{"type": "record", "name": "order", "fields": [
    {"name": "id", "type": ["string", "null"]}, {"name": "cents", "type": ["long", "null"]}]}"""


def made_up(*, has_avro: bool) -> "SparkSession":
    utils = SimpleNamespace(
        classIsLoadable=lambda name: has_avro and name.startswith("org.apache.spark.sql.avro.")
    )
    jvm: Any = SimpleNamespace(
        org=SimpleNamespace(apache=SimpleNamespace(spark=SimpleNamespace(util=SimpleNamespace(Utils=utils))))
    )
    return cast("SparkSession", SimpleNamespace(_jvm=jvm, version="4.3.0"))


def test_a_session_without_the_module_is_told_how_to_get_it() -> None:
    with pytest.raises(ConfigException, match=r"org\.apache\.spark:spark-avro_2\.13:4\.3\.0"):
        check_avro(made_up(has_avro=False))
    check_avro(made_up(has_avro=True))
    check_avro(cast("SparkSession", SimpleNamespace(version="4.3.0")))  # Spark Connect: the server knows.


@pytest.mark.java
def test_structs_go_to_a_topic_and_come_back(
    spark: "SparkSession", spark_bootstrap: str, tmp_path: Path
) -> None:
    try:
        spark_peer.avro_classpath()
    except PeerMissingError as missing:
        pytest.skip(str(missing))
    from pyspark.sql import functions as F  # noqa: N812 - its usual name.
    from pyspark.sql.avro.functions import from_avro

    check_avro(spark)
    source, target = new_topic(spark_bootstrap, "json"), new_topic(spark_bootstrap, "avro")
    with Producer(bootstrap_servers=spark_bootstrap) as producer:
        for number in range(10):
            producer.send(source, f'{{"id": "{number}", "cents": {number * 100}}}', key=f"{number}")
        producer.send(source, "{}", key="empty")
    orders = stream(spark, source, bootstrap=spark_bootstrap, schema=ORDERS)
    records = orders.select(F.col("_record.key").alias("key"), F.struct("id", "cents").alias("value"))
    sink = TopicSink(target, bootstrap=spark_bootstrap, value_format="avro")
    writer = records.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / "checkpoint"))
    drained(writer.trigger(availableNow=True).start())

    found = read(spark, target, bootstrap=spark_bootstrap).select(from_avro("value", AVRO).alias("order"))
    rows = sorted(tuple(row) for row in found.where("order.id is not null").select("order.*").collect())
    assert rows == [(f"{number}", number * 100) for number in range(10)]
    assert found.where("order.id is null").select("order.*").collect() == [(None, None)]

"""What the pipeline is: orders from a topic, dear ones to another topic. Spark decides how and when.

`spark-pipelines run` loads this file; `python examples/spark/declarative_pipeline.py` starts it with a broker and some data. Inside
these functions Spark allows nobody to look at a schema, so they use plain Spark and not `semel.spark.stream`.
"""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name.

SERVERS = os.environ["SEMEL_BOOTSTRAP"]
OPTIONS = {"kafka.bootstrap.servers": SERVERS, "subscribe": "orders", "startingOffsets": "earliest"}
ORDERS = "id STRING, product STRING, cents BIGINT"
spark = SparkSession.active()

dp.create_sink("dear", "semel", {"kafka.bootstrap.servers": SERVERS, "topic": "dear"})


def parsed(records: DataFrame) -> DataFrame:
    return records.select(F.from_json(F.col("value").cast("string"), ORDERS).alias("order")).select("order.*")


@dp.temporary_view
def orders() -> DataFrame:
    return parsed(spark.readStream.format("semel").options(**OPTIONS).load())


@dp.append_flow(target="dear")
def dear_orders() -> DataFrame:
    dear = spark.readStream.table("orders").where("cents > 500")
    return dear.select(F.col("id").alias("key"), F.to_json(F.struct("id", "product", "cents")).alias("value"))

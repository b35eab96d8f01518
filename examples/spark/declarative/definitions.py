"""What the pipeline is: orders from a topic, dear ones to another topic, sums as a table. Spark decides how and when.

`spark-pipelines run` loads this file; `python examples/spark/declarative_pipeline.py` starts it with a broker and some data.
"""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name.

from semel.spark import read, stream, to_records

SERVERS = os.environ["SEMEL_BOOTSTRAP"]
ORDERS = "id STRING, product STRING, cents BIGINT"
spark = SparkSession.active()

dp.create_sink("dear", "semel", {"kafka.bootstrap.servers": SERVERS, "topic": "dear"})


@dp.temporary_view
def orders() -> DataFrame:
    return stream(spark, "orders", bootstrap=SERVERS, schema=ORDERS)


@dp.append_flow(target="dear")
def dear_orders() -> DataFrame:
    return to_records(spark.readStream.table("orders").where("cents > 500"), key="id")


@dp.materialized_view
def revenue() -> DataFrame:
    rows = read(spark, "orders", bootstrap=SERVERS, schema=ORDERS)
    return rows.groupBy("product").agg(F.sum("cents").alias("cents"))

"""Counting with memory: repeated payments left out, sums per minute, visits of a customer; and a restart in the middle.

    python examples/spark/counting.py

State lives in Spark's RocksDB state store. The second half of the data comes after the queries have ended: they go on from their
checkpoints, and every sum is what it would be without the pause.
"""

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name.

from semel.spark import TopicSink, deduplicated, sessions, stream, to_records, windows
from shop import Shop, open_shop

PAYMENTS = "id STRING, customer STRING, cents BIGINT"


def payment(number: int, customer: str, cents: int, minute: float) -> dict[str, object]:
    return {"id": f"p{number}", "customer": customer, "cents": cents, "minute": minute}


def per_minute(payments: DataFrame) -> DataFrame:
    once = deduplicated(payments, by="id", within="1 hour", time="_time")
    sums = windows(once, length="1 minute", late="1 hour", time="_time").agg(
        F.sum("cents").alias("cents"), F.count("id").alias("n")
    )
    return to_records(
        sums.select(F.date_format("window.start", "HH:mm").alias("minute"), "cents", "n"), key="minute"
    )


def visits(payments: DataFrame) -> DataFrame:
    found = sessions(payments, gap="5 minutes", late="0 seconds", by="customer", time="_time").agg(
        F.count("*").alias("n")
    )
    begin = F.date_format("session.start", "HH:mm").alias("from")
    return to_records(found.select("customer", begin, "n"), key="customer")


def main(shop: Shop) -> None:
    shop.spark.conf.set("spark.sql.session.timeZone", "UTC")
    topic = shop.topic("payments", partitions=2)
    queries: list[tuple[str, str, Callable[[DataFrame], DataFrame], str]] = [
        ("sums", shop.topic("sums"), per_minute, "append"),
        ("visits", shop.topic("visits"), visits, "append"),
    ]

    def run() -> None:
        payments = stream(shop.spark, topic, bootstrap=shop.servers, schema=PAYMENTS).withColumn(
            "_time", F.col("_record.timestamp")
        )
        for name, output, query, mode in queries:
            sink = TopicSink(output, bootstrap=shop.servers, name=f"{name}{shop.suffix}")
            shop.run(query(payments), sink, name, mode=mode)

    shop.send(
        topic,
        "customer",
        [payment(1, "ada", 100, 0), payment(2, "ben", 50, 0.5), payment(1, "ada", 100, 0.7)],
    )
    run()
    shop.send(
        topic,
        "customer",
        [
            payment(3, "ada", 10, 0.9),
            payment(2, "ben", 50, 1.0),
            payment(4, "ada", 30, 8),
            payment(5, "zoe", 1, 200),
        ],
    )
    run()
    for _, output, _, _ in queries:
        shop.show(output)


if __name__ == "__main__":
    with open_shop() as here:
        main(here)

"""A topic as rows, and rows as records again: map, filter, flatMap, many topics, and a topic for what does not parse.

    python examples/spark/stream_and_back.py

Every order is split into its lines (flatMap), lines without a price are left out (filter), the tax is added (map), and dear lines
go to another topic than cheap ones (branch). One order is no JSON: it becomes a dead letter. All topics are written in one
transaction for each micro-batch.
"""

from pyspark.sql import functions as F  # noqa: N812 - its usual name.

from semel.spark import TopicSink, branch, stream, to_records
from shop import Shop, open_shop

ORDERS = "id STRING NOT NULL, lines ARRAY<STRUCT<product: STRING, cents: BIGINT>>"


def main(shop: Shop) -> None:
    orders = shop.topic("orders", partitions=2)
    dear, cheap, dead = shop.topic("dear"), shop.topic("cheap"), shop.topic("orders-dead")
    coffee, bread = {"product": "coffee", "cents": 900}, {"product": "bread", "cents": 300}
    shop.send(
        orders,
        "id",
        [{"id": "a1", "lines": [coffee, bread]}, {"id": "a2", "lines": [bread, {"product": "bag"}]}],
    )
    shop.send(orders, "a3", ["a3;coffee;900"])

    rows = stream(shop.spark, orders, bootstrap=shop.servers, schema=ORDERS, bad_rows="keep")
    lines = (
        rows.withColumn("line", F.explode_outer("lines"))
        .where("_error IS NOT NULL OR line.cents IS NOT NULL")
        .select("id", "line.product", F.expr("line.cents * 119 div 100").alias("cents"), "_record", "_error")
    )
    routed = branch(lines, {dear: "cents > 500"}, otherwise=cheap)
    records = to_records(routed, key="product", dead_letters=dead)
    sink = TopicSink(bootstrap=shop.servers, name=f"lines{shop.suffix}")
    shop.run(records, sink, "lines")

    for topic in (dear, cheap, dead):
        shop.show(topic)


if __name__ == "__main__":
    with open_shop() as here:
        main(here)

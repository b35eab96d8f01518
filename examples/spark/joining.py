"""Joins: orders with the table of customers, and orders with the payments that follow within ten minutes.

    python examples/spark/joining.py

The table is a compacted topic; every micro-batch looks up the customers as they are then. The second join is of two streams: an
order waits for its payment, in Spark's state, no longer than it may take.
"""

from semel.spark import TopicSink, join_within, stream, table, to_records
from shop import Shop, open_shop

CUSTOMERS = "customer STRING, city STRING"
ORDERS = "id STRING, customer STRING, cents BIGINT"
PAYMENTS = "id STRING, by STRING"


def main(shop: Shop) -> None:
    customers = shop.topic("customers", cleanup_policy="compact")
    orders, payments = shop.topic("orders", partitions=2), shop.topic("payments", partitions=2)
    placed, paid = shop.topic("placed"), shop.topic("paid")

    def run() -> None:
        rows = stream(shop.spark, orders, bootstrap=shop.servers, schema=ORDERS)
        cities = table(shop.spark, customers, bootstrap=shop.servers, schema=CUSTOMERS, key="customer")
        with_city = rows.join(cities, "customer", "left")
        sink = TopicSink(placed, bootstrap=shop.servers, name=f"placed{shop.suffix}")
        shop.run(to_records(with_city, key="id"), sink, "placed")

        money = stream(shop.spark, payments, bootstrap=shop.servers, schema=PAYMENTS)
        both = join_within(rows, money, on="id", within="10 minutes", late="1 hour")
        sink = TopicSink(paid, bootstrap=shop.servers, name=f"paid{shop.suffix}")
        shop.run(to_records(both, key="id"), sink, "paid")

    shop.send(customers, "customer", [{"customer": "ada", "city": "Bonn"}])
    shop.send(
        orders,
        "id",
        [
            {"id": "a1", "customer": "ada", "cents": 5, "minute": 0},
            {"id": "b1", "customer": "ben", "cents": 7, "minute": 1},
        ],
    )
    run()
    shop.send(
        customers, "customer", [{"customer": "ada", "city": "Rome"}, {"customer": "ben", "city": "Oslo"}]
    )
    shop.send(orders, "id", [{"id": "a2", "customer": "ada", "cents": 9, "minute": 2}])
    shop.send(
        payments,
        "id",
        [
            {"id": "a1", "by": "card", "minute": 3},
            {"id": "b1", "by": "card", "minute": 30},  # Too late for its order.
            {"id": "a2", "by": "cash", "minute": 4},
        ],
    )
    run()
    shop.show(placed)
    shop.show(paid)


if __name__ == "__main__":
    with open_shop() as here:
        main(here)

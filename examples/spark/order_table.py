"""Stream -> table -> changelog: the state of every order and what was sold, in compacted topics; then a checkpoint is lost.

    python examples/spark/order_table.py

`states` holds the latest row of every order, `sold` counts and sums per product. Both are topics: anybody can read the table, as it
is now or as it was. At the end a checkpoint is deleted. The new query goes on from the table's own topic, and counts nothing twice.
"""

import shutil
from typing import Any

from pyspark.sql import DataFrame

from semel.spark import TableQuery, count, stream, table, to_table, total
from shop import Shop, open_shop, show_rows

ORDERS = "id STRING, product STRING, cents BIGINT, state STRING"
SOLD = "product STRING, orders BIGINT, cents BIGINT"


def order(id_: str, product: str, cents: int, state: str) -> dict[str, object]:
    return {"id": id_, "product": product, "cents": cents, "state": state}


def main(shop: Shop) -> None:
    topic = shop.topic("orders", partitions=2)
    states, sold = f"states{shop.suffix}", f"sold{shop.suffix}"
    here: dict[str, Any] = {"bootstrap": shop.servers}

    def orders(start: str) -> DataFrame:
        return stream(shop.spark, topic, schema=ORDERS, key="id", startingOffsets=start, **here)

    def keep_states() -> None:
        query = TableQuery(states, key="id", schema=ORDERS, checkpoint=f"{shop.directory}/states", **here)
        query.run(shop.spark, lambda start, seed: to_table(orders(start(topic)), key="id", seed=seed))

    def keep_sold() -> None:
        sums = {"orders": count(), "cents": total("cents")}
        query = TableQuery(sold, key="product", schema=SOLD, checkpoint=f"{shop.directory}/sold", **here)
        query.run(
            shop.spark,
            lambda start, seed: to_table(
                orders(start(topic)).where("state = 'paid'"), key="product", aggregates=sums, seed=seed
            ),
        )

    shop.send(
        topic,
        "id",
        [order("a", "tea", 300, "new"), order("b", "tea", 300, "new"), order("a", "tea", 300, "paid")],
    )
    keep_states()
    keep_sold()
    shop.send(topic, "id", [order("b", "tea", 300, "paid"), order("c", "jam", 450, "paid")])
    shop.delete(topic, "a")
    keep_states()
    show_rows("states", table(shop.spark, states, schema=ORDERS, key="id", **here))
    show_rows("states as of offset 2", table(shop.spark, states, schema=ORDERS, key="id", as_of=2, **here))

    shutil.rmtree(shop.directory / "sold")
    shop.send(topic, "id", [order("d", "jam", 450, "paid")])
    keep_sold()
    show_rows("sold, rebuilt", table(shop.spark, sold, schema=SOLD, key="product", **here))


if __name__ == "__main__":
    with open_shop() as here:
        main(here)

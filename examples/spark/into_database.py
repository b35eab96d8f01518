"""A stream into a database, exactly once: sums per product, with the number of the micro-batch in the same transaction.

    python examples/spark/into_database.py

After the first run Spark is made to forget that it has finished its last batch, as if the driver had died just before writing that
down. It repeats the batch; the database knows its number, and nothing is counted twice.
"""

import sqlalchemy as sa

from semel.spark import DatabaseSink, count, stream, to_table, total
from shop import Shop, open_shop

SALES = "product STRING, cents BIGINT"


def main(shop: Shop) -> None:
    topic = shop.topic("sales", partitions=2)
    database = f"sqlite:///{shop.directory}/shop.db"
    engine = sa.create_engine(database)
    with engine.begin() as db:
        db.execute(sa.text("CREATE TABLE revenue (product TEXT PRIMARY KEY, orders BIGINT, cents BIGINT)"))

    def run() -> None:
        sales = stream(shop.spark, topic, bootstrap=shop.servers, schema=SALES)
        revenue = to_table(sales, key="product", aggregates={"orders": count(), "cents": total("cents")})
        sink = DatabaseSink(database, name="revenue", table="revenue", key="product")
        shop.run(revenue, sink, "revenue", mode="update")

    shop.send(topic, "product", [{"product": "tea", "cents": 300}, {"product": "jam", "cents": 450}])
    run()
    for file in (shop.directory / "revenue" / "commits").iterdir():
        file.unlink()
    shop.send(topic, "product", [{"product": "tea", "cents": 310}])
    run()

    with engine.connect() as db:
        for row in db.execute(sa.text("SELECT * FROM revenue ORDER BY product")):
            print(f"{row.product}: {row.orders} orders, {row.cents} cents")
        last = db.scalar(sa.text("SELECT batch_id FROM semel_batches"))
        print(f"last batch: {last}")
    engine.dispose()


if __name__ == "__main__":
    with open_shop() as here:
        main(here)

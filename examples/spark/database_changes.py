"""A database's changes as a stream: a copy of its table that follows it, and asks it nothing.

    python examples/spark/database_changes.py

Triggers write every change into an outbox, in the transaction that makes it, and a relay publishes it exactly once. The topic
rebuilds the table: here as a data frame, and in a file of its own without Spark. What was rolled back is seen by nobody.
"""

import sqlalchemy as sa

from semel import Consumer, Producer
from semel.spark import ChangeCapture, LocalTable, table
from shop import Shop, open_shop, show_rows


def main(shop: Shop) -> None:
    topic = shop.topic("customers", partitions=2, cleanup_policy="compact")
    engine = sa.create_engine(f"sqlite:///{shop.directory}/crm.db")
    with engine.begin() as db:
        db.execute(sa.text("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, city TEXT)"))
        db.execute(sa.text("INSERT INTO customers VALUES (1, 'Ada', 'Bonn'), (2, 'Ben', 'Oslo')"))

    capture = ChangeCapture(engine, table="customers", topic=topic)
    capture.install()
    with engine.begin() as db:
        db.execute(sa.text("INSERT INTO customers VALUES (3, 'Cleo', 'Rome')"))
        db.execute(sa.text("UPDATE customers SET city = 'Paris' WHERE id = 1"))
        db.execute(sa.text("DELETE FROM customers WHERE id = 2"))
    with engine.connect() as db:
        db.execute(sa.text("UPDATE customers SET name = 'nobody'"))
        db.rollback()

    names = {"bootstrap.servers": shop.servers}
    with (
        Producer({**names, "transactional.id": f"relay{shop.suffix}"}) as producer,
        Consumer({**names, "group.id": f"relay{shop.suffix}", "enable.auto.commit": False}) as ledger,
    ):
        capture.relay(producer, ledger).run(until=lambda: capture.outbox.waiting() == 0)

    shop.show(topic)
    schema = "id INT, name STRING, city STRING"
    show_rows("in Spark", table(shop.spark, topic, bootstrap=shop.servers, schema=schema, key="id"))
    with LocalTable(shop.directory / "customers.db", topic=topic, bootstrap=shop.servers) as copy:
        copy.catch_up()
        print("without Spark:", copy[b"1"].decode())
    engine.dispose()


if __name__ == "__main__":
    with open_shop() as here:
        main(here)

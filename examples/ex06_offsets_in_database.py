"""Records and offsets in one database transaction: each record counts once, whatever crashes.

    python examples/ex06_offsets_in_database.py

The seed of this example stores the record's own offset and seeks after a first poll(0). Here the next offset is stored (or
the last record would be read again), and the seek happens when partitions are assigned: `exactly_once_sink` does both.
"""

import tempfile

import sqlalchemy as sa

from here import bootstrap
from orders import RECORDS, build_consumer, write_orders
from semel.once import exactly_once_sink

rows = sa.Table("orders", sa.MetaData(), sa.Column("key", sa.Text), sa.Column("value", sa.Text))


def read_into_database(servers: str, topic: str, database: str, *, crash: bool) -> None:
    sink = exactly_once_sink(database, name="orders")
    with build_consumer(servers, "database") as consumer:
        sink.subscribe(consumer, [topic])
        for batch in sink.batches(consumer):
            with batch as db:
                db.execute(sa.insert(rows), [{"key": r.key, "value": r.value} for r in batch])
                if crash:
                    raise SystemExit  # The rows and the position are rolled back together.
            if sum(sink.positions().values()) == RECORDS:
                break
    sink.engine.dispose()


def main() -> None:
    with bootstrap() as servers, tempfile.TemporaryDirectory() as directory:
        database = f"sqlite:///{directory}/orders.db"
        engine = sa.create_engine(database)
        rows.create(engine)
        write_orders(servers, "database-orders")
        try:
            read_into_database(servers, "database-orders", database, crash=True)
        except SystemExit:
            print("crashed")
        read_into_database(servers, "database-orders", database, crash=False)
        with engine.connect() as db:
            for row in db.execute(sa.select(rows)):
                print(f"stored key = {row.key}, value = {row.value}")
        engine.dispose()


if __name__ == "__main__":
    main()

"""Kafka and a database in one block of code are two transactions: a crash between them leaves them apart.

    python examples/ex12_kafka_and_database.py

`naive` is the seed's example. Whichever commits first, a crash before the other leaves an order in one place only. `cured` puts
the message into the database transaction (an outbox), and a relay publishes it exactly once.
"""

import tempfile

import sqlalchemy as sa

from here import bootstrap
from orders import build_consumer
from semel import Consumer, Producer
from semel.once import Outbox

orders = sa.Table("orders", sa.MetaData(), sa.Column("id", sa.Text))


class CrashError(Exception):
    """The process dies here."""


def naive(producer: Producer, engine: sa.Engine, order: str, *, database_first: bool) -> None:
    """Kafka's operation and the database's, one after the other, with a crash between the two commits."""
    if database_first:
        with engine.begin() as db:
            db.execute(sa.insert(orders).values(id=order))
        raise CrashError
    with producer.transaction():
        producer.send("naive-orders", order)
    raise CrashError


def cured(outbox: Outbox, order: str, *, crash: bool) -> None:
    with outbox.engine.begin() as db:
        db.execute(sa.insert(orders).values(id=order))
        outbox.put(db, value=order)
        if crash:
            raise CrashError


def stored(engine: sa.Engine) -> list[str]:
    with engine.begin() as db:
        found = sorted(db.scalars(sa.select(orders.c.id)))
        db.execute(sa.delete(orders))
    return found


def published(servers: str, topic: str, count: int) -> list[str]:
    with build_consumer(servers, "readers") as consumer:
        consumer.subscribe([topic])
        seen: list[str] = []
        while len(seen) < count:
            seen += [record.value for record in consumer.poll(500)]
        return sorted(seen + [record.value for record in consumer.poll(200)])


def show_naive(servers: str, engine: sa.Engine) -> None:
    with Producer({"bootstrap.servers": servers, "transactional.id": "naive"}) as producer:
        producer.init_transactions()
        for order, database_first in (("database-first", True), ("kafka-first", False)):
            try:
                naive(producer, engine, order, database_first=database_first)
            except CrashError:
                continue
    print(f"naive: database {stored(engine)}, topic {published(servers, 'naive-orders', 1)}")


def show_cured(servers: str, engine: sa.Engine) -> None:
    outbox = Outbox(engine, name="cured", topic="cured-orders")
    for order, crash in (("crashed", True), ("committed", False)):
        try:
            cured(outbox, order, crash=crash)
        except CrashError:
            continue
    names = {"bootstrap.servers": servers}
    with (
        Producer({**names, "transactional.id": "relay"}) as producer,
        Consumer({**names, "group.id": "relay", "enable.auto.commit": False}) as ledger,
    ):
        outbox.relay(producer, ledger).run(until=lambda: outbox.waiting() == 0)
    print(f"cured: database {stored(engine)}, topic {published(servers, 'cured-orders', 1)}")


def main() -> None:
    with bootstrap() as servers, tempfile.TemporaryDirectory() as directory:
        engine = sa.create_engine(f"sqlite:///{directory}/orders.db")
        orders.create(engine)
        show_naive(servers, engine)
        show_cured(servers, engine)
        engine.dispose()


if __name__ == "__main__":
    main()

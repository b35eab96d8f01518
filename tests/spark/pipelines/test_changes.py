"""A database's changes rebuild its table elsewhere: what a reader of the topic has equals what the database has.

Method: random statements, some rolled back, on SQLite and on a real PostgreSQL server; the relay publishes, a local table
follows; then both are compared row by row.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from semel import Broker, Consumer, Producer
from semel.errors import ConfigError
from semel.spark.pipelines.changes import ChangeCapture
from semel.spark.pipelines.local_table import LocalTable
from support.spark.spark_kit import new_topic, read_all

metadata = sa.MetaData()
customers = sa.Table(
    "customers",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.Text),
    sa.Column("score", sa.Float),
)
stock = sa.Table(
    "stock",
    metadata,
    sa.Column("place", sa.Text, primary_key=True),
    sa.Column("product", sa.Text, primary_key=True),
    sa.Column("pieces", sa.Integer),
    sa.Column("picture", sa.LargeBinary),
)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with Broker(group_initial_rebalance_delay_ms=0) as broker:
        yield broker.bootstrap


@pytest.fixture
def engine(database_url: str) -> Iterator[sa.Engine]:
    engine = sa.create_engine(database_url)
    metadata.create_all(engine)
    yield engine
    engine.dispose()


def publish(capture: ChangeCapture, server: str) -> None:
    settings = {"bootstrap.servers": server}
    with (
        Producer({**settings, "transactional.id": f"relay-{capture.outbox.topic}"}) as producer,
        Consumer(
            {**settings, "group.id": f"relay-{capture.outbox.topic}", "enable.auto.commit": False}
        ) as ledger,
    ):
        capture.relay(producer, ledger).run(until=lambda: capture.outbox.waiting() == 0)


def change_something(db: sa.Connection, dice: random.Random) -> None:
    one = dice.randrange(12)
    match dice.choice(["insert", "insert", "update", "delete", "move"]):
        case "insert":
            found = db.scalar(sa.select(sa.func.count()).where(customers.c.id == one))
            if not found:
                db.execute(sa.insert(customers).values(id=one, name=f'{one}\'s "näme"', score=dice.random()))
        case "update":
            db.execute(sa.update(customers).where(customers.c.id == one).values(name=None, score=one / 4))
        case "delete":
            db.execute(sa.delete(customers).where(customers.c.id == one))
        case "move":
            far = 100 + one
            db.execute(sa.delete(customers).where(customers.c.id == far))
            db.execute(sa.update(customers).where(customers.c.id == one).values(id=far))


def rows_of(engine: sa.Engine) -> dict[bytes, dict[str, object]]:
    with engine.connect() as db:
        return {b"%d" % row["id"]: dict(row) for row in db.execute(sa.select(customers)).mappings()}


@pytest.mark.mission("STR-12")
def test_a_table_is_rebuilt_from_its_changes(engine: sa.Engine, server: str, tmp_path: Path) -> None:
    topic = new_topic(server, "customers", partitions=2, cleanup_policy="compact")
    with engine.begin() as db:
        db.execute(sa.insert(customers), [{"id": n, "name": f"n{n}", "score": 0.5} for n in (1, 2, 3)])
    capture = ChangeCapture(engine, table="customers", topic=topic)
    capture.install()
    dice = random.Random(5)
    for round_number in range(3):
        for _ in range(30):
            with engine.connect() as db, db.begin() as transaction:
                for _ in range(dice.randrange(1, 4)):
                    change_something(db, dice)
                if dice.random() < 0.3:
                    transaction.rollback()
        publish(capture, server)
        with LocalTable(tmp_path / "copy.db", topic=topic, bootstrap=server) as copy:
            copy.catch_up()
            assert {key: json.loads(value) for key, value in copy.items()} == rows_of(engine), round_number

    headers = read_all(server, topic)["headers"].to_pylist()
    operations = {one["value"] for record in headers for one in record if one["key"] == "op"}
    assert operations == {b"snapshot", b"insert", b"update", b"delete"}
    capture.remove()
    with engine.begin() as db:
        db.execute(sa.delete(customers))
    assert capture.outbox.waiting() == 0, "nothing is captured any more"


@pytest.mark.mission("STR-12")
def test_a_key_of_two_columns_and_chosen_columns(engine: sa.Engine, server: str, tmp_path: Path) -> None:
    topic = new_topic(server, "stock", partitions=2)
    with pytest.raises(ConfigError, match=r"columns of bytes have no JSON: picture of 'stock'"):
        ChangeCapture(engine, table="stock", topic=topic)
    capture = ChangeCapture(engine, table="stock", topic=topic, columns=["place", "product", "pieces"])
    capture.install()
    capture.install(snapshot=False)  # Again: nothing is captured twice.
    with engine.begin() as db:
        db.execute(sa.insert(stock).values(place="here", product="tea", pieces=3, picture=b"\0"))
        db.execute(sa.insert(stock).values(place="there", product="tea", pieces=4))
        db.execute(sa.update(stock).where(stock.c.place == "here").values(pieces=5))
        db.execute(sa.delete(stock).where(stock.c.place == "there"))
    publish(capture, server)
    with LocalTable(tmp_path / "stock.db", topic=topic, bootstrap=server) as copy:
        assert copy.catch_up() == 4
        ((key, value),) = copy.items()
    assert json.loads(key) == {"place": "here", "product": "tea"}
    assert json.loads(value) == {"place": "here", "product": "tea", "pieces": 5}


def test_what_cannot_be_captured_is_refused(engine: sa.Engine) -> None:
    with engine.begin() as db:
        db.execute(sa.text("CREATE TABLE keyless (a INTEGER)"))
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"table": "keyless", "topic": "t"}, "has no primary key"),
        ({"table": "nowhere", "topic": "t"}, "there is no table 'nowhere'"),
        ({"table": "customers", "topic": "a b"}, "the topic 'a b'"),
        ({"table": "customers", "topic": "t", "columns": ["id", "nmae"]}, "has no column nmae"),
    ]
    for arguments, message in wrong:
        with pytest.raises(ConfigError, match=message):
            ChangeCapture(engine, **arguments)
    if engine.dialect.name == "postgresql":
        ChangeCapture(engine, table="customers", topic="t").install()
        with pytest.raises(sa.exc.DBAPIError, match="TRUNCATE is not seen"), engine.begin() as db:
            db.execute(sa.text("TRUNCATE customers"))

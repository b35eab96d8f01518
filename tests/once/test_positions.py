"""Results and positions in one transaction: each record counts once in the database, whatever fails or dies.

Method: a topic in memory, a real database (SQLite and PostgreSQL), and a crash between any two steps. Afterwards the table
must equal the model, which is the topic itself. Real processes are killed in `test_kills.py`.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from semel.errors import ConfigError
from semel.once import ExactlyOnceSink, OnceError, PositionError, PositionMovedError, exactly_once_sink
from semel.types import TopicPartition
from support.once.once_doubles import ConsumerDouble, Crash, TopicsDouble

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
results = sa.Table(
    "results",
    sa.MetaData(),
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("value", sa.LargeBinary),
)


@pytest.fixture
def topics() -> TopicsDouble:
    topics = TopicsDouble()
    for n in range(10):
        topics.write("orders", b"%d" % n, partition=n % 2, skip=n % 3)
    return topics


@pytest.fixture
def database(engine: sa.Engine) -> sa.Engine:
    results.create(engine)
    return engine


def store(db: sa.Connection, records: list[object]) -> None:
    db.execute(sa.insert(results), [{"value": record.value} for record in records])  # type: ignore[attr-defined] # a record


def stored(engine: sa.Engine) -> list[bytes]:
    with engine.connect() as db:
        return sorted(db.scalars(sa.select(results.c.value)).all())


def everything(topics: TopicsDouble) -> list[bytes | None]:
    return sorted(topics.values("orders"), key=str)


def polls(count: int) -> Iterator[bool]:
    yield from [False] * count
    yield True


def run(sink: ExactlyOnceSink, consumer: ConsumerDouble, rounds: int) -> None:
    ends = polls(rounds)
    sink.run(consumer, store, until=lambda: next(ends))


def test_five_lines(topics: TopicsDouble, database: sa.Engine) -> None:
    sink = exactly_once_sink(database, name="billing")
    consumer = ConsumerDouble(topics, records_max=3)
    sink.subscribe(consumer, ["orders"])
    for batch in sink.batches(consumer):
        with batch as db:
            db.execute(sa.insert(results), [{"value": record.value} for record in batch])
        if len(stored(database)) == 10:
            break
    assert stored(database) == everything(topics)


def test_a_second_run_goes_on_where_the_database_says(topics: TopicsDouble, database: sa.Engine) -> None:
    """What the group has committed does not matter: the seek when partitions are assigned does."""
    sink = exactly_once_sink(database, name="billing")
    for _ in range(4):
        consumer = ConsumerDouble(topics, records_max=3)
        sink = exactly_once_sink(database, name="billing")
        sink.subscribe(consumer, ["orders"])
        run(sink, consumer, 1)
    assert stored(database) == everything(topics)
    ends = {where: log[-1].offset + 1 for where, log in topics.logs.items()}
    assert sink.positions() == ends, "the next offset is stored, not the last one"
    assert topics.committed == {}


def test_failed_work_is_rolled_back_and_delivered_again(topics: TopicsDouble, database: sa.Engine) -> None:
    sink, consumer = exactly_once_sink(database, name="billing"), ConsumerDouble(topics, records_max=4)
    sink.subscribe(consumer, ["orders"])
    for failing in (True, False, True, False, False, True, False):
        batch = sink.poll(consumer)
        if batch is None:
            break
        try:
            with batch as db:
                store(db, batch.records)
                if failing:
                    raise ValueError("the work failed")
        except ValueError:
            assert failing
    assert stored(database) == everything(topics)


def test_a_worker_that_lost_its_partition_stores_nothing(topics: TopicsDouble, database: sa.Engine) -> None:
    """A frozen worker holds a batch while another one counts it; the frozen one wakes up and must fail."""
    frozen, frozen_consumer = exactly_once_sink(database, name="billing"), ConsumerDouble(topics)
    frozen.subscribe(frozen_consumer, ["orders"])
    held = frozen.poll(frozen_consumer)
    assert held is not None

    other, other_consumer = exactly_once_sink(database, name="billing"), ConsumerDouble(topics, records_max=4)
    other.subscribe(other_consumer, ["orders"])
    run(other, other_consumer, 1)
    assert len(stored(database)) == 4

    with pytest.raises(PositionMovedError, match="another worker has it"), held as db:
        store(db, held.records)
    assert len(stored(database)) == 4, "nothing of the frozen worker's batch is stored"
    run(frozen, frozen_consumer, 3)  # It reads the positions again, and may even go on if the group lets it.
    assert stored(database) == everything(topics)


def test_a_position_that_moved_back_is_noticed_too(topics: TopicsDouble, database: sa.Engine) -> None:
    sink, consumer = exactly_once_sink(database, name="billing"), ConsumerDouble(topics, records_max=4)
    sink.subscribe(consumer, ["orders"])
    run(sink, consumer, 1)
    with database.begin() as db:
        db.execute(sa.text("UPDATE semel_positions SET position = 0"))
    batch = sink.poll(consumer)
    assert batch is not None
    with pytest.raises(PositionMovedError), batch:
        pass


def test_a_commit_whose_outcome_is_unknown_is_looked_up(
    topics: TopicsDouble, database: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection dies after the commit was made, before its answer came: the database is asked, not the memory."""
    sink, consumer = exactly_once_sink(database, name="billing"), ConsumerDouble(topics, records_max=4)
    sink.subscribe(consumer, ["orders"])
    real = database.dialect.do_commit

    def commit_and_lose_the_answer(dbapi_connection: sa.PoolProxiedConnection) -> None:
        real(dbapi_connection)
        raise ConnectionError("the answer was lost")

    batch = sink.poll(consumer)
    assert batch is not None
    with monkeypatch.context() as fault:
        fault.setattr(database.dialect, "do_commit", commit_and_lose_the_answer)
        with pytest.raises(ConnectionError), batch as db:
            store(db, batch.records)
    run(sink, consumer, 4)
    assert stored(database) == everything(topics)


def test_partitions_come_and_go(topics: TopicsDouble, database: sa.Engine) -> None:
    sink, consumer = exactly_once_sink(database, name="billing"), ConsumerDouble(topics, records_max=2)
    sink.subscribe(consumer, ["orders"])
    run(sink, consumer, 1)
    consumer.take(P0)
    other, other_consumer = exactly_once_sink(database, name="billing"), ConsumerDouble(topics, records_max=1)
    other.subscribe(other_consumer, [])
    other_consumer.give(P0)
    run(other, other_consumer, 1)
    run(sink, consumer, 1)
    consumer.give(P0)  # Back again, but not to where it was left here.
    other_consumer.take(P0, lost=True)
    run(other, other_consumer, 1)
    run(sink, consumer, 8)
    assert stored(database) == everything(topics)


def test_a_record_below_the_position_is_refused(topics: TopicsDouble, database: sa.Engine) -> None:
    sink, consumer = exactly_once_sink(database, name="billing"), ConsumerDouble(topics)
    sink.subscribe(consumer, ["orders"])
    run(sink, consumer, 1)
    consumer.seek(P1, 0)
    with pytest.raises(
        PositionError, match=r"orders-1 delivered offset 1, but 'billing' has counted up to 9"
    ):
        sink.poll(consumer)


def test_a_consumer_that_subscribed_elsewhere_is_refused(topics: TopicsDouble, database: sa.Engine) -> None:
    sink, consumer = exactly_once_sink(database, name="billing"), ConsumerDouble(topics)
    consumer.subscribe(["orders"])
    with pytest.raises(PositionError, match=r"use sink\.subscribe or sink\.assign"):
        sink.poll(consumer)


def test_a_batch_must_be_entered_and_only_once(topics: TopicsDouble, database: sa.Engine) -> None:
    sink, consumer = exactly_once_sink(database, name="billing"), ConsumerDouble(topics, records_max=3)
    sink.assign(consumer, [P0, P1])
    batches = sink.batches(consumer)
    batch = next(batches)
    with pytest.raises(OnceError, match="left without its transaction"):
        next(batches)
    with batch as db:
        store(db, batch.records)
    with pytest.raises(OnceError, match="used already"), batch:
        pass


def test_names_do_not_meet(topics: TopicsDouble, database: sa.Engine) -> None:
    for name in ("one", "two"):
        sink, consumer = exactly_once_sink(database, name=name), ConsumerDouble(topics)
        sink.assign(consumer, [P0, P1])
        run(sink, consumer, 1)
    assert stored(database) == sorted([*everything(topics), *everything(topics)], key=str)


def test_the_latest_is_where_the_end_was_at_first_sight(topics: TopicsDouble, database: sa.Engine) -> None:
    """A crash before the first batch must not move it."""
    sink, consumer = exactly_once_sink(database, name="billing", start="latest"), ConsumerDouble(topics)
    sink.assign(consumer, [P0, P1])
    topics.write("orders", b"new", partition=1)
    again, consumer = exactly_once_sink(database, name="billing", start="latest"), ConsumerDouble(topics)
    again.assign(consumer, [P0, P1])
    run(again, consumer, 1)
    assert stored(database) == [b"new"]


def test_what_cannot_be_is_refused(database: sa.Engine) -> None:
    with pytest.raises(ConfigError, match="start is 'now'"):
        exactly_once_sink(database, name="billing", start="now")  # type: ignore[arg-type] # the mistake
    with pytest.raises(ConfigError, match="has 0 characters"):
        exactly_once_sink(database, name="")


def test_an_engine_that_commits_every_statement_is_refused(database_url: str) -> None:
    """Failed work would leave the position moved, and its records would be lost. The way out that is named is one."""
    own = sa.create_engine(database_url)
    asked: list[sa.Engine] = [own.execution_options(isolation_level="AUTOCOMMIT")]
    asked.append(sa.create_engine(database_url, isolation_level="AUTOCOMMIT"))
    if own.dialect.name == "sqlite":
        asked.append(sa.create_engine(database_url, connect_args={"isolation_level": None}))
    for engine in asked:
        with pytest.raises(ConfigError, match=r"the engine is in AUTOCOMMIT mode.* give a"):
            exactly_once_sink(engine, name="billing")
        assert not sa.inspect(own).has_table("semel_positions")
        engine.dispose()
    exactly_once_sink(own, name="billing")
    own.dispose()


def test_an_engine_that_begins_by_itself_is_served(tmp_path: Path) -> None:
    """SQLAlchemy's own recipe for SQLite: the driver commits every statement, unless a BEGIN is sent, which it is."""
    engine = sa.create_engine(f"sqlite:///{tmp_path}/once.db", connect_args={"isolation_level": None})
    sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    exactly_once_sink(engine, name="billing")
    engine.dispose()


def test_another_database_is_refused() -> None:
    engine = sa.create_engine("sqlite://")
    engine.dialect.name = "oracle"
    with pytest.raises(
        ConfigError, match="the database is oracle: exactly-once processing supports sqlite and postgresql"
    ):
        exactly_once_sink(engine, name="billing")


def test_a_crash_at_any_statement_changes_nothing(topics: TopicsDouble, database: sa.Engine) -> None:
    """The n-th statement or commit of a life dies; a new worker goes on; the table equals the topic. For every n."""
    left = 0

    def step(*_: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Crash

    def life(name: str) -> None:
        sink, consumer = exactly_once_sink(database, name=name), ConsumerDouble(topics, records_max=4)
        sink.subscribe(consumer, ["orders"])
        run(sink, consumer, 5)

    exactly_once_sink(database, name="billing")  # The tables are there before the count of steps begins.
    sa.event.listen(database, "before_cursor_execute", step)
    sa.event.listen(database, "commit", step)
    crash_at, crashed = 0, True
    while crashed:
        crash_at += 1
        left = crash_at
        try:
            life(f"crash at {crash_at}")
        except Crash:
            life(f"crash at {crash_at}")
        else:
            crashed = False
        left = 0  # No crash while we look.
        assert stored(database) == everything(topics), f"after a crash at step {crash_at}"
        with database.begin() as db:
            db.execute(sa.delete(results))
    assert crash_at > 12, "there were fewer steps than there must be"

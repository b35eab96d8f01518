"""Rows of a stream are in the database exactly once, whenever the driver dies and however often Spark repeats a batch.

Method: without Spark, a model of it (a checkpoint that remembers the last batch it finished, a driver that dies before, inside or
after the sink's transaction) drives the sink on real databases. With Spark, a query is stopped, its commit log is wound back so
that it repeats a batch, its checkpoint is lost, and a transaction fails half way; rows are compared with the stream's.
"""

import datetime as dt
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import Row
from pyspark.sql.types import BooleanType, IntegerType, StructType, TimestampNTZType, TimestampType

from semel.errors import ConfigError
from semel.exceptions import IllegalStateException
from semel.spark.pipelines.database import DatabaseSink
from semel.spark.sink.common.errors import SinkRefusedError
from support.spark.spark_kit import drained, unique

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

metadata = sa.MetaData()
events = sa.Table("events", metadata, sa.Column("n", sa.Integer), sa.Column("at", sa.DateTime(timezone=True)))
sums = sa.Table("sums", metadata, sa.Column("name", sa.Text, primary_key=True), sa.Column("n", sa.BigInteger))
FINISH, DIE_BEFORE, DIE_INSIDE, DIE_AFTER = range(4)


class Batch:
    """Stands for a data frame: it has a number, and can be computed without being stored."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.computed = 0
        self.write = self

    def format(self, name: str) -> "Batch":
        assert name == "noop"
        return self

    def mode(self, name: str) -> "Batch":
        return self

    def save(self) -> None:
        self.computed += 1


class DeadError(Exception):
    """The driver dies here."""


@pytest.fixture
def engine(database_url: str) -> Iterator[sa.Engine]:
    engine = sa.create_engine(database_url)
    metadata.create_all(engine)
    yield engine
    engine.dispose()


def numbers(engine: sa.Engine) -> list[int]:
    with engine.connect() as db:
        return sorted(db.scalars(sa.select(events.c.n)))


@pytest.mark.mission("STR-15")
@given(fates=st.lists(st.sampled_from([FINISH, DIE_BEFORE, DIE_INSIDE, DIE_AFTER]), max_size=12))
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whenever_the_driver_dies_every_batch_is_stored_once(
    fates: list[int], database_url: str, engine: sa.Engine
) -> None:
    with engine.begin() as db:
        db.execute(sa.delete(events))
    dies = False

    def write(db: sa.Connection, batch: Any) -> None:
        db.execute(sa.insert(events), [{"n": batch.number * 2}, {"n": batch.number * 2 + 1}])
        if dies:
            raise DeadError

    name = unique("story")
    finished = -1  # Spark's own book: the checkpoint's commit log.
    for fate in [*fates, FINISH]:
        if fate == DIE_BEFORE:
            continue
        dies = fate == DIE_INSIDE
        sink = DatabaseSink(database_url, name=name, write=write)  # A new driver each time.
        batch: Any = Batch(finished + 1)
        try:
            sink.write_batch(batch, finished + 1, "query")
        except DeadError:
            assert dies
        finally:
            sink.engine.dispose()
        finished += fate == FINISH
    assert numbers(engine) == list(range(2 * (finished + 1)))


def test_what_cannot_be_decided_is_refused(database_url: str, engine: sa.Engine) -> None:
    batch: Any = Batch(0)

    def sink(continues: str | None = None) -> DatabaseSink:
        return DatabaseSink(
            database_url,
            name="s",
            write=lambda db, _: db.execute(sa.insert(events).values(n=1)),
            continues=continues,
        )

    with pytest.raises(SinkRefusedError, match="has no record of any batch"):
        sink().write_batch(batch, 3, "q")
    assert sink().write_batch(batch, 0, "q")
    assert not sink().write_batch(batch, 0, "q"), "a repeat"
    assert batch.computed == 1, "the query's state needs it"
    assert sink().write_batch(batch, 1, "q")
    for batch_id, query_id, message in (
        (0, "q", "the checkpoint is only at batch 0"),
        (3, "q", "the 1 between them"),
        (0, "q2", r"DatabaseSink\(..., continues='q'\)"),
        (2, "q2", "belongs to query q, which stored batch 1"),
    ):
        with pytest.raises(SinkRefusedError, match=message):
            sink().write_batch(batch, batch_id, query_id)
    with pytest.raises(SinkRefusedError):
        sink(continues="other").write_batch(batch, 0, "q2")
    assert sink(continues="q").write_batch(batch, 0, "q2")
    with pytest.raises(SinkRefusedError):
        sink(continues="q").write_batch(batch, 2, "q")
    stored = sink().stored()
    assert stored is not None
    assert tuple(stored) == ("q2", 0)
    assert numbers(engine) == [1, 1, 1]


def test_wrong_arguments_name_the_way_out(database_url: str, engine: sa.Engine) -> None:
    with pytest.raises(ConfigError, match=r"either table= .* or write="):
        DatabaseSink(database_url, name="s")
    with pytest.raises(ConfigError, match="key='a' is for table="):
        DatabaseSink(database_url, name="s", write=print, key="a")
    with pytest.raises(ConfigError, match="from 1 to 200"):
        DatabaseSink(database_url, name="", table="t")


class Frame:
    """Stands for a data frame with these rows, as Spark hands them out on this machine."""

    def __init__(self, schema: StructType, rows: list[tuple[Any, ...]]) -> None:
        self.schema = schema
        self.columns = schema.names
        self._rows = rows

    def toLocalIterator(self) -> Iterator[Row]:
        return iter(Row(**dict(zip(self.columns, row, strict=True))) for row in self._rows)


@pytest.fixture
def far_from_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine in New York, five hours behind in winter."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "America/New_York")
        time.tzset()
        yield
    time.tzset()


def test_times_are_stored_in_utc_and_those_in_no_zone_as_they_are(
    database_url: str, engine: sa.Engine, far_from_utc: None
) -> None:
    noon = dt.datetime(2026, 1, 15, 12)  # noqa: DTZ001 - as Spark hands out both kinds.
    own = sa.MetaData()
    times = sa.Table(
        unique("times").replace("-", "_"),
        own,
        sa.Column("moment", sa.DateTime, primary_key=True),
        sa.Column("clock", sa.DateTime, primary_key=True),
        sa.Column("n", sa.Integer),
    )
    own.create_all(engine)
    fields = StructType().add("moment", TimestampType()).add("clock", TimestampNTZType())
    sink = DatabaseSink(database_url, name=unique("times"), table=times.name, key=["moment", "clock"])
    frame: Any = Frame(
        fields.add("n", IntegerType()).add("_deleted", BooleanType()), [(noon, noon, 1, False)]
    )
    sink.write_batch(frame, 0, "q")
    with engine.connect() as db:
        stored = db.execute(sa.select(times)).one()
    assert tuple(stored) == (noon + dt.timedelta(hours=5), noon, 1)
    frame = Frame(frame.schema, [(noon, noon, 1, True)])
    sink.write_batch(frame, 1, "q")
    with engine.connect() as db:
        assert db.execute(sa.select(times)).all() == [], "a deletion finds the row it means"
    sink.engine.dispose()


class Numbers:
    """A stream of numbers in files: each line of a call to `add` is a row."""

    def __init__(self, spark: "SparkSession", directory: Path) -> None:
        self.directory = directory / "numbers"
        self.directory.mkdir()
        self.frame = spark.readStream.schema("n INT").option("maxFilesPerTrigger", 1).csv(str(self.directory))
        self.files = 0

    def add(self, *rows: int) -> None:
        self.files += 1
        part = self.directory / f".{self.files}"
        part.write_text("\n".join(map(str, rows)))
        part.rename(self.directory / f"{self.files:04}.csv")


def run(rows: "DataFrame", sink: DatabaseSink, checkpoint: Path, mode: str = "append") -> None:
    writer = rows.writeStream.outputMode(mode).foreachBatch(sink)
    drained(writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start())


def forget_last_commit(checkpoint: Path) -> None:
    """What a driver leaves that dies after the sink's commit and before Spark's own: Spark repeats the batch."""
    last = max(
        (int(file.name), file) for file in (checkpoint / "commits").iterdir() if file.name.isdecimal()
    )[1]
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)


@pytest.mark.mission("STR-15")
def test_a_stream_into_a_table_with_repeats_failures_and_a_lost_checkpoint(
    spark: "SparkSession", tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    database_url = f"sqlite:///{tmp_path / 'stream.db'}"
    engine = sa.create_engine(database_url, poolclass=sa.NullPool)
    metadata.create_all(engine)
    stream = Numbers(spark, tmp_path)
    checkpoint = tmp_path / "checkpoint"
    timed = stream.frame.selectExpr("n", "timestamp_seconds(n) AS at")
    stream.add(0, 1, 2)
    run(timed, DatabaseSink(database_url, name="events", table="events"), checkpoint)
    forget_last_commit(checkpoint)
    stream.add(3, 4)
    run(timed, DatabaseSink(database_url, name="events", table="events"), checkpoint)
    assert numbers(engine) == [0, 1, 2, 3, 4], "the repeated batch is a no-op"
    with engine.connect() as db:
        at = db.scalar(sa.select(events.c.at).where(events.c.n == 3))
    assert at is not None
    assert at.replace(tzinfo=at.tzinfo or dt.UTC) == dt.datetime(1970, 1, 1, 0, 0, 3, tzinfo=dt.UTC)

    def half(db: sa.Connection, batch: "DataFrame") -> None:
        db.execute(sa.insert(events).values(n=99))
        raise DeadError("half way")

    stream.add(5)
    with pytest.raises(StreamingQueryException, match="half way"):
        run(timed, DatabaseSink(database_url, name="events", write=half), checkpoint)
    assert 99 not in numbers(engine)
    run(timed, DatabaseSink(database_url, name="events", table="events"), checkpoint)
    assert numbers(engine) == [0, 1, 2, 3, 4, 5]

    with pytest.raises(StreamingQueryException, match="continues="):
        run(timed, DatabaseSink(database_url, name="events", table="events"), tmp_path / "another")
    assert numbers(engine) == [0, 1, 2, 3, 4, 5]


@pytest.mark.mission("STR-15")
def test_a_table_kept_by_key_with_deletions(
    spark: "SparkSession", database_url: str, engine: sa.Engine, tmp_path: Path
) -> None:
    stream = Numbers(spark, tmp_path)
    sink = DatabaseSink(database_url, name="sums", table="sums", key="name")
    grouped = stream.frame.selectExpr("concat('k', n % 3) AS name", "n").groupBy("name")
    rows = grouped.agg({"n": "sum"}).selectExpr("name", "`sum(n)` AS n", "`sum(n)` > 30 AS _deleted")
    stream.add(1, 2, 3, 4)
    stream.add(5, 7)
    run(rows, sink, tmp_path / "checkpoint", "update")

    def table() -> dict[str, int]:
        with engine.connect() as db:
            return {row.name: row.n for row in db.execute(sa.select(sums))}

    assert table() == {"k0": 3, "k1": 12, "k2": 7}
    stream.add(30, 10)
    run(rows, sink, tmp_path / "checkpoint", "update")
    assert table() == {"k1": 22, "k2": 7}, "k0 is at 33 and deleted"

    static = spark.createDataFrame([("k1", 1, False)], "name STRING, n INT, _deleted BOOLEAN")
    for bad, message in (
        (DatabaseSink(database_url, name="x", table="nowhere"), "there is no table 'nowhere'"),
        (DatabaseSink(database_url, name="x", table="events"), "has no column name"),
        (DatabaseSink(database_url, name="x", table="sums"), "delete by key"),
        (DatabaseSink(database_url, name="x", table="sums", key="nmae"), "key column nmae"),
    ):
        with pytest.raises(ConfigError, match=message):
            bad.write_batch(static, 0, "q")
    with pytest.raises(IllegalStateException, match="give it to foreachBatch"):
        sink(static, 0)

"""The drawings of the page about Spark show what happens.

Method: the same records through a query of Spark, and through a table in a file, on a broker in this process; what comes of them is
compared with the drawing, column by column.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from semel import Broker, ConsumerRecord, Producer
from semel.spark import LocalFold
from support.spark.spark_kit import drained, new_topic, read_all, unique, values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text(encoding="utf-8")
PROCESSOR, TABLE, CHANGES, STEP = re.findall(
    r"```\n(.*?)```", PAGE.partition("## In pictures\n")[2].partition("\n## ")[0], re.DOTALL
)


def columns(drawing: str, name: str) -> list[list[str]]:
    """What stands below each other beside a name, until something else is drawn; columns begin where those of the first row do."""
    lines = drawing.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith(name))
    starts = [match.start() for match in re.finditer(r"\S+( \d+)?", lines[0])][1:]
    found: list[list[str]] = [[] for _ in starts]
    for number, line in enumerate(lines[first:]):
        if number and (line[0] != " " or not re.search(r"[a-z]", line)):
            break
        for place, start in enumerate(starts):
            if word := line[start : start + 8].strip():
                found[place].append(word)
    return found


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with Broker(group_initial_rebalance_delay_ms=0) as broker:
        yield broker.bootstrap


class Counting:
    """Words that are counted one by one, and the table after each."""

    def __init__(self, server: str, directory: Path) -> None:
        self.words = [word for (word,) in columns(TABLE, "words")]
        self.server = server
        self.file = directory / "counts.db"
        self.source, self.changelog = new_topic(server, "words", partitions=1), unique("counts")
        self.tables = list[list[str]]()
        with self.fold() as fold:
            for word in self.words:
                with Producer(bootstrap_servers=server) as producer:
                    producer.send(self.source, word, key=word)
                assert fold.catch_up() == 1
                self.tables.append(sorted(f"{key.decode()} {n.decode()}" for key, n in fold.table.items()))

    def fold(self) -> LocalFold:
        def count(old: bytes | None, _record: ConsumerRecord) -> bytes:
            return b"%d" % (int(old or 0) + 1)

        return LocalFold(
            self.file,
            name=self.changelog,
            source=self.source,
            changelog=self.changelog,
            update=count,
            bootstrap=self.server,
        )

    def changes(self) -> list[str]:
        rows = read_all(self.server, self.changelog).to_pylist()
        return [f"{row['key'].decode()} {row['value'].decode()}" for row in rows]


@pytest.fixture
def counting(server: str, tmp_path: Path) -> Counting:
    return Counting(server, tmp_path)


@pytest.mark.mission("FIG-28")
def test_the_drawing_of_a_stream_processor(
    spark: "SparkSession", spark_bootstrap: str, tmp_path: Path
) -> None:
    lines = PROCESSOR.splitlines()
    orders, dear = re.findall(r"\d+", lines[0]), re.findall(r"\d+", lines[-1])
    (condition,) = re.findall(r'where\("(.*)"\)', PROCESSOR)
    source, target = new_topic(spark_bootstrap, "orders"), new_topic(spark_bootstrap, "dear")
    with Producer(bootstrap_servers=spark_bootstrap) as producer:
        for cents in orders:
            producer.send(source, cents)
    reader = spark.readStream.format("semel").option("kafka.bootstrap.servers", spark_bootstrap)
    rows = reader.option("subscribe", source).option("startingOffsets", "earliest").load()
    kept = rows.selectExpr("cast(cast(value as string) as int) cents").where(condition)
    writer = kept.selectExpr("cast(cents as string) value").writeStream.format("semel")
    settings = {"kafka.bootstrap.servers": spark_bootstrap, "topic": target}
    writer = writer.options(**settings, checkpointLocation=str(tmp_path))
    drained(writer.trigger(availableNow=True).start())
    assert values(spark_bootstrap, target) == sorted(dear)
    places = [lines[0].index(cents) for cents in dear]
    assert places == [lines[-1].index(cents) for cents in dear], "each below the order it came from"


@pytest.mark.mission("FIG-29")
def test_the_drawing_of_a_stream_folded_into_a_table(counting: Counting) -> None:
    assert [sorted(column) for column in columns(TABLE, "table")] == counting.tables


@pytest.mark.mission("FIG-30")
def test_the_drawing_of_a_table_as_a_stream(counting: Counting) -> None:
    changes = [change for (change,) in columns(CHANGES, "changes")]
    assert changes == counting.changes()
    kept = [change for column in columns(CHANGES, "kept") for change in column]
    assert sorted(kept) == counting.tables[-1]
    struck = [change for change, is_struck in zip(changes, _struck(), strict=True) if is_struck]
    assert sorted([*struck, *kept]) == sorted(changes)


def _struck() -> list[bool]:
    """Whether each change is crossed out."""
    first, second, *_ = CHANGES.splitlines()
    starts = [match.start() for match in re.finditer(r"\S+( \d+)?", first)][1:]
    return ["✗" in second[start : start + 8] for start in starts]


@pytest.mark.mission("FIG-31")
def test_the_drawing_of_a_step_with_state(counting: Counting) -> None:
    assert re.findall(r"\w+\.db", STEP) == [counting.file.name]
    (changes,) = re.findall(r"(\d+) changes", STEP)
    counting.file.unlink()
    with counting.fold() as fold:
        assert fold.restored == int(changes)
        assert fold.catch_up() == 0
        assert sorted(f"{key.decode()} {n.decode()}" for key, n in fold.table.items()) == counting.tables[-1]

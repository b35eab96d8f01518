"""The programs in `examples/spark/` run as they stand, and print what they are there to show.

Method: each `main` runs in the session of this process, on a broker of its own process, and its output is read; one is run as its
header says, with a command.
"""

import importlib
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import local_counts
from shop import Shop
from spark_kit import driver_process, unique

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parents[3] / "examples" / "spark"


@pytest.fixture
def shop(spark: "SparkSession", spark_bootstrap: str, tmp_path: Path) -> Shop:
    return Shop(spark, spark_bootstrap, tmp_path, suffix=unique(""))


@pytest.fixture
def any_shop(spark: "SparkSession", either_bootstrap: str, tmp_path: Path) -> Shop:
    """On Semel, then on Apache Kafka."""
    return Shop(spark, either_bootstrap, tmp_path, suffix=unique(""))


def said(name: str, shop: Shop, capsys: pytest.CaptureFixture[str]) -> list[str]:
    importlib.import_module(name).main(shop)
    return capsys.readouterr().out.splitlines()


def test_every_example_says_how_to_run_it_and_is_tested_here() -> None:
    tested = Path(__file__).read_text()
    programs = sorted(path for path in EXAMPLES.glob("*.py") if "__main__" in path.read_text())
    assert len(programs) >= 7
    for path in programs:
        assert f"python examples/spark/{path.name}\n" in path.read_text(), (
            f"{path.name} does not say how to run it"
        )
        assert path.stem in tested, f"{path.name} is not tested"


def test_stream_and_back(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    assert said("stream_and_back", shop, capsys) == [
        "dear:",
        '  coffee  {"id":"a1","product":"coffee","cents":1071}',
        "cheap:",
        '  bread  {"id":"a1","product":"bread","cents":357}',
        '  bread  {"id":"a2","product":"bread","cents":357}',
        "orders-dead:",
        "  a3  a3;coffee;900",
    ]


@pytest.mark.mission("STR-08")
def test_counting(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    assert said("counting", shop, capsys) == [
        "sums:",
        '  00:00  {"minute":"00:00","cents":160,"n":3}',
        '  00:08  {"minute":"00:08","cents":30,"n":1}',
        "visits:",
        '  ada  {"customer":"ada","from":"00:00","n":3}',
        '  ada  {"customer":"ada","from":"00:08","n":1}',
        '  ben  {"customer":"ben","from":"00:00","n":2}',
    ]


@pytest.mark.mission("STR-07", "STR-10", "STR-06")
def test_order_table(any_shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    assert said("order_table", any_shop, capsys) == [
        "states:",
        "  b  tea  300  paid",
        "  c  jam  450  paid",
        "states as of offset 2:",
        "  a  tea  300  paid",
        "  b  tea  300  new",
        "sold, rebuilt:",
        "  jam  2  900",
        "  tea  2  600",
    ]


@pytest.mark.mission("STR-02")
def test_joining(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    assert said("joining", shop, capsys) == [
        "placed:",
        '  a1  {"customer":"ada","id":"a1","cents":5,"city":"Bonn"}',
        '  a2  {"customer":"ada","id":"a2","cents":9,"city":"Rome"}',
        '  b1  {"customer":"ben","id":"b1","cents":7}',
        "paid:",
        '  a1  {"id":"a1","customer":"ada","cents":5,"by":"card"}',
        '  a2  {"id":"a2","customer":"ada","cents":9,"by":"cash"}',
    ]


@pytest.mark.mission("STR-15")
def test_into_database(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    assert said("into_database", shop, capsys) == [
        "jam: 1 orders, 450 cents",
        "tea: 2 orders, 610 cents",
        "last batch: 1",
    ]


@pytest.mark.mission("STR-12")
def test_database_changes(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    lines = said("database_changes", shop, capsys)
    assert lines[0] == "customers:"
    assert sorted(lines[1:6]) == sorted(
        [
            '  1  {"id":1,"name":"Ada","city":"Bonn"}',
            '  1  {"id":1,"name":"Ada","city":"Paris"}',
            '  2  {"id":2,"name":"Ben","city":"Oslo"}',
            "  2  -",
            '  3  {"id":3,"name":"Cleo","city":"Rome"}',
        ]
    )
    assert lines[6:] == [
        "in Spark:",
        "  1  Ada  Paris",
        "  3  Cleo  Rome",
        'without Spark: {"id":1,"name":"Ada","city":"Paris"}',
    ]


@pytest.mark.mission("STR-06", "STR-10")
def test_local_counts(either_bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    local_counts.main(either_bootstrap, tmp_path, unique(""))
    assert capsys.readouterr().out.splitlines() == [
        "changes replayed 0, words read 3: jam 1, tea 2",
        "changes replayed 0, words read 2: bread 1, jam 1, tea 3",
        "changes replayed 4, words read 1: bread 1, jam 2, tea 3",
    ]


@pytest.mark.campaign  # Four starts of Spark.
def test_declarative_pipeline(java_installed: None, tmp_path: Path) -> None:
    """As a program: the pipeline has a Spark of its own, over Spark Connect."""
    quick = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    program = EXAMPLES / "declarative_pipeline.py"
    with driver_process(program, directory=tmp_path, environment=quick) as running:
        assert running.wait(280) == 0, running.text()
        said = [line for line in running.text().splitlines() if line.startswith("dear:")]
    assert said == [
        'dear: {"id":"b","product":"jam","cents":600}',
        'dear: {"id":"b","product":"jam","cents":600} {"id":"c","product":"tea","cents":700}',
    ]


def test_an_example_runs_with_one_command() -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "local_counts.py")],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "changes replayed 4, words read 1: bread 1, jam 2, tea 3"

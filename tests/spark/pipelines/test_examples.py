"""The programs in `examples/spark/` run as they stand, and print what they are there to show.

Method: each `main` runs in the session of this process, on a broker of its own process, and its output is read; one is run as its
header says, with a command.
"""

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import local_counts
from semel import Admin, NewTopic, Producer
from shop import Shop
from support.spark import cluster_examples
from support.spark.spark_cluster import standalone_cluster
from support.spark.spark_kit import PATIENCE_SECONDS, driver_process, unique, values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parents[3] / "examples" / "spark"
PRINTED = {
    "stream_and_back": [
        "dear:",
        '  coffee  {"id":"a1","product":"coffee","cents":1071}',
        "cheap:",
        '  bread  {"id":"a1","product":"bread","cents":357}',
        '  bread  {"id":"a2","product":"bread","cents":357}',
        "orders-dead:",
        "  a3  a3;coffee;900",
    ],
    "counting": [
        "sums:",
        '  00:00  {"minute":"00:00","cents":160,"n":3}',
        '  00:08  {"minute":"00:08","cents":30,"n":1}',
        "visits:",
        '  ada  {"customer":"ada","from":"00:00","n":3}',
        '  ada  {"customer":"ada","from":"00:08","n":1}',
        '  ben  {"customer":"ben","from":"00:00","n":2}',
    ],
    "order_table": [
        "states:",
        "  b  tea  300  paid",
        "  c  jam  450  paid",
        "states as of offset 2:",
        "  a  tea  300  paid",
        "  b  tea  300  new",
        "sold, rebuilt:",
        "  jam  2  900",
        "  tea  2  600",
    ],
    "joining": [
        "placed:",
        '  a1  {"customer":"ada","id":"a1","cents":5,"city":"Bonn"}',
        '  a2  {"customer":"ada","id":"a2","cents":9,"city":"Rome"}',
        '  b1  {"customer":"ben","id":"b1","cents":7}',
        "paid:",
        '  a1  {"id":"a1","customer":"ada","cents":5,"by":"card"}',
        '  a2  {"id":"a2","customer":"ada","cents":9,"by":"cash"}',
    ],
    "into_database": [
        "jam: 1 orders, 450 cents",
        "tea: 2 orders, 610 cents",
        "last batch: 1",
    ],
    "database_changes": [
        "customers:",
        '  1  {"id":1,"name":"Ada","city":"Bonn"}',
        '  1  {"id":1,"name":"Ada","city":"Paris"}',
        "  2  -",
        '  2  {"id":2,"name":"Ben","city":"Oslo"}',
        '  3  {"id":3,"name":"Cleo","city":"Rome"}',
        "in Spark:",
        "  1  Ada  Paris",
        "  3  Cleo  Rome",
        'without Spark: {"id":1,"name":"Ada","city":"Paris"}',
    ],
}
"""What the examples print, on one machine as on a cluster."""


@pytest.fixture
def one_shuffle_partition(spark: "SparkSession") -> Iterator[None]:
    """State in one task instead of two, for the sake of speed; on the cluster there are two."""
    before = spark.conf.get("spark.sql.shuffle.partitions", "2") or "2"
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", before)


@pytest.fixture
def shop(spark: "SparkSession", one_shuffle_partition: None, spark_bootstrap: str, tmp_path: Path) -> Shop:
    return Shop(spark, spark_bootstrap, tmp_path, suffix=unique(""))


@pytest.fixture
def any_shop(spark: "SparkSession", one_shuffle_partition: None, both_bootstrap: str, tmp_path: Path) -> Shop:
    """On Semel; in the campaign on Apache Kafka, too."""
    return Shop(spark, both_bootstrap, tmp_path, suffix=unique(""))


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
    check("stream_and_back", shop, capsys)


@pytest.mark.mission("STR-08")
def test_counting(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    check("counting", shop, capsys)


@pytest.mark.mission("STR-07", "STR-10", "STR-06")
def test_order_table(any_shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    check("order_table", any_shop, capsys)


@pytest.mark.mission("STR-02")
def test_joining(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    check("joining", shop, capsys)


@pytest.mark.mission("STR-15")
def test_into_database(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    check("into_database", shop, capsys)


@pytest.mark.mission("STR-12")
def test_database_changes(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    check("database_changes", shop, capsys)


@pytest.mark.timeout(600)
@pytest.mark.mission("MIS-03", "STR-03")
def test_two_executors_of_a_cluster_share_a_pipeline(
    java_installed: None, spark_bootstrap: str, tmp_path: Path
) -> None:
    """A query without state and one with, each through one of the sinks. Tasks of the first wait for one on another executor.

    The broker is the stock one, in a process that knows nothing of Spark.
    """
    with Admin(bootstrap_servers=spark_bootstrap) as admin:
        admin.create_topics(NewTopic(f"pair-{name}", num_partitions=2) for name in ("in", "upper", "counts"))
    texts = [f"row-{number}" for number in range(60)]
    with Producer(bootstrap_servers=spark_bootstrap) as producer:
        for number, text in enumerate(texts):
            producer.send("pair-in", text, key=f"k{number % 3}", partition=number % 2)
    with standalone_cluster(tmp_path / "cluster") as cluster:
        executors = driven(cluster.url, spark_bootstrap, tmp_path / "driver", "pair")
    assert len(executors) == 2
    assert values(spark_bootstrap, "pair-upper") == sorted(text.upper() for text in texts)
    assert values(spark_bootstrap, "pair-counts") == ["k0:20", "k1:20", "k2:20"]


@pytest.mark.timeout(900)
@pytest.mark.campaign  # Four JVMs.
@pytest.mark.mission("MIS-03")
def test_every_example_says_the_same_on_a_cluster(
    java_installed: None, spark_bootstrap: str, tmp_path: Path
) -> None:
    """A master and two workers, as processes; the examples that need no Spark are left out."""
    assert set(cluster_examples.PROGRAMS) == set(PRINTED)
    with standalone_cluster(tmp_path / "cluster") as cluster:
        said = driven(cluster.url, spark_bootstrap, tmp_path / "driver", "examples")
    assert said == PRINTED


@pytest.mark.timeout(900)
@pytest.mark.campaign  # Seven JVMs.
@pytest.mark.mission("STR-03")
def test_four_executors_do_more_than_one(java_installed: None, spark_bootstrap: str, tmp_path: Path) -> None:
    """The query's tasks wait, as for a service they ask: what four executors do at the same time, one does one by one.

    The broker is the stock one, in a process that knows nothing of Spark.
    """
    with Admin(bootstrap_servers=spark_bootstrap) as admin:
        admin.create_topics(
            [NewTopic("shared-in", num_partitions=8)]
            + [NewTopic(f"shared-out-{count}", num_partitions=2) for count in (1, 4)]
        )
    with Producer(bootstrap_servers=spark_bootstrap) as producer:
        for number in range(80):
            producer.send("shared-in", f"{number}", partition=number % 8)
    with standalone_cluster(tmp_path / "cluster", workers=4) as cluster:
        alone, shared = driven(cluster.url, spark_bootstrap, tmp_path / "driver", "scaling")
    print(f"80 rows in 8 partitions: {alone:.1f} s with one executor, {shared:.1f} s with four")
    assert shared < 0.7 * alone
    for count in (1, 4):
        assert values(spark_bootstrap, f"shared-out-{count}") == sorted(map(str, range(80)))


def check(name: str, shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    importlib.import_module(name).main(shop)
    assert capsys.readouterr().out.splitlines() == PRINTED[name]


def driven(master: str, bootstrap: str, directory: Path, what: str) -> Any:
    """What the driver on a cluster gave."""
    directory.mkdir()
    program = Path(cluster_examples.__file__)
    arguments = [master, bootstrap, str(directory), what]
    with driver_process(program, arguments, directory=directory / "process") as running:
        assert running.wait(2 * PATIENCE_SECONDS) == 0, running.text()[-6000:]
        return json.loads(running.text().strip().splitlines()[-1])


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

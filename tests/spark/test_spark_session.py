"""A session's settings: what suits one machine, what suits a cluster, and that what others say wins.

Method: the pure parts by value; the shared session for what Spark made of them.
"""

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from semel import Admin
from semel.spark import register
from semel.spark.python_path import use_python
from semel.spark.spark_session import _has_master, defaults

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_one_machine_has_as_many_shuffle_partitions_as_cores() -> None:
    assert defaults("local[3]")["spark.sql.shuffle.partitions"] == "3"
    assert defaults("local[2, 4]")["spark.sql.shuffle.partitions"] == "2"
    assert defaults("local")["spark.sql.shuffle.partitions"] == "1"
    assert int(defaults("local[*]")["spark.sql.shuffle.partitions"]) >= 1


def test_a_cluster_keeps_its_own_addresses() -> None:
    for master in ("spark://host:7077", None):
        found = defaults(master)
        assert "spark.driver.host" not in found
        assert "spark.sql.shuffle.partitions" not in found


def test_who_says_where_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYSPARK_GATEWAY_PORT", "MASTER", "SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.delenv(name, raising=False)
    assert not _has_master()
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf a=b pyspark-shell")
    assert not _has_master()
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--master 'spark://h:1' pyspark-shell")
    assert _has_master()
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS")
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1234")
    assert _has_master()


def test_workers_do_not_import_pyspark_from_a_zip(tmp_path: Path) -> None:
    """The script in front of the interpreter takes Spark's own entries off the path, and only those."""
    environment = {"SEMEL_KERNEL_CACHE": str(tmp_path / "kernels")}
    python = use_python(is_local=True, environment=environment)
    assert environment["PYSPARK_DRIVER_PYTHON"] == python
    program = "import os, sys; print(sys.executable, os.environ.get('PYTHONPATH'), sys.argv[1:])"

    def said(path: str) -> str:
        done = subprocess.run(
            [python, "-c", program, "a b", ""],
            env={"PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    spark = "/x y/python/lib/pyspark.zip:/x y/python/lib/py4j-0.10.9.9-src.zip"
    assert said(f"{spark}:/mine:/other place") == f"{sys.executable} /mine:/other place ['a b', '']"
    assert said(spark) == f"{sys.executable} None ['a b', '']"


def test_another_python_is_left_alone(tmp_path: Path) -> None:
    environment = {"PYSPARK_PYTHON": "./environment/bin/python"}
    assert use_python(is_local=True, environment=environment) == "./environment/bin/python"
    assert use_python(is_local=False, environment={}) == sys.executable
    elsewhere = {"SPARK_HOME": str(tmp_path), "SEMEL_KERNEL_CACHE": str(tmp_path / "kernels")}
    assert use_python(is_local=True, environment=elsewhere) == sys.executable


def test_the_session_runs_this_python_and_keeps_state_by_changelog(spark: "SparkSession") -> None:
    executable = spark.range(1).rdd.map(lambda _: __import__("sys").executable).first()
    assert executable == sys.executable
    assert spark.conf.get("spark.sql.execution.arrow.maxBytesPerBatch") == "16m"
    assert "RocksDB" in (spark.conf.get("spark.sql.streaming.stateStore.providerClass") or "")
    assert spark.conf.get("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled") == "true"


def test_registering_twice_is_harmless(spark: "SparkSession") -> None:
    register(spark)
    register(spark)


def test_spark_finds_the_source_by_itself(spark: "SparkSession") -> None:
    """A new session of the same JVM, which nobody registered anything with."""
    other = spark.newSession()
    with pytest.raises(Exception, match="subscribe, subscribePattern and assign"):
        other.read.format("semel").option("kafka.bootstrap.servers", "localhost:1").load().schema  # noqa: B018 - loading is it.


_PROGRAM = """
import sys
from semel.spark import register, session
bootstrap, checkpoint = sys.argv[1:]
spark = session(master="local[1]")
register(session(master="local[1]"))
def stream():
    return spark.readStream.format("semel").option("kafka.bootstrap.servers", bootstrap).option("subscribe", "quiet").load()
for number in range(2):
    query = stream().writeStream.format("noop").option("checkpointLocation", f"{checkpoint}/{number}")
    query.trigger(availableNow=True).start().awaitTermination()
print("ended", flush=True)
spark.stop()
"""


def test_queries_of_a_session_replace_no_source(
    java_installed: None, spark_bootstrap: str, tmp_path: Path
) -> None:
    """Spark warned of a replaced source when the session began, when it was asked for again, and with every streaming query."""
    with Admin(bootstrap_servers=spark_bootstrap) as admin:
        admin.create_topics("quiet")
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, spark_bootstrap, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr
    assert "replaced" not in done.stderr
    assert "DataSourceManager" not in done.stderr

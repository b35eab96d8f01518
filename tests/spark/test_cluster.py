"""The same pipeline on a Spark standalone cluster: by spark-submit with an archive of Semel, and with everything that goes wrong.

Method: a master and two workers of one core each, as processes. The pipeline (`cluster_pipeline`) has a task that fails, an executor
that is killed, an attempt that is overtaken by another; both sinks must have every row once. The workers' Python is told to take
Semel from the archive, and shows that it did.
"""

import json
import subprocess
import zipfile
from pathlib import Path

import pytest

from semel import Admin, Producer
from semel.spark.packing import PackingError, pack
from semel.spark.python_path import use_python
from support.spark.spark_cluster import spark_home, standalone_cluster
from support.spark.spark_kit import PATIENCE_SECONDS, new_topic, values

PIPELINE = Path(__file__).parents[1] / "support" / "spark" / "cluster_pipeline.py"
ROWS = 120
JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@pytest.mark.timeout(600)
@pytest.mark.campaign  # Five JVMs.
def test_a_pipeline_on_a_cluster(java_installed: None, spark_bootstrap: str, tmp_path: Path) -> None:
    source = new_topic(spark_bootstrap, "in", 2)
    target, atomic_target = new_topic(spark_bootstrap, "out", 3), new_topic(spark_bootstrap, "atomic", 3)
    wanted = [f"{index:03}" for index in range(ROWS)]
    with Producer(bootstrap_servers=spark_bootstrap) as producer:
        for text in wanted:
            producer.send(source, key=text[-1], value=text, partition=int(text) % 2)
    archive = pack(tmp_path / "packed.zip", dependencies=False)
    shared = tmp_path / "shared"
    shared.mkdir()

    with standalone_cluster(tmp_path / "cluster") as cluster:
        submit = [
            str(spark_home() / "bin" / "spark-submit"),
            *("--master", cluster.url, "--archives", f"{archive}#packed"),
            *("--executor-memory", "512m", "--executor-cores", "1", "--driver-memory", "640m"),
            *("--conf", "spark.executorEnv.PYTHONPATH=packed", "--conf", "spark.ui.enabled=false"),
            *("--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1"),
            *("--driver-java-options", JVM, "--conf", f"spark.executor.extraJavaOptions={JVM}"),
            str(PIPELINE),
            *(spark_bootstrap, source, target, atomic_target, str(shared)),
        ]
        done = subprocess.run(
            submit,
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE_SECONDS,
            check=False,
            env={**cluster.environment, "PYSPARK_PYTHON": use_python(is_local=True, environment={})},
        )
        assert done.returncode == 0, done.stderr[-6000:]
        said = json.loads(done.stdout.splitlines()[-1])
        assert said["master"] == cluster.url
        for file in said["files"]:
            assert Path(file).is_relative_to(tmp_path / "cluster"), "Semel came from the archive"
            assert Path(file).parts[-3:] == ("packed", "semel", "__init__.py")

    assert {one.name for one in shared.iterdir()} >= {"failed", "killed", "overtaken"}
    assert values(spark_bootstrap, target) == wanted
    assert values(spark_bootstrap, atomic_target) == wanted
    with Admin(bootstrap_servers=spark_bootstrap) as admin:
        listed = admin.list_transactions(states=["Ongoing"])
    assert not [one for one in listed if one.transactional_id.startswith("semel-sink")]


def test_what_is_packed(tmp_path: Path) -> None:
    archive = pack(tmp_path / "packed.zip", dependencies=False)
    names = zipfile.ZipFile(archive).namelist()
    assert {"semel/__init__.py", "semel/broker/metrics/alerts.yml", "pyspark_semel/__init__.py"} <= set(names)
    assert not [name for name in names if "__pycache__" in name]
    assert names == sorted(names)


def test_what_semel_requires_is_known() -> None:
    """The archive itself is large; which distributions go into it is not."""
    from semel.spark.packing import _closure

    found = _closure("semel")
    assert {"semel", "pyarrow", "numpy", "numba", "llvmlite", "crc32c", "click"} <= found
    assert not found & {"pyspark", "pytest", "sqlalchemy"}


def test_an_archive_spark_could_not_unpack(tmp_path: Path) -> None:
    with pytest.raises(PackingError, match=r"name the archive \.zip"):
        pack(tmp_path / "packed.rar")

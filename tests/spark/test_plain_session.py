"""A session without any of our settings, in an environment that is not activated: Spark's words for it, and the one line that mends it.

Method: a program in a process of its own, because Spark reads the environment when its JVM starts. `python3` on the PATH is the Python
this environment was made from, which has no Semel.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from semel.spark import python_path
from semel.spark.python_path import use_python_in

PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text(encoding="utf-8")
NOT_FOUND = "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: semel."
_PROGRAM = """
import sys
from pyspark.sql import SparkSession
from semel import Producer
bootstrap, topic, checkpoint = sys.argv[1:]
server = {"kafka.bootstrap.servers": bootstrap}
with Producer(bootstrap_servers=bootstrap) as producer:
    producer.send(topic, b"a")
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.log.level", "ERROR").getOrCreate()
def rows():
    return spark.read.format("semel").options(**server, subscribe=topic).load().select("value")
try:
    rows()
except Exception as error:
    print(str(error).splitlines()[1])
try:
    spark.sparkContext.parallelize([1], 1).map(lambda _: __import__("semel").__name__).collect()
except Exception as error:
    print(str(error).strip().splitlines()[-1])
from semel.spark import TopicSink, register
register(spark)
print("after register:", rows().count())
rows().write.format("semel").mode("append").options(**server, topic=topic).save()
stream = spark.readStream.format("semel").options(**server, subscribe=topic, startingOffsets="earliest").load().select("value")
query = stream.writeStream.foreachBatch(TopicSink(topic, bootstrap=bootstrap)).option("checkpointLocation", checkpoint)
query.trigger(availableNow=True).start().awaitTermination()
print("after both sinks:", rows().count())
spark.stop()
"""


def _not_activated(directory: Path) -> dict[str, str]:
    """The environment of a program started by the whole path of its Python."""
    (directory / "python3").symlink_to(Path(sys.executable).resolve())
    ours = ("PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "VIRTUAL_ENV")
    return {
        **{name: value for name, value in os.environ.items() if name not in ours},
        "PATH": os.pathsep.join([str(directory), os.environ["PATH"]]),
    }


@pytest.mark.skipif(sys.prefix == sys.base_prefix, reason="Semel is installed without a virtual environment")
def test_one_line_mends_a_plain_session_without_activation(
    java_installed: None, spark_bootstrap: str, tmp_path: Path
) -> None:
    binaries = tmp_path / "bin"
    binaries.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, spark_bootstrap, "plain-session", str(tmp_path / "checkpoint")],
        env=_not_activated(binaries),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    first, second, *others = done.stdout.splitlines()
    assert NOT_FOUND in first
    assert second == "ModuleNotFoundError: No module named 'semel'"
    assert f"`{NOT_FOUND}`" in PAGE
    assert f"`{second}`" in PAGE
    assert others == ["after register: 1", "after both sinks: 4"]


class _Context:
    """The two fields of a SparkContext that decide."""

    def __init__(self, master: str, python: str) -> None:
        self.master = master
        self.pythonExec = python


@pytest.mark.parametrize(
    ("master", "python", "chosen", "is_activated", "is_mended"),
    [
        ("local[2]", "python3", None, False, True),
        ("local[2]", "python3", None, True, False),
        ("local[2]", "python3", "python3", False, False),
        ("local[2]", "/other/python", None, False, False),
        ("spark://host:7077", "python3", None, False, False),
    ],
)
def test_a_choice_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    master: str,
    python: str,
    chosen: str | None,
    is_activated: bool,
    is_mended: bool,
) -> None:
    """Clusters run the Python of their machines, and a user's own choice holds."""
    monkeypatch.setattr(python_path, "_this_python", lambda _environment: sys.executable)
    beside = str(Path(sys.executable).parent)
    environment = {"PATH": beside if is_activated else str(tmp_path)}
    if chosen is not None:
        environment["PYSPARK_PYTHON"] = chosen
    (tmp_path / "python3").symlink_to(Path(sys.executable).resolve())
    context = _Context(master, python)
    use_python_in(context, environment)  # type: ignore[arg-type]
    assert context.pythonExec == (sys.executable if is_mended else python)

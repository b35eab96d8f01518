"""The script for Spark's workers takes the zips out of the path, and nothing else.

Method: the script itself, with paths as Spark makes them.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from semel.spark.worker_python import without_zips


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (
            "/s/python/lib/pyspark.zip:/s/python/lib/py4j-0.10.9.9-src.zip:/s/jars/spark-core.jar",
            "/s/jars/spark-core.jar",
        ),
        ("/a b:/s/python/lib/pyspark.zip:/c*:/mine/pyspark.zip", "/a b:/c*:/mine/pyspark.zip"),
        ("/s/python/lib/pyspark.zip", ""),
        ("", ""),
        (None, ""),
    ],
)
def test_the_zips_go_and_the_rest_stays_in_order(given: str | None, kept: str, tmp_path: Path) -> None:
    script = without_zips(tmp_path / "a folder")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if given is not None:
        environment["PYTHONPATH"] = given
    program = "import os, sys; print(os.environ['PYTHONPATH']); print(sys.argv[1:])"
    done = subprocess.run(
        [str(script), "-c", program, "one two", "*"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [kept, "['one two', '*']"]


def test_it_runs_the_interpreter_it_was_made_for(tmp_path: Path) -> None:
    script = without_zips(tmp_path)
    asked = [str(script), "-c", "import sys; print(sys.executable)"]
    done = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == sys.executable

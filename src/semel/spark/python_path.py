"""The Python that Spark's workers run: this one, and without compiling PySpark from a zip in every process.

Role.   `use_python` sets `PYSPARK_PYTHON` for the processes Spark will start.
Rules.  * A variable the environment has already wins: on a cluster it names an interpreter of the executors' machines.
        * Spark puts its own `pyspark.zip` first on the path of every worker. Python compiles modules of a zip in every process:
          0.8 s of processor time each, and there are many. On one machine a script in front of the interpreter takes these
          entries off the path, where the interpreter has the same PySpark installed as a package.
"""

import os
import shlex
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import Final

from semel.spark import shims

_SCRIPT: Final = """#!/bin/sh
# Python for Spark's workers. This interpreter has PySpark installed, compiled; the same from Spark's zip would be compiled every time.
kept=
IFS=:
for entry in $PYTHONPATH; do
  case "$entry" in
    */python/lib/pyspark.zip | */python/lib/py4j-*-src.zip) ;;
    *) kept="${{kept:+$kept:}}$entry" ;;
  esac
done
unset IFS
if [ -n "$kept" ]; then PYTHONPATH=$kept; export PYTHONPATH; else unset PYTHONPATH; fi
exec {python} "$@"
"""


def use_python(*, is_local: bool, environment: MutableMapping[str, str] = os.environ) -> str:
    """Have Spark's workers run this interpreter, unless the environment names another; which it is."""
    if "PYSPARK_PYTHON" not in environment:
        environment["PYSPARK_PYTHON"] = _this_python(environment) if is_local else sys.executable
    environment.setdefault("PYSPARK_DRIVER_PYTHON", environment["PYSPARK_PYTHON"])
    return environment["PYSPARK_PYTHON"]


def _this_python(environment: MutableMapping[str, str]) -> str:
    if os.name != "posix" or not _has_installed_pyspark(environment):
        return sys.executable
    try:
        return str(
            shims.executable("python", _SCRIPT.format(python=shlex.quote(sys.executable)), environment)
        )
    except shims.ShimError:
        return sys.executable  # Slower, and right.


def _has_installed_pyspark(environment: MutableMapping[str, str]) -> bool:
    """Whether PySpark is a package of this interpreter, and the one whose Spark will run."""
    import pyspark

    package = Path(str(pyspark.__file__)).parent
    home = environment.get("SPARK_HOME")
    return package.is_dir() and (home is None or Path(home).resolve() == package.resolve())

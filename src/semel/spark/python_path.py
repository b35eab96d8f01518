"""The Python that Spark's workers run: this one, and without compiling PySpark from a zip in every process.

Role.   `use_python` sets `PYSPARK_PYTHON` for the processes Spark will start; `use_python_in` mends a session that runs already.
Rules.  * Spark's workers run `python3` of the PATH unless they are told. In a virtual environment that is not activated, that is
          another Python, without Semel.
        * A variable the environment has already wins: on a cluster it names an interpreter of the executors' machines.
        * Spark puts its own `pyspark.zip` first on the path of every worker. Python compiles modules of a zip in every process:
          0.8 s of processor time each, and there are many. On one machine a script in front of the interpreter takes these
          entries off the path, where the interpreter has the same PySpark installed as a package.
"""

import os
import shlex
import shutil
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from semel.spark import shims

if TYPE_CHECKING:
    from pyspark import SparkContext

_PYSPARK_DEFAULT: Final = "python3"
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


def use_python_in(context: "SparkContext", environment: MutableMapping[str, str] = os.environ) -> None:
    """Have the workers of a session on this machine run this interpreter, where nobody chose one and another would run."""
    chosen = environment.get("PYSPARK_PYTHON") == _PYSPARK_DEFAULT or context.pythonExec != _PYSPARK_DEFAULT
    if not chosen and (context.master or "").startswith("local") and not _is_here(environment):
        context.pythonExec = _this_python(environment)


def _is_here(environment: MutableMapping[str, str]) -> bool:
    """Whether `python3` on the PATH is this environment's. Links are not followed: they lead to the Python it was made from."""
    found = shutil.which(_PYSPARK_DEFAULT, path=environment.get("PATH", os.defpath))
    return found is not None and Path(found).parent == Path(sys.executable).parent


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

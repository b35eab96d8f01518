"""Python for Spark's workers that does not compile PySpark again and again.

Role.   Spark puts the copy of PySpark that lies in a zip (`python/lib/pyspark.zip`) before everything else on the path of every
        worker process. Python keeps nothing of what it compiles out of a zip, so each worker compiles PySpark from source: 0.8 of
        the 1.1 CPU seconds it takes to start one. `without_zips` writes a script that takes the zips out of the path.
Rules.  * Only where this interpreter has PySpark itself, which is how it was found: on one machine, with `master=local[…]`.
        * What else is on the path stays, in its order.
"""

import shlex
import sys
from pathlib import Path
from typing import Final

_SCRIPT: Final = """#!/bin/sh
# PySpark is installed for this Python: the copies in zips that Spark puts before it need not be compiled by every worker.
set -f
kept=
IFS=:
for entry in $PYTHONPATH; do
  case "$entry" in
    */python/lib/pyspark.zip | */python/lib/py4j-*-src.zip) ;;
    *) kept="$kept${{kept:+:}}$entry" ;;
  esac
done
unset IFS
PYTHONPATH="$kept"
export PYTHONPATH
exec {python} "$@"
"""


def without_zips(directory: Path, python: str = sys.executable) -> Path:
    """Write the script into a directory; it is to be `PYSPARK_PYTHON`, or `spark.pyspark.python`."""
    directory.mkdir(parents=True, exist_ok=True)
    script = directory / "worker-python"
    script.write_text(_SCRIPT.format(python=shlex.quote(python)), encoding="utf-8")
    script.chmod(0o755)
    return script

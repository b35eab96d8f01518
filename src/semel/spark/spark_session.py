"""A Spark session that is right for Semel: `semel.spark.session()`.

Role.   Java is found, workers run this interpreter, `format("semel")` is known, and the defaults suit streams.
Flow.   A script, a notebook or a test asks for a session; under spark-submit the same call takes over the session's master.
Rules.  * What the caller, spark-submit or the environment says wins over what is said here.
        * Nothing here only works on one machine: with `master=` (or spark-submit) the same settings go to a cluster.
"""

import os
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from semel.spark.java import use_java
from semel.spark.pyspark_extra import need_pyspark
from semel.spark.python_path import use_python
from semel.spark.registration import register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STATE_STORE: Final = "spark.sql.streaming.stateStore"

# For every master.
DEFAULTS: Final[Mapping[str, str]] = {
    # State survives by its changelog, so that a trigger uploads what changed and not whole files.
    f"{_STATE_STORE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{_STATE_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
    # Rows reach Python in batches that are worth a call; their bytes stay bounded.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.sql.execution.arrow.maxBytesPerBatch": "16m",
    "spark.ui.showConsoleProgress": "false",
}

# On one machine only: names need not resolve, and 200 tasks per shuffle are for clusters.
LOCAL_DEFAULTS: Final[Mapping[str, str]] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


def session(
    app_name: str = "semel",
    *,
    master: str | None = None,
    config: Mapping[str, str] | None = None,
) -> "SparkSession":
    """A Spark session with Semel's source and sinks; the running one, if there is one.

    `master` is Spark's: `local[4]`, `spark://host:7077`, …; without it spark-submit's, else all cores of this machine.
    `config` holds Spark's settings and wins over Semel's defaults.
    """
    need_pyspark()
    if master is None and not _has_master():
        master = "local[*]"
    use_python(is_local=master is not None and master.startswith("local"))
    if not _is_submitted():
        use_java()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app_name)
    if master is not None:
        builder = builder.master(master)
    for key, value in {**defaults(master), **(config or {})}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    register(spark)
    return spark


def defaults(master: str | None) -> dict[str, str]:
    """Semel's settings for sessions of this master."""
    if master is None or not master.startswith("local"):
        return dict(DEFAULTS)
    return {
        **DEFAULTS,
        **LOCAL_DEFAULTS,
        "spark.sql.shuffle.partitions": str(_cores(master)),
    }


def _cores(master: str) -> int:
    """2 of local[2]; local[*] and local[*, 3] have the machine's, plain local has one."""
    inside = master.partition("[")[2].rstrip("]").split(",")[0].strip()
    if inside == "*":
        return os.cpu_count() or 1
    return max(1, int(inside)) if inside.isdecimal() else 1


def _is_submitted() -> bool:
    """Whether spark-submit started this program: Spark's JVM runs already."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _has_master() -> bool:
    """Whether someone else says where to run: spark-submit, or the arguments PySpark gives to it."""
    arguments = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    return (
        _is_submitted()
        or "MASTER" in os.environ
        or "SPARK_REMOTE" in os.environ
        or any(one == "--master" or one.startswith("--master=") for one in arguments)
    )

"""Make `format("semel")` known to a Spark session.

Role.   `register` for users, `make_known` for our own functions that take a session. PySpark finds Semel by itself where it looks for installed sources (`pyspark_semel`). A session needs
        `register` if its workers run in another environment, or if that search is off.
Rules.  * On one machine workers run this Python from then on: another cannot load the source (`python_path`).
        * Registering twice is harmless, whoever came first.
        * A source that the session knows is left alone: Spark would warn about a replaced source. It would warn again at every
          start of a streaming query, which copies the session and all sources registered in it.
"""

from typing import TYPE_CHECKING, Final

from semel.spark.pyspark_extra import need_pyspark
from semel.spark.python_path import use_python_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME: Final = "semel"
_KNOWN_ALREADY: Final = "DATA_SOURCE_ALREADY_EXISTS"


def register(spark: "SparkSession") -> None:
    """Have this session understand `format("semel")` for read, readStream, write and writeStream."""
    need_pyspark()
    if is_classic(spark):
        use_python_in(spark.sparkContext)
    if _is_known(spark):
        return
    from pyspark.errors import AnalysisException

    from semel.spark.data_source import SemelDataSource

    try:
        spark.dataSource.register(SemelDataSource)
    except AnalysisException as refused:
        # Spark found it by itself, and does not let a source it found be replaced.
        if refused.getCondition() != _KNOWN_ALREADY:
            raise


def make_known(spark: "SparkSession") -> None:
    """The same for a session of this process. Over Spark Connect the server's environment has the source, or the user registers it."""
    if is_classic(spark):
        register(spark)


def is_classic(spark: "SparkSession") -> bool:
    """Whether the session's driver is this process."""
    return hasattr(spark, "_jsparkSession")


def _is_known(spark: "SparkSession") -> bool:
    """Whether the session has the source already; a session of Spark Connect cannot be asked."""
    return is_classic(spark) and bool(
        spark._jsparkSession.sessionState().dataSourceManager().dataSourceExists(_NAME)
    )

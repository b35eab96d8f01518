"""Make `format("semel")` known to a Spark session.

Role.   `register`. PySpark finds Semel by itself where it looks for installed sources (`pyspark_semel`). A session needs
        `register` if its workers run in another environment, or if that search is off.
Rules.  * Registering twice is harmless, whoever came first.
        * A source that the session knows is left alone: Spark would warn about a replaced source. It would warn again at every
          start of a streaming query, which copies the session and all sources registered in it.
"""

from typing import TYPE_CHECKING, Final

from semel.spark.pyspark_extra import need_pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME: Final = "semel"
_KNOWN_ALREADY: Final = "DATA_SOURCE_ALREADY_EXISTS"


def register(spark: "SparkSession") -> None:
    """Have this session understand `format("semel")` for read, readStream, write and writeStream."""
    need_pyspark()
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


def _is_known(spark: "SparkSession") -> bool:
    """Whether the session has the source already; a session of Spark Connect cannot be asked."""
    session = getattr(spark, "_jsparkSession", None)
    return session is not None and bool(session.sessionState().dataSourceManager().dataSourceExists(_NAME))

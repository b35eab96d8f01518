"""Make `format("semel")` known to a Spark session.

Role.   `register`. PySpark finds Semel by itself where it looks for installed sources (`pyspark_semel`); a session whose
        workers run in another environment, or in which that search is off, is told here.
Rules.  Registering twice is harmless, whoever came first.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KNOWN_ALREADY: Final = "DATA_SOURCE_ALREADY_EXISTS"


def register(spark: "SparkSession") -> None:
    """Have this session understand `format("semel")` for read, readStream, write and writeStream."""
    from pyspark.errors import AnalysisException

    from semel.spark.source import SemelDataSource

    try:
        spark.dataSource.register(SemelDataSource)
    except AnalysisException as refused:
        # Spark found it by itself, and does not let a source it found be replaced.
        if refused.getCondition() != _KNOWN_ALREADY:
            raise

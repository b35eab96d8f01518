"""Avro, where Spark has it: its module is a jar of its own, which PySpark does not bring.

Role.   `check_avro` says in one line what a session lacks before Spark says it in its way. Encoding and decoding are Spark's own
        `to_avro` and `from_avro` (`pyspark.sql.avro.functions`).
"""

from typing import TYPE_CHECKING, Final

from semel.exceptions import ConfigException

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CLASS: Final = "org.apache.spark.sql.avro.CatalystDataToAvro"


def check_avro(spark: "SparkSession") -> None:
    """Raise unless this session can read and write Avro."""
    jvm = getattr(spark, "_jvm", None)
    if jvm is None:  # Spark Connect: the server knows, and says so when it is asked.
        return
    if not jvm.org.apache.spark.util.Utils.classIsLoadable(_CLASS):
        package = f"org.apache.spark:spark-avro_2.13:{spark.version}"
        raise ConfigException(
            f"Avro needs Spark's module spark-avro, which this session does not have: start it with "
            f"session(config={{'spark.jars.packages': '{package}'}}) or spark-submit --packages {package}, or use JSON"
        )

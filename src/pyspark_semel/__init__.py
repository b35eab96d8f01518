"""PySpark's entry point: it knows `format("semel")` wherever Semel is installed.

Role.   Before its first Python data source PySpark imports every top-level module named `pyspark_…` and registers its
        `DefaultSource`. This module is that name, and nothing else.
Rules.  An import that fails here would break every Python data source of the session, so it imports only the source.
"""

from semel.spark.data_source import SemelDataSource as DefaultSource

__all__ = ["DefaultSource"]

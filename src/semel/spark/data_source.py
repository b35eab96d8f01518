"""`format("semel")`: the class that Spark asks for readers and writers.

Role.   `semel.spark.register` registers `SemelDataSource`.
Flow.   Spark makes one per data frame, in a Python process of the driver, with the options; it is pickled to where it is needed.
Rules.  * Options are checked when the data frame is made, as far as they do not depend on its use.
        * An error's text comes first in Spark's exception (`plain_errors`).
        * The columns are fixed (`columns`): a schema of the user's own is refused.
Elsewhere. Reading: `source`. Writing: `sink.dropin`. The atomic sink, which is no data source: `sink.atomic`.
"""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from semel.errors import SemelError
from semel.exceptions import IllegalArgumentException
from semel.spark.plain_errors import in_plain_words
from semel.spark.source.columns import spark_schema
from semel.spark.source.options import SourceOptions

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class SemelDataSource(DataSource):
    """Topics of Semel, or of Apache Kafka, as data frames."""

    @classmethod
    def name(cls) -> str:
        """The name in `format(…)`."""
        return "semel"

    @in_plain_words
    def schema(self) -> "StructType":
        """The columns of a topic."""
        return spark_schema(include_headers=SourceOptions.of(self.options).include_headers)

    @in_plain_words
    def reader(self, schema: "StructType") -> "DataSourceReader":
        """For `spark.read`."""
        from semel.spark.source.batch_reader import BatchReader, FilteringReader

        options = self._options(schema).for_batch()
        return FilteringReader(options) if options.push_filters else BatchReader(options)

    def streamReader(self, schema: "StructType") -> "DataSourceStreamReader":  # noqa: N802 - Spark's name.
        """For `spark.readStream`."""
        from semel.spark.source.stream_reader import RefusedReader, StreamReader

        try:
            return StreamReader(self._options(schema).for_stream())
        except SemelError as error:
            # PySpark shows an error of its own instead of one that is raised here.
            return RefusedReader(error)

    @in_plain_words
    def writer(self, schema: "StructType", overwrite: bool) -> "DataSourceWriter":
        """For `write`."""
        from semel.spark.sink.dropin import batch_writer

        return batch_writer(options=self.options, schema=schema, overwrite=overwrite)

    @in_plain_words
    def streamWriter(self, schema: "StructType", overwrite: bool) -> "DataSourceStreamWriter":  # noqa: N802
        """For `writeStream`."""
        from semel.spark.sink.dropin import stream_writer

        return stream_writer(options=self.options, schema=schema, overwrite=overwrite)

    def _options(self, schema: "StructType") -> SourceOptions:
        options = SourceOptions.of(self.options)
        columns = spark_schema(include_headers=options.include_headers)
        if schema.fieldNames() != columns.fieldNames() or schema != columns:
            raise IllegalArgumentException(
                f'format("semel") has the columns {columns.simpleString()} and takes no schema: leave out schema(…)'
            )
        return options

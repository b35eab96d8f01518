"""The drop-in sink: `writeStream.format("semel")` and `write.format("semel")`.

Role.   `stream_writer` and `batch_writer` are what the data source hands to Spark. Read `committing` first: the driver's
        protocol, step by step; `batch_ledger` has its rules.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from semel.spark.dropin.writers import BatchWriter, StreamWriter


def stream_writer(*, options: Mapping[str, str], schema: "StructType", overwrite: bool) -> "StreamWriter":
    """What writes the micro-batches of a query. `overwrite` says complete mode, in which a log has all results after another."""
    from semel.spark.dropin.writers import StreamWriter

    return StreamWriter.of(options, schema, overwrite=overwrite)


def batch_writer(*, options: Mapping[str, str], schema: "StructType", overwrite: bool) -> "BatchWriter":
    """What writes a data frame once."""
    from semel.spark.dropin.writers import BatchWriter

    return BatchWriter.of(options, schema, overwrite=overwrite)

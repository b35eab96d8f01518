"""The drop-in sink: `writeStream.format("semel")` and `write.format("semel")`.

Role.   `stream_writer` and `batch_writer` give the data source its writers. Read `committing` first: the driver's
        protocol, step by step; `batch_ledger` has its rules.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from semel.spark.sink.dropin.writers import BatchWriter, StreamWriter


def stream_writer(*, options: Mapping[str, str], schema: "StructType", overwrite: bool) -> "StreamWriter":
    """The writer of a query's micro-batches. `overwrite` says complete mode, which a log cannot follow."""
    from semel.spark.sink.dropin.writers import StreamWriter

    return StreamWriter.of(options, schema, overwrite=overwrite)


def batch_writer(*, options: Mapping[str, str], schema: "StructType", overwrite: bool) -> "BatchWriter":
    """The writer of one data frame."""
    from semel.spark.sink.dropin.writers import BatchWriter

    return BatchWriter.of(options, schema, overwrite=overwrite)

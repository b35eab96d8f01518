"""A task of the source, as Spark hands it on by pickle: ranges of offsets.

Role.   `tasks_of` divides ranges among tasks as the options say; `read_task` gives the rows of one.
Flow.   driver: `batch_reader` or `stream_reader` -> `tasks_of` -> Spark. Task: Spark -> `read_task` -> `reading`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import InputPartition

from semel.errors import SemelError
from semel.spark.plain_errors import begin_with, leave_out_traceback
from semel.spark.query_properties import BATCH_ID, QUERY_ID
from semel.spark.source.options import SourceOptions
from semel.spark.source.ranges import OffsetRange, divided, gathered

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class RangePartition(InputPartition):
    """The ranges of one task."""

    ranges: tuple[OffsetRange, ...]


def tasks_of(ranges: Sequence[OffsetRange], options: SourceOptions) -> list[InputPartition]:
    """The tasks that read these ranges."""
    parts = divided(
        ranges, min_partitions=options.min_partitions, max_records=options.max_records_per_partition
    )
    tasks = gathered(
        parts,
        min_records=options.min_records_per_partition,
        min_partitions=options.min_partitions,
        max_records=options.max_records_per_partition,
    )
    return [RangePartition(task) for task in tasks]


def read_task(partition: InputPartition, options: SourceOptions) -> "Iterator[pa.RecordBatch]":
    """The rows of a task. Spark makes up a partition where there is none to read."""
    from semel.spark.source.reading import read_ranges

    try:
        yield from read_ranges(partition.ranges if isinstance(partition, RangePartition) else (), options)
    except SemelError as error:
        if subject := _subject():
            begin_with(error, subject)
        leave_out_traceback(error)
        raise


def _subject() -> str:
    """The query and its batch, to begin an error with; empty for a batch job, which has neither."""
    context = TaskContext.get()
    if context is None or (query_id := context.getLocalProperty(QUERY_ID)) is None:
        return ""
    return f"query {query_id}, batch {context.getLocalProperty(BATCH_ID)}"

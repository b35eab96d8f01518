"""What Spark hands to a task of the source: ranges of offsets, by pickle.

Role.   `tasks_of` divides ranges among tasks as the options say; `read_task` gives the rows of one.
Flow.   driver: `batch_reader` or `stream_reader` -> `tasks_of` -> Spark. Task: Spark -> `read_task` -> `reading`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from semel.spark.options import SourceOptions
from semel.spark.ranges import OffsetRange, divided, gathered

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class RangePartition(InputPartition):
    """What one task reads."""

    ranges: tuple[OffsetRange, ...]


def tasks_of(ranges: Sequence[OffsetRange], options: SourceOptions) -> list[InputPartition]:
    """Who reads what."""
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
    from semel.spark.reading import read_ranges

    return read_ranges(partition.ranges if isinstance(partition, RangePartition) else (), options)

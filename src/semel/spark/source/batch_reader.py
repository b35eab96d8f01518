"""`spark.read.format("semel")`: everything between two ends of some partitions.

Role.   `BatchReader` plans on the driver and reads in tasks. `FilteringReader` is the same for `pushFilters`: Spark refuses sources that
        take filters unless `spark.sql.python.filterPushdown.enabled` is true, so that it is the user who asks for it.
Flow.   Spark makes it twice, on the driver and, by pickle, in every task: `partitions` -> ranges of each task -> `read`.
Rules.  The ends are settled when the read is planned: records written later are not read.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from semel.exceptions import IllegalStateException
from semel.spark.plain_errors import in_plain_words
from semel.spark.source.narrowing import Narrowing, narrowing
from semel.spark.source.options import SourceOptions
from semel.spark.source.planning import Planner
from semel.spark.source.ranges import OffsetRange, plan_read
from semel.spark.source.tasks import read_task, tasks_of
from semel.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter


class BatchReader(DataSourceReader):
    """Reads once."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    @in_plain_words
    def partitions(self) -> list[InputPartition]:
        """The tasks."""
        options, planner = self._options, Planner(self._options)
        if options.starting is None or options.ending is None:
            raise IllegalStateException("a batch has a start and an end: SourceOptions.for_batch sets them")
        there = planner.partitions()
        ranges = plan_read(
            planner.bound(options.starting, there, "starting"), planner.bound(options.ending, there, "ending")
        )
        return tasks_of(self._narrowed(ranges, planner), options)

    def _narrowed(self, ranges: tuple[OffsetRange, ...], _planner: Planner) -> tuple[OffsetRange, ...]:
        return ranges

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """The rows of a task."""
        return read_task(partition, self._options)


class FilteringReader(BatchReader):
    """Reads once, and only what filters on topic, partition, offset and timestamp can let through."""

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        self._wanted = Narrowing()

    def pushFilters(self, filters: "list[Filter]") -> "Iterable[Filter]":  # noqa: N802 - Spark's name.
        """Remember what they leave over; Spark evaluates all of them once more."""
        self._wanted = narrowing(filters)
        return filters

    def _narrowed(self, ranges: tuple[OffsetRange, ...], planner: Planner) -> tuple[OffsetRange, ...]:
        since: dict[TopicPartition, int] = {}
        if self._wanted.since_ms is not None:
            partitions = [one.where for one in ranges if self._wanted.is_wanted(one.where)]
            since = planner.since(self._wanted.since_ms, partitions)
        return self._wanted.ranges(ranges, since)

"""`spark.readStream.format("semel")`: micro-batches, each from where the last one ended to where the log ends now.

Role.   `StreamReader` tells Spark where a query starts, how far it can go, and which tasks read what lies between.
Flow.   once: `initialOffset`. Every trigger: `latestOffset` (partitions looked for anew, limits applied) -> Spark's log -> `partitions`
        -> `read` in tasks. After a crash Spark gives back the offsets of its log: the same ones give the same ranges.
Rules.  * The end of the first micro-batch carries where it began (see `offsets`): Spark asks for the initial offset again when it
          replays that batch, and "latest" would be elsewhere by then.
        * Offsets that did not change are given back as they came, so that Spark sees that there is nothing new.
        * With `Trigger.AvailableNow` the end of the log is looked at once. Limits divide the records before it into batches;
          `minOffsetsPerTrigger` does not apply, for no more records are waited for.
        * Partitions and topics that come up are read from their beginning.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from semel.errors import SemelError
from semel.exceptions import IllegalStateException
from semel.runtime.clock import RealClock
from semel.spark.plain_errors import in_plain_words
from semel.spark.source.offsets import BEGAN, as_json, began_in, from_json, is_delayed, limited
from semel.spark.source.options import SourceOptions
from semel.spark.source.planning import Planner
from semel.spark.source.ranges import between
from semel.spark.source.tasks import read_task, tasks_of
from semel.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads for as long as the query runs."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._planner = Planner(options)
        self._initial: dict[str, Any] | None = None
        self._latest: dict[TopicPartition, int] | None = None
        self._is_available_now = False
        self._target: dict[TopicPartition, int] | None = None
        self._triggered_ms = 0

    # Offsets

    @in_plain_words
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name.
        """Where a new query starts."""
        if self._initial is None:
            starting = self._options.starting
            if starting is None:
                raise IllegalStateException("a stream has a start: SourceOptions.for_stream sets it")
            there = self._planner.partitions()
            self._initial = as_json(self._planner.bound(starting, there, "starting"))
        return self._initial

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """From now on only records that are there already count."""
        self._is_available_now = True
        self._target = None

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Anything but `ReadAllAvailable` stands for all limits of the options: Spark takes only one."""
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    @in_plain_words
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Where the next micro-batch ends."""
        begins = from_json(start)
        latest = self._ends(begins)
        self._latest = latest
        ends = latest if isinstance(limit, ReadAllAvailable) else self._within_limits(begins, latest)
        if start == self._initial:
            return as_json(ends, began=begins)
        return start if ends == begins else as_json(ends)

    def _ends(self, begins: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        if not self._is_available_now:
            return self._planner.latest(begins)
        if self._target is None:
            self._target = self._planner.latest(begins)
        return self._target

    def _within_limits(
        self, begins: dict[TopicPartition, int], latest: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        minimum, maximum = self._options.min_offsets_per_trigger, self._options.max_offsets_per_trigger
        if minimum is not None and not self._is_available_now:
            now_ms = RealClock().now_ms()
            if is_delayed(
                minimum,
                begins,
                latest,
                waited_ms=now_ms - self._triggered_ms,
                max_trigger_delay_ms=self._options.max_trigger_delay_ms,
            ):
                return begins
            self._triggered_ms = now_ms
        return latest if maximum is None else limited(maximum, begins, latest, self._planner.earliest)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The end of the log as of this trigger, for the query's progress."""
        return None if self._latest is None else as_json(self._latest)

    # Reading

    @in_plain_words
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks that read between two offsets."""
        if start == end:
            return []
        began = None if BEGAN in start else began_in(end)
        begins = from_json(start) if began is None else began
        ends = from_json(end)
        new = [where for where in ends if where not in begins]
        batch = between(begins, ends, self._planner.earliest(new))
        self._planner.report(batch.losses)
        return tasks_of(batch.ranges, self._options)

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """The rows of a task."""
        return read_task(partition, self._options)


class RefusedReader(StreamReader):
    """Raises at the first question: its options cannot be."""

    def __init__(self, error: SemelError) -> None:
        self._error = error

    @in_plain_words
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name.
        """Spark's first question with `Trigger.AvailableNow`."""
        raise self._error

    @in_plain_words
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Spark's first question otherwise, if the query is new."""
        raise self._error

    @in_plain_words
    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Spark's first question otherwise."""
        raise self._error

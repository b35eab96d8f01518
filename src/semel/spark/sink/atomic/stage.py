"""The Spark job of a batch: rows to the tasks that own their partitions, and one barrier stage that writes them.

Role.   `write_batch` runs the job and gives the tasks' reports; `Driver` knows about a frame's session: its query, its slots.
Flow.   records -> the partition of each row (`routing`, as an Arrow function) -> `repartitionById` -> a barrier stage of
        `task_writer.write_rows` -> collected reports.
Rules.  * A partition belongs to one task; a task may own many. There are at most as many tasks as the cluster has slots,
          because a barrier stage starts whole or not at all.
        * The barrier stage is the last of its job: Spark gives a job up when such a stage fails, and never runs one of its
          tasks again. A retry inside an epoch would be taken for a duplicate and dropped.
        * Tasks of the stages before it may be retried and speculated as Spark likes: they write nothing.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from semel.errors import ErrorCode
from semel.spark.python_path import use_python_in
from semel.spark.query_properties import JOB_DESCRIPTION, QUERY_ID, RUN_ID
from semel.spark.sink.atomic.rows import Shape
from semel.spark.sink.atomic.task_writer import REPORT_SCHEMA, Assignment, write_rows
from semel.spark.sink.common.batch_name import BatchName
from semel.spark.sink.common.errors import AllocationRefusedError, CallRefusedError, ConnectRefusedError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DROP_IN: Final = "df.writeStream.format('semel') needs no barrier stage (exactly once, atomic per task)"
_STICKY_ROWS: Final = 8192
"""So many keyless rows of a task go to one partition before the next one's turn."""
_ROW_BITS: Final = 33  # monotonically_increasing_id keeps the number of the row in these.
_CORES_OF_A_TASK: Final = 2
_SLOTS_WAIT_S: Final = 60.0
_SLOTS_POLL_S: Final = 0.25


class Report(NamedTuple):
    """A task's report about a partition, or its failure."""

    topic: str | None
    partition: int | None
    records: int | None
    error_code: ErrorCode
    is_retriable: bool
    error: str | None
    way_out: str | None
    """Of a refusal."""


class Driver:
    """The driver's view of the frame's session."""

    def __init__(self, df: "DataFrame") -> None:
        session = df.sparkSession
        if "connect" in type(session).__module__:
            raise ConnectRefusedError(
                "this sink needs a session in the driver's own process, not Spark Connect", DROP_IN
            )
        self._context = session.sparkContext

    def query_id(self) -> str | None:
        """The streaming query's id, which its checkpoint keeps; None outside of one."""
        return self._context.getLocalProperty(QUERY_ID)

    def run_id(self) -> str | None:
        """The id of this start of the query."""
        return self._context.getLocalProperty(RUN_ID)

    @contextmanager
    def describing(self, text: str) -> Iterator[None]:
        """Have Spark's pages show jobs of this thread under `text`, above Spark's own description, which comes back."""
        own = self._context.getLocalProperty(JOB_DESCRIPTION)
        # PySpark's own method takes no null, by which Spark removes a property.
        properties = self._context._jsc
        properties.setLocalProperty(JOB_DESCRIPTION, f"{text}\n{own}" if own else text)
        try:
            yield
        finally:
            properties.setLocalProperty(JOB_DESCRIPTION, own)

    def tasks(self, batch: BatchName, partitions: int | None, tasks_max: int | None) -> int:
        """How many tasks the barrier stage has; waits for executors that are starting.

        Not more than partitions or slots. A task keeps two cores busy, the JVM's part and Python's. On two cores one task is as
        fast, and rows need not be told apart before they get to it.
        """
        if self._context.getConf().get("spark.dynamicAllocation.enabled", "false") == "true":
            raise AllocationRefusedError(
                f"{batch}: spark.dynamicAllocation.enabled=true, and Spark runs no barrier stage then, in which TopicSink writes",
                f"set it to false, or use the drop-in sink: {DROP_IN}",
            )
        deadline = time.monotonic() + _SLOTS_WAIT_S
        while (slots := self._slots()) < 1:
            if time.monotonic() >= deadline:
                raise CallRefusedError(
                    f"{batch}: no executor has a free slot after {_SLOTS_WAIT_S:.0f} s, and TopicSink writes in a barrier stage, "
                    "which starts whole or not at all",
                    f"give the application executors, or use the drop-in sink: {DROP_IN}",
                )
            time.sleep(_SLOTS_POLL_S)
        if tasks_max is None:
            tasks_max = slots if slots > _CORES_OF_A_TASK else 1
        return min(slots, tasks_max, slots if partitions is None else partitions)

    def _slots(self) -> int:
        """How many tasks can run at once: the number Spark compares a barrier stage with."""
        scala = self._context._jsc.sc()
        profile = scala.resourceProfileManager().defaultResourceProfile()
        return int(scala.maxNumConcurrentTasks(profile))


def write_batch(
    records: "DataFrame", shape: Shape, assignment: Assignment, *, partitions: int | None, tasks: int
) -> list[Report]:
    """Run the job. `partitions` of the one topic there is, or None if each row names its own."""

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return write_rows(assignment, batches)

    use_python_in(records.sparkSession.sparkContext)  # The tasks import this module.
    routed = _routed(records, shape, assignment, partitions=partitions, tasks=tasks)
    return [
        Report(
            one["topic"],
            one["partition"],
            one["records"],
            ErrorCode(one["error_code"]),
            bool(one["is_retriable"]),
            one["error"],
            one["way_out"],
        )
        for one in routed.mapInArrow(write, REPORT_SCHEMA, barrier=True).collect()
    ]


def _routed(
    records: "DataFrame", shape: Shape, assignment: Assignment, *, partitions: int | None, tasks: int
) -> "DataFrame":
    from pyspark.sql import functions as sf

    if tasks == 1:
        return records.repartitionById(1, sf.lit(0))
    if partitions is not None and not shape.has_key and not shape.has_partition:
        place = sf.monotonically_increasing_id().bitwiseAND(sf.lit((1 << _ROW_BITS) - 1))
        turn = sf.spark_partition_id() + sf.floor(place / sf.lit(_STICKY_ROWS))
        target = sf.pmod(turn, sf.lit(partitions)).cast("int")
    else:
        target = _target(shape, assignment.topic, assignment.settings, partitions)
    records = records.withColumn("partition", target)
    owner = sf.col("partition")
    if shape.has_topic:
        owner = sf.pmod(sf.crc32(sf.col("topic")) + owner, sf.lit(tasks)).cast("int")
    return records.repartitionById(tasks, owner)


def _target(shape: Shape, topic: str | None, settings: Mapping[str, Any], partitions: int | None) -> "Column":
    """The partition of each row, by the columns that decide it."""
    from pyspark.sql import functions as sf
    from pyspark.sql.pandas.functions import arrow_udf

    names = [
        name
        for name, is_there in (
            ("topic", shape.has_topic),
            ("key", shape.has_key),
            ("partition", shape.has_partition),
        )
        if is_there
    ]

    function = _target_function(names, topic, settings, partitions)
    # Spark tells the kind of function by these: an iterator of arrays, or of several at a time.
    batches = Iterator[pa.Array] if len(names) == 1 else Iterator[tuple[pa.Array, ...]]
    function.__annotations__ = {"batches": batches, "return": Iterator[pa.Array]}
    declared: Any = arrow_udf  # Its types want the kind of function said; saying it, Spark warns that types are preferred.
    column: Column = declared(function, "int")(*map(sf.col, names))
    return column


def _target_function(
    names: list[str], topic: str | None, settings: Mapping[str, Any], partitions: int | None
) -> Callable[..., Any]:
    """The function that runs in the workers; one router per task."""

    def targets(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        from semel.client.producer.encoding import Kernels
        from semel.spark.sink.atomic.partition_counts import counts_of
        from semel.spark.sink.atomic.routing import Router

        Kernels.load()
        counted = (lambda _topic: partitions) if partitions is not None else counts_of(settings)
        context = TaskContext.get()
        router = Router(counted, topic=topic, first=0 if context is None else context.partitionId())
        for columns in batches:
            given = dict(zip(names, columns if len(names) > 1 else (columns,), strict=True))
            some = next(iter(given.values()))
            found = router.targets(
                len(some),
                topics=given.get("topic"),
                keys=given.get("key"),
                partitions=given.get("partition"),
            )
            yield found

    return targets

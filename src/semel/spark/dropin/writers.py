"""What Spark calls: the writers of `writeStream.format("semel")` and `write.format("semel")`.

Role.   `StreamWriter` and `BatchWriter` hold the options and connect Spark's calls with `task` and `committing`.
Flow.   made on the driver -> pickled to the tasks, whose `write` returns a message each -> `commit` or `abort` on the driver, in a
        process of its own that may hold another copy.
Rules.  * A writer keeps nothing between calls: what `commit` needs comes with the messages.
        * A sink is named by `sinkName`, else by the query's id, which is the checkpoint's. A batch job has a name of its own.
"""

import re
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from semel.errors import InvariantError
from semel.exceptions import IllegalArgumentException
from semel.spark.dropin.batch_ledger import LedgerRow, TaskTransaction
from semel.spark.dropin.committing import Committer, OnStep, committer, finish_writes
from semel.spark.dropin.rows import check_columns
from semel.spark.dropin.sink_options import SinkOptions
from semel.spark.dropin.task import Attempt, write_rows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_QUERY_ID: Final = "sql.streaming.queryId"
_RUN_ID: Final = "spark.jobGroup.id"
"""Structured Streaming runs every job of a query in a group named after the run."""
_RUN_ID_LENGTH: Final = 12
_JOB_BATCH_ID: Final = 0
_LATE_SECONDS: Final = (1.0, 2.5)
"""Spark gives a task up before it has ended: its Python worker has two seconds to do so, and may leave a transaction open in them."""


@dataclass
class TaskMessage(WriterCommitMessage):
    """What a task tells the driver."""

    query_id: str
    written: TaskTransaction | None


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the micro-batches of a query, each once."""

    def __init__(self, options: SinkOptions, on_step: OnStep | None = None) -> None:
        self._options = options
        self._on_step = on_step

    @classmethod
    def of(cls, options: Mapping[str, str], schema: "StructType", *, overwrite: bool) -> Self:
        """A writer for these options and columns."""
        found = SinkOptions.of(options)
        check_columns(schema, found.topic)
        if overwrite:
            raise IllegalArgumentException(
                "output mode complete would write the whole result again with every batch, and a log cannot replace what it "
                "has: use outputMode('update')"
            )
        return cls(found)

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> TaskMessage:
        """In a task."""
        context = _context()
        query_id = context.getLocalProperty(_QUERY_ID)
        run_id = context.getLocalProperty(_RUN_ID)
        if query_id is None or run_id is None:
            raise InvariantError(f"Spark gave a task of a stream no {_QUERY_ID} or {_RUN_ID}")
        attempt = _attempt(context, self._options.sink_name or query_id, run_id)
        return TaskMessage(query_id, write_rows(self._options, attempt, iterator, may_be_two_phase=True))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name.
        """On the driver, when all tasks have written."""
        query_id, tasks = _told(messages)
        if query_id is not None:
            with self._committer(query_id) as committing:
                committing.commit_batch(LedgerRow(query_id, batchId, tasks))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """On the driver, when a task has failed for good, or `commit` has."""
        query_id, tasks = _told(messages)
        if query_id is not None:
            with self._committer(query_id) as committing:
                committing.abort_batch(tasks)

    def _committer(self, query_id: str) -> AbstractContextManager[Committer]:
        name = self._options.sink_name or query_id
        return committer(self._options, name, is_write=False, on_step=self._on_step)


class BatchWriter(DataSourceArrowWriter):
    """Writes one data frame: all of it is seen, or nothing."""

    def __init__(self, options: SinkOptions, on_step: OnStep | None = None) -> None:
        self._options = options
        self._on_step = on_step
        self._job = uuid.uuid4().hex

    @classmethod
    def of(cls, options: Mapping[str, str], schema: "StructType", *, overwrite: bool) -> Self:
        """A writer for these options and columns."""
        found = SinkOptions.of(options)
        check_columns(schema, found.topic)
        if overwrite:
            raise IllegalArgumentException(
                "mode('overwrite') cannot replace what a topic has: use mode('append'), and delete records with 'semel topics'"
            )
        return cls(found)

    @property
    def _name(self) -> str:
        return self._options.sink_name or self._job

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> TaskMessage:
        """In a task."""
        attempt = _attempt(_context(), self._name, self._job)
        # A name that is used once has nobody who would find what a dead driver left: it must time out.
        lasts = self._options.sink_name is not None
        return TaskMessage(self._job, write_rows(self._options, attempt, iterator, may_be_two_phase=lasts))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """On the driver, when all tasks have written."""
        _query_id, tasks = _told(messages)
        finish_writes(self._options, but=self._name)
        with self._committer() as committing:
            committing.commit_batch(LedgerRow(self._job, _JOB_BATCH_ID, tasks))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """On the driver, when a task has failed for good, or `commit` has."""
        _query_id, tasks = _told(messages)
        with self._committer() as committing:
            committing.abort_batch(tasks)
            for seconds in _LATE_SECONDS:  # No later batch would find what a task left meanwhile.
                time.sleep(seconds)
                committing.abort_batch(tasks)

    def _committer(self) -> AbstractContextManager[Committer]:
        return committer(self._options, self._name, is_write=True, on_step=self._on_step)


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise InvariantError("rows are written by a task of Spark, and this is none")
    return context


def _attempt(context: TaskContext, name: str, run_id: str) -> Attempt:
    run = re.sub(r"[^A-Za-z0-9]", "", run_id)[:_RUN_ID_LENGTH]
    return Attempt(name, run, context.partitionId(), context.attemptNumber(), context.taskAttemptId())


def _told(
    messages: Sequence[WriterCommitMessage | None],
) -> tuple[str | None, tuple[TaskTransaction, ...]]:
    """The query, as far as any task told, and what the tasks wrote."""
    told = [one for one in messages if isinstance(one, TaskMessage)]
    written = sorted(one.written for one in told if one.written is not None)
    return (told[0].query_id if told else None), tuple(written)

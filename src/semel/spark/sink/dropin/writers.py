"""The classes Spark calls: the writers of `writeStream.format("semel")` and `write.format("semel")`.

Role.   `StreamWriter` and `BatchWriter` hold the options and connect Spark's calls with `task` and `committing`.
Flow.   made on the driver -> pickled to the tasks, whose `write` returns a message each -> `commit` or `abort` on the driver, in a
        process of its own that may hold another copy.
Rules.  * A writer keeps nothing between calls: the messages bring everything `commit` needs.
        * An abort that fails is logged and not raised: Spark would show it instead of the error that made it give the batch up.
        * A sink is named by `sinkName`, else by the query's id, which is the checkpoint's. A batch job has a name of its own.
"""

import logging
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from semel.errors import InvariantError, SemelError
from semel.spark.plain_errors import begin_with, in_plain_words, is_for_users
from semel.spark.query_properties import BATCH_ID, QUERY_ID, RUN_ID
from semel.spark.sink.common.batch_name import BatchName, target_of
from semel.spark.sink.common.errors import ModeRefusedError
from semel.spark.sink.common.rows import check_columns
from semel.spark.sink.dropin.batch_ledger import LedgerRow, Place, TaskTransaction
from semel.spark.sink.dropin.columns import RULES
from semel.spark.sink.dropin.committing import Committer, OnStep, committer, finish_writes
from semel.spark.sink.dropin.sink_options import SinkOptions
from semel.spark.sink.dropin.task import Attempt, write_rows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_logger = logging.getLogger(__name__)

RUN_ID_LENGTH: Final = 12
_JOB_BATCH_ID: Final = 0


@dataclass
class TaskMessage(WriterCommitMessage):
    """A task's report to the driver."""

    query_id: str
    run_id: str
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
        check_columns(schema, found.topic, RULES, where=found.subject)
        if overwrite:
            raise ModeRefusedError(
                "output mode complete would write the whole result again with every batch, and a log cannot replace its records",
                "use outputMode('update')",
            )
        return cls(found)

    @in_plain_words
    def write(self, iterator: "Iterator[pa.RecordBatch]") -> TaskMessage:
        """In a task."""
        context = _context()
        query_id, run_id, batch_id = map(context.getLocalProperty, (QUERY_ID, RUN_ID, BATCH_ID))
        if query_id is None or run_id is None or batch_id is None:
            raise InvariantError(f"Spark gave a task of a stream no {QUERY_ID}, {RUN_ID} or {BATCH_ID}")
        place = Place(query_id, _short(run_id), int(batch_id))
        attempt = _attempt(context, self._options.sink_name or query_id, place)
        subject = BatchName(attempt.name, query_id, place.batch_id, self._options.topic)
        return _written_by(attempt, self._options, iterator, may_be_two_phase=True, subject=str(subject))

    @in_plain_words
    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name.
        """On the driver, when all tasks have written."""
        if (told := _told(messages)) is not None:
            with self._committer(told.query_id) as committing:
                committing.commit_batch(LedgerRow(told.query_id, batchId, _written(messages), told.run_id))

    @in_plain_words
    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """On the driver, when a task has failed for good, or `commit` has."""
        if (told := _told(messages)) is not None:
            name = self._options.sink_name or told.query_id
            with _giving_up(name), self._committer(told.query_id) as committing:
                committing.abort_batch(_written(messages), told.run_id)

    def _committer(self, query_id: str) -> AbstractContextManager[Committer]:
        name = self._options.sink_name or query_id
        return committer(self._options, name, is_write=False, on_step=self._on_step)


class BatchWriter(DataSourceArrowWriter):
    """Writes one data frame: all rows are seen, or none."""

    def __init__(self, options: SinkOptions, on_step: OnStep | None = None) -> None:
        self._options = options
        self._on_step = on_step
        self._job = uuid.uuid4().hex

    @classmethod
    def of(cls, options: Mapping[str, str], schema: "StructType", *, overwrite: bool) -> Self:
        """A writer for these options and columns."""
        found = SinkOptions.of(options)
        check_columns(schema, found.topic, RULES, where=found.subject)
        if overwrite:
            raise ModeRefusedError(
                "mode('overwrite') cannot replace what a topic has",
                "use mode('append'), and delete records with 'semel topics'",
            )
        return cls(found)

    @property
    def _name(self) -> str:
        return self._options.sink_name or self._job

    @in_plain_words
    def write(self, iterator: "Iterator[pa.RecordBatch]") -> TaskMessage:
        """In a task."""
        attempt = _attempt(_context(), self._name, Place(self._job, _short(self._job), _JOB_BATCH_ID))
        # No later job looks for transactions under a name that is used once: a dead driver's must time out.
        lasts = self._options.sink_name is not None
        return _written_by(
            attempt,
            self._options,
            iterator,
            may_be_two_phase=lasts,
            subject=f"batch write, {target_of(self._options.topic)}",
        )

    @in_plain_words
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """On the driver, when all tasks have written."""
        finish_writes(self._options, but=self._name)
        with self._committer() as committing:
            row = LedgerRow(self._job, _JOB_BATCH_ID, _written(messages), _short(self._job))
            committing.commit_batch(row)

    @in_plain_words
    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """On the driver, when a task has failed for good, or `commit` has."""
        with _giving_up(self._name), self._committer(is_first=_told(messages) is None) as committing:
            committing.abort_batch(_written(messages), _short(self._job))

    def _committer(self, *, is_first: bool = False) -> AbstractContextManager[Committer]:
        return committer(self._options, self._name, is_write=True, is_first=is_first, on_step=self._on_step)


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise InvariantError("rows are written by a task of Spark, and this is none")
    return context


def _attempt(context: TaskContext, name: str, place: Place) -> Attempt:
    return Attempt(name, place, context.partitionId(), context.attemptNumber(), context.taskAttemptId())


def _short(run_id: str) -> str:
    """As much of a run's id as tells it from the sink's other runs."""
    return re.sub(r"[^A-Za-z0-9]", "", run_id)[:RUN_ID_LENGTH]


def _written_by(
    attempt: Attempt,
    options: SinkOptions,
    rows: "Iterator[pa.RecordBatch]",
    *,
    may_be_two_phase: bool,
    subject: str,
) -> TaskMessage:
    try:
        written = write_rows(options, attempt, rows, may_be_two_phase=may_be_two_phase)
    except SemelError as error:
        begin_with(error, subject)
        raise
    return TaskMessage(attempt.place.query_id, attempt.place.run_id, written)


@contextmanager
def _giving_up(name: str) -> Iterator[None]:
    """Spark shows an abort that fails instead of the error before it, which is why the batch is given up."""
    try:
        yield
    except SemelError as error:
        if not is_for_users(error):
            raise
        _logger.warning(
            "sink %s: attempts of a batch that Spark gives up may be open until the next batch, or until they time out: %s",
            name,
            error,
        )


def _told(messages: Sequence[WriterCommitMessage | None]) -> TaskMessage | None:
    """The report of any task."""
    return next((one for one in messages if isinstance(one, TaskMessage)), None)


def _written(messages: Sequence[WriterCommitMessage | None]) -> tuple[TaskTransaction, ...]:
    """The tasks' transactions."""
    written = [one.written for one in messages if isinstance(one, TaskMessage)]
    return tuple(sorted(one for one in written if one is not None))

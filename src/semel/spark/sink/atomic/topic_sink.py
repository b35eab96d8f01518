"""The sink a user sees: `df.writeStream.foreachBatch(TopicSink("orders", bootstrap=...))`.

Role.   Every micro-batch is one transaction: all its rows, in all topics and partitions, are seen together and once, or never.
Flow.   Spark calls the sink with a frame and a batch's number. The ledger says whether the batch is owed (`batch_ledger`); a
        barrier stage writes it (`stage`) under an identity the driver took (`shared_transaction`); number and rows are
        committed together.
Rules.  * A batch that failed on the way is aborted, and written again under another epoch, `attempts_max` times in all.
          A failure that would come again is raised at once: rows that cannot be written, a sink that belongs to another query.
        * A batch that is stored already is evaluated and thrown away: a query with state needs it to go on.
        * A commit without an answer is settled by asking: the ledger has the batch, or it has not. A refused commit is aborted.
        * Nothing is refused because of an entry that a commit is about to replace.
        * The last driver to take the sink's transactional id wins: this one stops with an error, and writes nothing more.
        * The ledger is read again only where somebody else may have written it: at the start, and after a failure.
        * Spark's pages show the sink, the topic and the batch; errors begin with the same, and without Spark's frames.
        * One batch at a time; the object may be used by one query, restarted as often as one likes.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from semel.client.config_keys import Given
from semel.client.settings import ProducerConfig
from semel.core.idempotence.delivery import NO_IDENTITY, Identity
from semel.errors import InvariantError, SemelError
from semel.exceptions import (
    ConfigException,
    KafkaException,
    ProducerFencedException,
    TimeoutException,
    as_exception,
    exception_for,
)
from semel.runtime.closing import Closing
from semel.spark.plain_errors import in_foreach_batch
from semel.spark.sink.atomic import rows as frames
from semel.spark.sink.atomic.shared_transaction import (
    FENCED,
    SharedTransactions,
    Step,
    Stopwatch,
)
from semel.spark.sink.atomic.stage import DROP_IN, Driver, Report, write_batch
from semel.spark.sink.atomic.task_writer import Assignment
from semel.spark.sink.common.batch_ledger import ATOMIC, Entry, Refuse, Skip, Write, owed
from semel.spark.sink.common.batch_name import BatchName, target_of
from semel.spark.sink.common.errors import (
    CallRefusedError,
    ColumnsRefusedError,
    SinkRefusedError,
    SinkStaysError,
)
from semel.spark.sink.common.names import ATOMIC_LEDGER_TOPIC, atomic_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

logger = logging.getLogger(__name__)

StepListener: TypeAlias = Callable[[str, int], object]
"""Called with a step's name and the batch's number, on the driver, after each step."""

TRANSACTION_TIMEOUT_MS: Final = 300_000
"""Longer than a producer's, because it spans the writing of a whole micro-batch; well below the broker's default maximum."""
ATTEMPTS_MAX: Final = 3
_OURS: Final = (
    "transactional.id",
    "enable.idempotence",
    "acks",
    "partitioner.class",
    "key.serializer",
    "value.serializer",
)
_BARRIER_FAILED: Final = ("Could not recover from a failed barrier ResultStage",)
_BARRIER_REFUSED: Final = ("SPARK-24819",)


class Written(NamedTuple):
    """A batch that this sink has stored, or found stored."""

    batch_id: int
    query_id: str
    records: Mapping[tuple[str, int], int]
    """By topic and partition; empty for a batch that was stored before."""
    skipped: bool
    attempts: int

    @property
    def rows(self) -> int:
        """All of them."""
        return sum(self.records.values())


class TopicSink(Closing):
    """Writes micro-batches to topics, each exactly once and all of it at once.

    `topic`: where all rows go; without it the frame's column `topic` says so. `name`: the sink's own, under which it remembers
    what it has stored; by default that of the topic. `continues`: permission to go on after another query (its id) or without
    any memory ("none"), as an error told. Other settings are a producer's: `compression_type`, `transaction_timeout_ms`, ….
    """

    def __init__(
        self,
        topic: str | None = None,
        *,
        bootstrap: str | None = None,
        name: str | None = None,
        continues: str | None = None,
        tasks_max: int | None = None,
        attempts_max: int = ATTEMPTS_MAX,
        value_format: str = "json",
        ledger_topic: str = ATOMIC_LEDGER_TOPIC,
        on_step: StepListener | None = None,
        settings: Mapping[str, Given] | None = None,
        **keywords: Given,
    ) -> None:
        if name is None and topic is None:
            raise ConfigException("a sink without a topic of its own needs a name: TopicSink(name=...)")
        if tasks_max is not None and tasks_max < 1:
            raise ConfigException(f"tasks_max={tasks_max}: a batch is written by at least one task")
        if attempts_max < 1:
            raise ConfigException(f"attempts_max={attempts_max}: a batch is tried at least once")
        frames.check_format(value_format)
        self.topic = topic
        self.name = name if name is not None else str(topic)
        self.last: Written | None = None
        """The outcome of the last batch."""
        self._settings = _producer_settings(settings or {}, keywords, bootstrap, self.transactional_id)
        self._config = ProducerConfig.of(self._settings)
        self._continues = continues
        self._tasks_max = tasks_max
        self._attempts_max = attempts_max
        self._value_format = value_format
        self._ledger_topic = ledger_topic
        self._on_step = on_step
        self._transactions: SharedTransactions | None = None
        self._lock = threading.Lock()
        self._done: tuple[str | None, int] | None = None
        """The run and the batch that came last, if it went well."""

    @property
    def transactional_id(self) -> str:
        """Under which the sink writes; also the group whose offset is the last batch's number."""
        return atomic_id(self.name)

    @in_foreach_batch
    def __call__(self, df: "DataFrame", batch_id: int) -> None:
        """Write one micro-batch; for `foreachBatch`."""
        driver = Driver(df)
        query_id = driver.query_id()
        if query_id is None:
            raise CallRefusedError(
                f"sink {self.name}: TopicSink writes the micro-batches of a streaming query, in foreachBatch",
                "write a frame that is not streaming with df.write.format('semel')",
            )
        batch = BatchName(self.name, query_id, batch_id, self.topic)
        shape = frames.shape_of(df.schema, self.topic, where=str(batch))
        with self._lock:
            run_id = driver.run_id()
            self._begin(run_id, batch)
            records = frames.records_of(df, shape, self._value_format)
            stored = self._stored(driver, records, shape, batch)
            if stored.skipped:
                # Spark's state stores want the batch: an unevaluated batch would be missing in them.
                with driver.describing(
                    f"{self._title(batch)}: stored already, evaluated for the query's state"
                ):
                    records.write.format("noop").mode("overwrite").save()
            self.last, self._done = stored, (run_id, batch_id)

    def close(self) -> None:
        """End the sink's connections; the next batch opens new ones."""
        with self._lock:
            transactions, self._transactions = self._transactions, None
        if transactions is not None:
            transactions.close()

    def _begin(self, run_id: str | None, batch: BatchName) -> None:
        """Forget what may have changed since the last batch; refuse a second frame of the same batch."""
        done, self._done = self._done, None
        if done is None or run_id is None or done[0] != run_id:
            # A new start, or a batch that failed on the way: others may have had the sink, or this one stored more than it knows.
            if self._transactions is not None:
                self._transactions.identity = NO_IDENTITY
        elif done[1] == batch.batch_id:
            # Within one run Spark gives each batch once.
            self._done = done
            raise CallRefusedError(
                f"{batch}: the sink was called twice for batch {batch.batch_id}, and the second rows would be taken for a repetition of "
                "the first",
                "write their union, or give each frame a sink with a name of its own",
            )

    def _title(self, batch: BatchName) -> str:
        return f"TopicSink {self.name}: batch {batch.batch_id} to {target_of(self.topic)}"

    def _description(self, batch: BatchName, attempt: int) -> str:
        """Of the batch's jobs. Rows are counted while they are written, so only those of the batch before can be told."""
        title = self._title(batch)
        if attempt > 1:
            title += f", attempt {attempt}"
        before = self.last
        if before is None or before.skipped or before.query_id != batch.query_id:
            return title
        return f"{title}; batch {before.batch_id} had {before.rows} rows"

    # A batch

    def _stored(self, driver: Driver, records: "DataFrame", shape: frames.Shape, batch: BatchName) -> Written:
        if self._transactions is None:
            self._transactions = SharedTransactions(
                self._config, transactional_id=self.transactional_id, ledger_topic=self._ledger_topic
            )
        shared = self._transactions
        shared.subject = str(batch)
        self._step(Step.BEGUN, batch)
        attempt = 0
        while True:
            attempt += 1
            identity = self._identified(shared, batch)
            if identity is None:
                return Written(batch.batch_id, batch.query_id, {}, True, attempt)
            try:
                with driver.describing(self._description(batch, attempt)):
                    counts = self._written(driver, shared, identity, records, shape, batch)
                return Written(batch.batch_id, batch.query_id, counts, False, attempt)
            except _RepeatError as failure:
                reason = failure.reason
                if attempt >= self._attempts_max:
                    raise reason from reason.__cause__
                logger.warning(
                    "%s: attempt %d of %d failed, the batch is written again: %s",
                    batch,
                    attempt,
                    self._attempts_max,
                    reason,
                )

    def _identified(self, shared: SharedTransactions, batch: BatchName) -> Identity | None:
        """The identity to write under; None if the batch is stored already."""
        is_known = shared.identity != NO_IDENTITY
        if not is_known:
            shared.make_ledger(is_first=batch.batch_id == 0)
            if not self._owes_at_first_sight(shared, batch):
                return None
            self._step(Step.LEDGER_READ, batch)
        try:
            identity = shared.identify()
        except KafkaException as error:
            if error.code not in FENCED:
                raise
            raise self._fenced(shared, error, batch, None) from error
        self._step(Step.IDENTIFIED, batch)
        if not is_known:
            if not self._owes(shared.ledger(settled=True), batch, is_final=True):
                return None
            self._step(Step.LEDGER_SETTLED, batch)
        return identity

    def _owes_at_first_sight(self, shared: SharedTransactions, batch: BatchName) -> bool:
        """As far as one can tell before anybody is fenced: a second query must not disturb the first."""
        try:
            return self._owes(shared.ledger(settled=False), batch, is_final=False)
        except SinkRefusedError as refusal:
            # A commit is answered before its marker is written: an entry in the way may be out of date.
            try:
                stored = shared.ledger(settled=True)
            except SemelError as error:
                refusal.add_note(f"and a transaction that may change this is still open: {error}")
                raise refusal from None
            return self._owes(stored, batch, is_final=False)

    def _owes(self, stored: Entry | None, batch: BatchName, *, is_final: bool) -> bool:
        match owed(stored, batch.entry, kind=ATOMIC, continues=self._continues):
            case Refuse(reason, way_out):
                raise SinkRefusedError(f"{batch}: {reason}", way_out)
            case Skip():
                logger.info("%s: the batch is stored already, and is skipped", batch)
                return False
            case Write(missed):
                if missed and is_final:
                    logger.warning("%s: the sink did not get the %d batches before", batch, missed)
                return True

    def _written(
        self,
        driver: Driver,
        shared: SharedTransactions,
        identity: Identity,
        records: "DataFrame",
        shape: frames.Shape,
        batch: BatchName,
    ) -> dict[tuple[str, int], int]:
        open_since = Stopwatch()
        partitions = None if self.topic is None else shared.partitions_of(self.topic)
        tasks = driver.tasks(batch, partitions, self._tasks_max)
        assignment = Assignment(self._settings, *identity, self.topic)
        try:
            reports = write_batch(records, shape, assignment, partitions=partitions, tasks=tasks)
        except Exception as error:
            raise self._after_job(shared, error, batch, tasks) from error
        self._check(shared, reports, batch, open_since)
        self._step(Step.WRITTEN, batch)
        try:
            shared.commit(batch.entry, lambda step: self._step(step, batch))
        except SemelError as error:
            raise self._after_commit(shared, as_exception(error), batch, open_since) from error
        return {
            (one.topic, one.partition): one.records
            for one in reports
            if one.topic is not None and one.partition is not None and one.records is not None
        }

    # Failures

    def _check(
        self, shared: SharedTransactions, reports: Sequence[Report], batch: BatchName, open_since: Stopwatch
    ) -> None:
        """Raise the failure that kept a task from storing its rows."""
        failed = [one for one in reports if one.error is not None]
        if not failed:
            self._check_writers(shared, reports, batch)
            return
        worst = next((one for one in failed if not one.is_retriable), failed[0])
        error = (
            ColumnsRefusedError(f"{batch}: {worst.error}", worst.way_out)
            if worst.way_out is not None
            else exception_for(worst.error_code, f"{batch}: {worst.error}")
        )
        if worst.error_code in FENCED:
            raise self._fenced(shared, error, batch, open_since)
        self._abort(shared, error)
        raise _RepeatError(error) if worst.is_retriable else error

    def _check_writers(self, shared: SharedTransactions, reports: Sequence[Report], batch: BatchName) -> None:
        """A partition that two tasks wrote to may lack rows: the second's sequences look like the first's."""
        writers = Counter((one.topic, one.partition) for one in reports)
        twice = [f"{topic}-{partition}" for (topic, partition), count in writers.items() if count > 1]
        if twice:
            error = InvariantError(f"{batch}: {', '.join(twice)} had more than one writer")
            self._abort(shared, error)
            raise error

    def _after_job(
        self, shared: SharedTransactions, error: Exception, batch: BatchName, tasks: int
    ) -> Exception:
        """The error of a failed job: a lost task or executor is worth another attempt, the user's own error is not."""
        self._abort(shared, error)
        text = str(error)
        if any(one in text for one in _BARRIER_FAILED):
            lost = KafkaException(f"{batch}: a task was lost while it wrote: {text[:_TEXT_MAX]}")
            lost.__cause__ = error
            return _RepeatError(lost)
        if any(one in text for one in _BARRIER_REFUSED):
            return CallRefusedError(
                f"{batch}: the barrier stage needs {tasks} slots at once, and Spark has fewer now",
                f"give the application more cores, set tasks_max lower, or use the drop-in sink: {DROP_IN}. Spark says: "
                f"{text[:_TEXT_MAX]}",
            )
        return error

    def _after_commit(
        self, shared: SharedTransactions, error: KafkaException, batch: BatchName, open_since: Stopwatch
    ) -> Exception:
        """The error of a failed commit. The ledger says whether the batch is stored."""
        if error.code in FENCED:
            return self._fenced(shared, error, batch, open_since)
        if isinstance(error, TimeoutException) or error.code.retriable:
            shared.identity = NO_IDENTITY
            return _RepeatError(error)
        self._abort(shared, error)  # Or readers of committed records would wait for the end of its time.
        return error

    def _fenced(
        self,
        shared: SharedTransactions,
        error: KafkaException,
        batch: BatchName,
        open_since: Stopwatch | None,
    ) -> KafkaException:
        """Somebody else has the transactional id now, or the transaction took too long: clock and coordinator tell which."""
        timeout_ms = self._config.transaction_timeout_ms
        is_late = open_since is not None and open_since.elapsed_ms >= timeout_ms
        timed_out = is_late and not shared.is_taken_over()
        shared.identity = NO_IDENTITY
        if timed_out:
            return TimeoutException(
                f"{batch}: the broker aborted the transaction, because it was open for more than transaction.timeout.ms={timeout_ms}: "
                "raise it (TopicSink(..., transaction_timeout_ms=...), at most transaction.max.timeout.ms of the brokers) or make "
                f"batches smaller (maxOffsetsPerTrigger). Nothing of the batch is seen. ({error})",
                code=error.code,
            )
        return ProducerFencedException(
            f"{batch}: another driver has taken the sink over since (transactional.id {self.transactional_id}), this one must stop. "
            "The other driver has stored the batch, or will. If both are meant to run, give each query's sink a name of its own. "
            f"({error})",
            code=error.code,
        )

    def _abort(self, shared: SharedTransactions, error: Exception) -> None:
        """Abort without hiding why."""
        try:
            shared.abort()
        except SemelError as second:
            shared.identity = NO_IDENTITY
            error.add_note(f"and its transaction could not be aborted: {second}")

    def _step(self, step: Step, batch: BatchName) -> None:
        if self._on_step is not None:
            self._on_step(step.value, batch.batch_id)

    def __getstate__(self) -> dict[str, Any]:
        raise SinkStaysError(
            f"sink {self.name}: a TopicSink stays in the driver's own process and cannot be sent elsewhere",
            "give it to foreachBatch itself, not to a function that runs in workers. Spark Connect runs foreachBatch on its server, "
            f"where no TopicSink can be: there, {DROP_IN}",
        )


class _RepeatError(Exception):
    """The batch is worth another attempt."""

    def __init__(self, reason: KafkaException) -> None:
        super().__init__(str(reason))
        self.reason = reason


_TEXT_MAX: Final = 2000


def _producer_settings(
    settings: Mapping[str, Given], keywords: Mapping[str, Given], bootstrap: str | None, transactional_id: str
) -> dict[str, Any]:
    """The settings of the tasks' producers, under dotted names."""
    given: dict[str, Any] = {}
    for name, value in {**settings, **keywords}.items():
        dotted = name.removeprefix("kafka.").replace("_", ".")
        if dotted in _OURS:
            raise ConfigException(f"{name}={value}: the sink decides this itself, leave it out")
        given[dotted] = value
    if bootstrap is not None:
        given["bootstrap.servers"] = bootstrap
    given.setdefault("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS)
    given["transactional.id"] = transactional_id
    return given

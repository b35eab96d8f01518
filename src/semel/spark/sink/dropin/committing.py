"""The driver's part of a batch: decide once, then end the transactions that tasks left open. Read this first.

Role.   `commit_batch` when all tasks have written, `abort_batch` when Spark gives a batch up.
Flow.   Each task wrote in a transaction of its own and left it open (`task`). Then, step by step:

            TAKEN     the ledger is ours: a driver that was replaced can decide nothing any more; its row is read
            CHECKED   every transaction is still open, so that the batch can be decided
            RECORDED  the row is durable: from here on the batch counts, whatever dies
            ENDED     every transaction of the row is committed: readers see the batch
            SWEPT     other open transactions of the sink (attempts that failed or came second) are aborted; an attempt
                      that Spark has given up and that has written nothing yet never will

Rules.  * Killed before RECORDED, nothing is seen, and the batch is written again. Killed after it, the next driver finds the row and
          ends what it names: `common.batch_ledger` and `batch_ledger` have the rules.
        * Once recording has begun nothing of the batch is aborted, not even by `abort_batch`, unless the ledger, taken again, says
          that it does not count.
        * A failure after ENDED is logged and not raised: a job that fails is run again, and its rows are there already.
        * Transactions that another job or query decided are ended as well. A failure is logged, and the row stays until the end is certain.
        * The row closes the batch for the run that wrote it. A job, and a batch that is given up, close the whole run instead: there
          is no other batch in it. Both come before the sweep (`settling` says why).
        * Between RECORDED and ENDED readers may see some tasks' rows and not yet others': atomic per task, not per batch.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum
from typing import Final, Protocol, TypeAlias

from semel.errors import SemelError
from semel.exceptions import KafkaException
from semel.spark.sink.common.batch_ledger import DROP_IN, Refuse, Skip, Write, owed
from semel.spark.sink.common.batch_name import BatchName
from semel.spark.sink.common.errors import SinkIncompleteError, SinkRefusedError
from semel.spark.sink.dropin.batch_ledger import (
    Described,
    LedgerRow,
    Standing,
    TaskTransaction,
    amended,
    check_tasks,
    lost_tasks,
    unknown_tasks,
    with_starts,
)
from semel.spark.sink.dropin.settling import BrokerTransactions
from semel.spark.sink.dropin.sink_ledger import SinkLedger, unfinished_writes
from semel.spark.sink.dropin.sink_options import SinkOptions

logger: Final = logging.getLogger(__name__)

_SHOWN_MAX: Final = 5


class Step(Enum):
    """The steps of a commit; see above."""

    TAKEN = "taken"
    CHECKED = "checked"
    RECORDED = "recorded"
    ENDED = "ended"
    SWEPT = "swept"


OnStep: TypeAlias = Callable[[Step], object]


class Ledger(Protocol):
    """Where the row of a sink is; `sink_ledger` has the real one."""

    def look(self) -> LedgerRow | None: ...
    def take(self) -> LedgerRow | None: ...
    def put(self, row: LedgerRow | None) -> None: ...


class Transactions(Protocol):
    """The transactions of tasks; `settling` has the real ones."""

    def describe(self, tasks: Sequence[TaskTransaction]) -> Mapping[str, Described]: ...
    def commit(self, tasks: Sequence[TaskTransaction]) -> Mapping[int, Standing]: ...
    def abort(self, tasks: Sequence[TaskTransaction]) -> None: ...
    def end_run(self, name: str, run_id: str) -> None: ...
    def sweep(self, name: str, run_id: str, keep: Collection[TaskTransaction]) -> int: ...


class Committer:
    """Commits and aborts the batches of one sink, or the one batch of a job."""

    def __init__(
        self,
        name: str,
        ledger: Ledger,
        transactions: Transactions,
        *,
        topic: str | None = None,
        is_write: bool = False,
        continues: str | None = None,
        on_step: OnStep | None = None,
    ) -> None:
        self._name = name
        self._topic = topic
        self._ledger = ledger
        self._transactions = transactions
        self._is_write = is_write
        self._continues = continues
        self._on_step = on_step

    def commit_batch(self, now: LedgerRow) -> None:
        """Have exactly the transactions of this batch count, or those that counted for it before."""
        check_tasks(now.tasks)
        if now.tasks or self._counts_already(now):
            row = self._ledger.take()
            self._reached(Step.TAKEN)
            if self._is_write:
                self._transactions.end_run(self._name, now.run_id)
            # A job never goes on with another's batch, it only has the same name.
            continues = row.query_id if self._is_write and row is not None else self._continues
            entry = None if row is None else row.entry
            match owed(entry, now.entry, kind=DROP_IN, continues=continues):
                case Refuse(reason, way_out):
                    self._transactions.abort(now.tasks)
                    raise SinkRefusedError(f"{self._batch(now)}: {reason}", way_out)
                case Skip():
                    assert row is not None, "only a row's own batch is skipped"
                    self._resume(row, now)
                case Write():
                    if row is not None and row.query_id != now.query_id:
                        # The driver before may have decided and died.
                        self._say_what_is_missing(row, self._transactions.commit(row.tasks))
                    self._begin(now)
            if self._is_write:
                self._forget()
        self._sweep(now)
        self._reached(Step.SWEPT)

    def _sweep(self, now: LedgerRow) -> None:
        """Abort attempts that do not count. Where that fails the batch counts all the same, and must not be written again."""
        try:
            swept = self._transactions.sweep(self._name, now.run_id, now.tasks)
        except SemelError as error:
            logger.warning(
                "%s: the batch counts, but attempts that do not may be open until the next batch, or until they time out: %s",
                self._batch(now),
                error,
            )
            return
        if swept:
            logger.info("%s: %d attempts that do not count were aborted", self._batch(now), swept)

    def _counts_already(self, now: LedgerRow) -> bool:
        """Whether a batch that has no rows this time had some before: then those are to be ended."""
        row = self._ledger.look()
        return row is not None and row.entry == now.entry

    def _forget(self) -> None:
        """Remove the row of a job that is done. Another job may have found it and finished it at the same time: so much the better."""
        try:
            self._ledger.put(None)
        except KafkaException as error:
            logger.info("write %s is done; its row is left to others to remove: %s", self._name, error)

    def abort_batch(self, tasks: Sequence[TaskTransaction], run_id: str) -> None:
        """Abort these, unless the batch counts already: Spark calls this after a commit that failed half-way, too."""
        row = self._ledger.take()
        counted = () if row is None else row.tasks
        identities = {one.identity for one in counted}
        if row is not None and identities & {one.identity for one in tasks}:
            logger.warning(
                "%s: Spark gives the batch up, but it was decided; it is completed", self._batch(row)
            )
            if set(self._transactions.commit(counted).values()) == {Standing.COMMITTED} and self._is_write:
                self._forget()
        self._transactions.abort([one for one in tasks if one.identity not in identities])
        self._transactions.end_run(self._name, run_id)
        self._transactions.sweep(self._name, run_id, counted)

    def finish(self) -> None:
        """End the transactions a job decided whose driver then died. Its row stays while it is unknown whether all are committed."""
        row = self._ledger.take()
        if row is None:
            return
        standings = self._transactions.commit(row.tasks)
        self._say_what_is_missing(row, standings)
        if not unknown_tasks(standings):
            self._forget()

    def _say_what_is_missing(self, row: LedgerRow, standings: Mapping[int, Standing]) -> None:
        """Log transactions of another driver that are lost or unknown: this driver cannot write their rows again."""
        if lost := lost_tasks(standings):
            logger.error(
                "%s: the batch, whose driver died, cannot be completed: the transactions of its tasks %s timed out before "
                "anybody came. The rows of its other tasks are in the topic",
                self._batch(row),
                _shown(sorted(lost)),
            )
        if unknown := unknown_tasks(standings):
            logger.error(
                "%s: whether the batch, whose driver died, is complete cannot be told from what the coordinators of its "
                "tasks %s know. Compare the topic with the rows of the batch. Each batch write that follows looks again, until one "
                "with option('sinkName', '%s') takes its place",
                self._batch(row),
                _shown(unknown),
                self._name,
            )

    def _begin(self, now: LedgerRow) -> None:
        row = self._opened(now)
        self._reached(Step.CHECKED)
        self._ledger.put(row)
        self._reached(Step.RECORDED)
        self._check(row, self._transactions.commit(row.tasks))
        self._reached(Step.ENDED)

    def _resume(self, row: LedgerRow, now: LedgerRow) -> None:
        standings = self._transactions.commit(row.tasks)
        lost = lost_tasks(standings)
        self._check(row, {task: one for task, one in standings.items() if task not in lost})
        added: tuple[TaskTransaction, ...] = ()
        if lost:
            amendment = amended(row, lost, self._opened(now))
            if isinstance(amendment, Refuse):
                self._transactions.abort(now.tasks)
                raise SinkRefusedError(f"{self._batch(row)}: {amendment.reason}", amendment.way_out)
            added = amendment.added
            self._reached(Step.CHECKED)
            self._ledger.put(amendment.row)
            self._reached(Step.RECORDED)
            self._check(amendment.row, self._transactions.commit(added))
        else:
            self._ledger.put(replace(row, run_id=now.run_id))  # Closed for this run, too.
        self._reached(Step.ENDED)
        counted = {one.identity for one in (*row.tasks, *added)}
        self._transactions.abort([one for one in now.tasks if one.identity not in counted])

    def _check(self, row: LedgerRow, standings: Mapping[int, Standing]) -> None:
        """Raise unless all of it is committed."""
        if unknown := unknown_tasks(standings):
            raise SinkIncompleteError(
                f"{self._batch(row)}: whether the transactions of tasks {_shown(unknown)} are committed "
                "cannot be told from what their coordinators know, so nothing is repeated. Did more than "
                "transactional.id.expiration.ms pass since? Compare the topic with the source, then go on with another sinkName"
            )
        if lost := lost_tasks(standings):
            raise SinkIncompleteError(
                f"{self._batch(row)}: the transactions of tasks {_shown(sorted(lost))} were aborted by "
                "their coordinators after the batch was decided. Start the query again: it completes the batch if its tasks "
                "give the same rows again. A higher kafka.transaction.timeout.ms, or a broker with two-phase commit, avoids this"
            )

    def _opened(self, now: LedgerRow) -> LedgerRow:
        """The batch with the starts of its transactions; raises if one of them cannot be committed any more."""
        described = self._transactions.describe(now.tasks)
        tasks = with_starts(now.tasks, described)
        if len(tasks) == len(now.tasks):
            return replace(now, tasks=tasks)
        still_open = {one.identity for one in tasks}
        gone = [one for one in now.tasks if one.identity not in still_open]
        seen = [described.get(one.transactional_id) for one in gone]
        states = sorted({"unknown" if one is None else one.state for one in seen})
        self._transactions.abort(now.tasks)
        raise SinkIncompleteError(
            f"{self._batch(now)}: the transactions of tasks {_shown([one.task for one in gone])} are not "
            f"open any more ({', '.join(states)}), so the batch was not written. If writing it took longer than "
            "kafka.transaction.timeout.ms, set that higher (and the broker's transaction.max.timeout.ms), or make batches "
            "smaller; otherwise another driver or task took over"
        )

    def _batch(self, row: LedgerRow) -> BatchName:
        return BatchName(self._name, row.query_id, row.batch_id, self._topic)

    def _reached(self, step: Step) -> None:
        logger.debug("sink %s: %s", self._name, step.value)
        if self._on_step is not None:
            self._on_step(step)


@contextmanager
def committer(
    options: SinkOptions, name: str, *, is_write: bool, is_first: bool = False, on_step: OnStep | None = None
) -> Iterator[Committer]:
    """A committer that is connected to the brokers, for a while. `is_first`: no task shows that brokers are there."""
    with (
        SinkLedger(options, name, is_write=is_write) as ledger,
        BrokerTransactions(options.producer_config("any")) as transactions,
    ):
        transactions.reach(is_first=is_first)
        yield Committer(
            name,
            ledger,
            transactions,
            topic=options.topic,
            is_write=is_write,
            continues=options.continues,
            on_step=on_step,
        )


def finish_writes(options: SinkOptions, *, but: str) -> None:
    """End the transactions of batch jobs whose drivers decided and died, except for a job of this name."""
    for job in unfinished_writes(options):
        if job != but:
            with committer(options, job, is_write=True) as other:
                other.finish()


def _shown(tasks: Sequence[int]) -> str:
    """A few of them."""
    text = ", ".join(map(str, tasks[:_SHOWN_MAX]))
    return f"{text} and {len(tasks) - _SHOWN_MAX} more" if len(tasks) > _SHOWN_MAX else text

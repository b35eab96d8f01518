"""A batch's row in the ledger of the drop-in sink, and what coordinators tell of its transactions: the rules, without I/O.

Role.   Every task writes its rows in a transaction of its own and leaves it open. The driver then writes one `LedgerRow`, which names
        the transactions that count, and only after that ends them. `standing` tells what became of one transaction; `amended` how a
        batch is completed when a transaction it counted on was lost; `Place` which batch of which run a note in the ledger closes.
Flow.   `committing` asks `common.batch_ledger` whether the batch is owed, then these in this order, and does what they say.
Rules.  * A batch counts from the moment its row is durable. Before that nothing of it is seen; after that it is only ended,
          by whichever driver comes, and never written by other transactions.
        * A batch that is committed again (a driver died before Spark noted the commit) is finished from its row. The rows its
          tasks wrote this time are discarded.
        * A transaction is committed only if its coordinator says so, lost only if the coordinator says that this very one was
          aborted. Anything else is unknown, and nothing is done on a guess.
        * Only the same task's same rows may replace a lost transaction: their digests are compared.
        * A batch is closed for the run that decided it. Spark has given up an attempt of that run which has not begun by then;
          attempts of a later run may write it again, to replace lost transactions.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, NamedTuple

from semel.errors import ErrorCode
from semel.spark.sink.common.batch_ledger import Entry, Refuse
from semel.spark.sink.common.errors import LedgerError

FORMAT_VERSION: Final = 1
TASKS_MAX: Final = 20_000
"""How many transactions a batch may have: its row is one record."""

_ABORTED_STATES: Final = frozenset({"PrepareAbort", "CompleteAbort"})
# How far an abort moves the epoch: once at most, to fence who is late, or because with v2 every end does.
_ABORT_BUMPS: Final = 1
_PASSING_STATES: Final = frozenset({"Ongoing", "PrepareCommit", "PrepareEpochFence"})
_DENIED: Final = frozenset(
    {
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    }
)


class TaskTransaction(NamedTuple):
    """The rows of one task, and their transaction. `digest` is of the rows, in their order."""

    task: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    rows: int
    digest: str
    start_ms: int = -1
    """When it began, by its coordinator's clock: that tells it from others of the same id. The driver fills it in."""

    @property
    def identity(self) -> tuple[str, int, int]:
        """By which brokers know it."""
        return self.transactional_id, self.producer_id, self.producer_epoch


class Place(NamedTuple):
    """Where somebody is: at a batch, in a run of a query."""

    query_id: str
    run_id: str
    batch_id: int

    def as_note(self) -> str:
        """As it stands beside the pointer to a row; read back by `of_note`."""
        return f"{self.query_id} {self.run_id} {self.batch_id}"

    @classmethod
    def of_note(cls, note: str) -> "Place | None":
        """The place in a note; None for an empty note, as earlier versions of Semel left it."""
        query_id, _space, rest = note.partition(" ")
        run_id, _space, batch_id = rest.partition(" ")
        return cls(query_id, run_id, int(batch_id)) if batch_id.isdecimal() else None

    def is_closed_by(self, decided: "Place | None") -> bool:
        """Whether this batch was decided by the run it belongs to, given the last decision there was."""
        return decided is not None and decided[:2] == self[:2] and self.batch_id <= decided.batch_id


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """A batch that counts: these transactions, and no others."""

    query_id: str
    batch_id: int
    tasks: tuple[TaskTransaction, ...]
    run_id: str = ""
    """Of the driver that decided, or that completed what another had decided."""

    @property
    def place(self) -> Place:
        """Which batch of which run it closes."""
        return Place(self.query_id, self.run_id, self.batch_id)

    @property
    def entry(self) -> Entry:
        """For `common.batch_ledger.owed`."""
        return Entry(self.query_id, self.batch_id)

    def encoded(self) -> bytes:
        """As the ledger keeps it."""
        return json.dumps(
            {
                "version": FORMAT_VERSION,
                "query_id": self.query_id,
                "batch_id": self.batch_id,
                "run_id": self.run_id,
                "tasks": [list(one) for one in self.tasks],
            },
            separators=(",", ":"),
        ).encode()

    @classmethod
    def decoded(cls, data: bytes) -> "LedgerRow":
        """The row in these bytes; raises `LedgerError` for a row of a later version, and for bytes that are no row."""
        try:
            found = json.loads(data)
            if found["version"] != FORMAT_VERSION:
                raise LedgerError(
                    f"a row of the ledger has version {found['version']}, this Semel reads {FORMAT_VERSION}",
                    "use a newer Semel",
                )
            tasks = tuple(
                TaskTransaction(int(a), str(b), int(c), int(d), int(e), str(f), int(g))
                for a, b, c, d, e, f, g in found["tasks"]
            )
            return cls(
                str(found["query_id"]), int(found["batch_id"]), tasks, run_id=str(found.get("run_id", ""))
            )
        except (ValueError, KeyError, TypeError) as error:
            raise LedgerError(
                f"a row of the ledger cannot be read ({error}): {data[:200]!r}",
                "see whether another program writes to the ledger's topic",
            ) from error


class Standing(Enum):
    """The fate of a transaction."""

    COMMITTED = "committed"
    LOST = "lost"
    UNKNOWN = "unknown"


class Described(NamedTuple):
    """A coordinator's answer about a transactional id."""

    state: str
    producer_id: int
    producer_epoch: int
    start_ms: int
    timeout_ms: int = -1


UNUSED_MS: Final = 1_013
"""The timeout of an id that nobody is to use any more: a number nobody chooses, by which it is known."""


def standing(task: TaskTransaction, end_code: ErrorCode, described: Described | None) -> Standing:
    """The fate of a transaction, by the answer to its commit; `described` is asked for only when the commit was denied."""
    if end_code is ErrorCode.NONE:
        return Standing.COMMITTED
    if end_code not in _DENIED or described is None:
        return Standing.UNKNOWN
    moved = described.producer_epoch - task.producer_epoch
    # With v1 a commit leaves the epoch alone, so the next life of the id could be taken for this one, but for its start.
    is_this_one = (
        described.producer_id == task.producer_id
        and 0 <= moved <= _ABORT_BUMPS
        and described.start_ms == task.start_ms
    )
    return Standing.LOST if is_this_one and described.state in _ABORTED_STATES else Standing.UNKNOWN


def is_passing(described: Described | None) -> bool:
    """Whether a coordinator is about to say more: it fences, or waits for partitions."""
    return described is not None and described.state in _PASSING_STATES


def is_ready(described: Described) -> bool:
    """Whether somebody has an epoch under which nothing is written yet.

    Not where it was taken to fence others, and not yet where a coordinator is still storing the first one (-1). That attempt has
    no answer yet, and will hear whether its batch is over.
    """
    return described.state == "Empty" and described.producer_epoch >= 0 and described.timeout_ms != UNUSED_MS


def is_open(task: TaskTransaction, described: Described | None) -> bool:
    """Whether a transaction can still be committed."""
    return described is not None and described[:3] == ("Ongoing", task.producer_id, task.producer_epoch)


def with_starts(
    tasks: Sequence[TaskTransaction], described: Mapping[str, Described]
) -> tuple[TaskTransaction, ...]:
    """The transactions that are open, with the time they began."""
    found = [(one, described.get(one.transactional_id)) for one in tasks]
    return tuple(
        one._replace(start_ms=seen.start_ms) for one, seen in found if seen is not None and is_open(one, seen)
    )


@dataclass(frozen=True, slots=True)
class Amendment:
    """How a batch is completed: the row to write, the transactions it newly names, and those nobody needs."""

    row: LedgerRow
    added: tuple[TaskTransaction, ...]


def amended(row: LedgerRow, lost: Collection[int], now: LedgerRow) -> Amendment | Refuse:
    """Replace the lost transactions of a batch by those of the same tasks this time, if the rows are the same."""
    written = {one.task: one for one in now.tasks}
    replaced, added = list[TaskTransaction](), list[TaskTransaction]()
    for old in row.tasks:
        if old.task not in lost:
            replaced.append(old)
            continue
        new = written.get(old.task)
        if new is None or (new.rows, new.digest) != (old.rows, old.digest):
            return Refuse(
                f"the transaction of task {old.task} ({old.rows} rows) was aborted by its coordinator after the batch had been "
                "decided, and the task's rows of this time are not the same, so they cannot take their place",
                "use a broker with two-phase commit (transaction.two.phase.commit.enable), a higher "
                "kafka.transaction.timeout.ms, or a query whose tasks give the same rows when a batch is repeated",
            )
        replaced.append(new)
        added.append(new)
    return Amendment(replace(row, tasks=tuple(replaced), run_id=now.run_id), tuple(added))


def lost_tasks(standings: Mapping[int, Standing]) -> frozenset[int]:
    """The tasks whose transactions were lost."""
    return frozenset(task for task, one in standings.items() if one is Standing.LOST)


def unknown_tasks(standings: Mapping[int, Standing]) -> list[int]:
    """The tasks of which nobody can tell."""
    return sorted(task for task, one in standings.items() if one is Standing.UNKNOWN)


def check_tasks(tasks: Sequence[TaskTransaction]) -> None:
    """Raise if a row cannot hold them."""
    if len(tasks) > TASKS_MAX:
        raise LedgerError(
            f"{len(tasks)} tasks wrote rows, at most {TASKS_MAX} may in one batch",
            "use coalesce() or repartition() before writing",
        )

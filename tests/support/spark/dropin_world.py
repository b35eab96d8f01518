"""Coordinators, a ledger and Spark's commit log in memory, for the drop-in sink's protocol: strict where the real ones are.

`World` keeps what survives a kill. `Life` is a driver from start to death: it runs batches through the real `Committer`, and may
die before or after any single effect. Transactions time out when the dice say so, attempts fail and leave things open, attempts that
Spark has given up go on step by step (`Straggler`), and another driver may do the same batch in the middle of a step.
"""

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from semel.errors import ErrorCode
from semel.exceptions import ProducerFencedException
from semel.spark.sink.common.errors import SinkIncompleteError, SinkRefusedError
from semel.spark.sink.common.names import prefix_of, run_prefix
from semel.spark.sink.dropin.batch_ledger import (
    Described,
    LedgerRow,
    Place,
    Standing,
    TaskTransaction,
    standing,
)
from semel.spark.sink.dropin.committing import Committer, Step

NAME = "sink"
QUERY = "query"


class KilledError(Exception):
    """The driver is no more."""


@dataclass
class Txn:
    """A transactional id, as its coordinator sees it."""

    producer_id: int
    epoch: int
    state: str
    content: tuple[int, int, str] | None = None
    start_ms: int = -1


@dataclass
class Straggler:
    """An attempt that Spark has given up, and that does what a task does (`task._begun`), one step at a time."""

    transactional_id: str
    place: Place
    identity: tuple[int, int] | None = None
    has_asked: bool = False
    writes_left: int = 2
    is_done: bool = False

    def step(self, world: "World") -> None:
        """Take an epoch; ask whether the batch is over; begin; write on, which begins again what was ended meanwhile."""
        if self.identity is None:
            taken = world.take_id(self.transactional_id)
            self.identity = (taken.producer_id, taken.epoch)
        elif not self.has_asked:
            self.has_asked = True
            self.is_done = world.is_over(self.place)
        else:
            self.writes_left -= 1
            found = world.ids[self.transactional_id]
            is_fenced = self.identity != (found.producer_id, found.epoch)
            self.is_done = is_fenced or not self.writes_left
            if not is_fenced and found.state != "Ongoing":
                world.start(found, (self.place.batch_id, -1, "of an attempt that was given up"))


@dataclass
class World:
    """What survives."""

    dice: random.Random
    protocol: int = 2
    two_phase: bool = False
    is_deterministic: bool = True
    timeout_chance: float = 0.0
    empty_chance: float = 0.0
    """That a batch has no rows this time."""
    late_chance: float = 0.0
    """That an attempt everybody has forgotten wakes up and takes its transactional id again."""
    straggler_chance: float = 0.0
    """That a task has an attempt which Spark gives up before it has begun to write."""
    stragglers: list[Straggler] = field(default_factory=list)
    over: set[str] = field(default_factory=set)
    """Runs in which nobody is to begin any more."""
    killed: set[str] = field(default_factory=set)
    ids: dict[str, Txn] = field(default_factory=dict)
    seen: list[tuple[int, int, str]] = field(default_factory=list)
    """What readers see: batch, task and content of every committed transaction."""
    row: LedgerRow | None = None
    owner: int = 0
    now_ms: int = 0
    logged: int = 0
    """How many batches Spark has noted as committed."""
    runs: int = 0

    def take_id(self, name: str) -> Txn:
        """InitProducerId: what was open under the id is aborted."""
        found = self.ids.setdefault(name, Txn(len(self.ids) + 1, -1, "Empty"))
        if found.state == "Ongoing":
            self._abort(found)
        found.epoch += 1
        found.state = "Empty"
        return found

    def start(self, found: Txn, content: tuple[int, int, str]) -> None:
        """The first rows of a transaction."""
        found.state, found.content = "Ongoing", content
        self.now_ms += 1
        found.start_ms = self.now_ms

    def begin(self, name: str, content: tuple[int, int, str]) -> Txn:
        """InitProducerId and rows."""
        found = self.take_id(name)
        self.start(found, content)
        return found

    def is_over(self, place: Place) -> bool:
        """As `settling.is_over` asks it."""
        return place.run_id in self.over or place.is_closed_by(None if self.row is None else self.row.place)

    def end(self, task: TaskTransaction, *, commit: bool) -> ErrorCode:
        """EndTxn, as Kafka 4.3.1 answers it."""
        found = self.ids.get(task.transactional_id)
        if found is None or found.producer_id != task.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        wanted = "CompleteCommit" if commit else "CompleteAbort"
        if self.protocol == 2 and found.epoch == task.producer_epoch + 1 and found.state == wanted:
            return ErrorCode.NONE  # The same again.
        if found.epoch != task.producer_epoch:
            return ErrorCode.PRODUCER_FENCED
        if found.state == wanted:
            return ErrorCode.NONE
        if found.state != "Ongoing":
            return ErrorCode.INVALID_TXN_STATE
        if commit:
            assert found.content is not None
            self.seen.append(found.content)
        found.state = wanted
        found.epoch += self.protocol - 1
        return ErrorCode.NONE

    def _abort(self, found: Txn) -> None:
        found.state = "CompleteAbort"
        found.epoch += 1  # To fence who is late.

    def let_time_pass(self) -> None:
        """Some open transactions run out, unless they never do; some attempts go on, or come back from the dead."""
        going = [one for one in self.stragglers if not one.is_done]
        if going and self.dice.random() < 0.5:
            self.dice.choice(going).step(self)
        if self.ids and self.dice.random() < self.late_chance:
            self.begin(self.dice.choice(sorted(self.ids)), (-1, 0, "of an attempt that is late"))
        for found in self.ids.values():
            if found.state == "Ongoing" and not self.two_phase and self.dice.random() < self.timeout_chance:
                self._abort(found)

    def let_stragglers_end(self) -> None:
        """All of them come to their end."""
        for one in self.stragglers:
            while not one.is_done:
                one.step(self)

    def open_ids(self) -> list[str]:
        return [name for name, found in self.ids.items() if found.state == "Ongoing"]


@dataclass
class Life:
    """One driver: dies after so many effects, if ever."""

    world: World
    effects_left: int | None = None
    token: int = -1

    def __post_init__(self) -> None:
        self.world.runs += 1
        self.run = f"run{self.world.runs}"

    def effect(self) -> None:
        """Something is about to happen, or has just happened: a kill may come now."""
        self.world.let_time_pass()
        if self.effects_left is not None:
            if self.effects_left == 0:
                self.world.killed.add(self.run)
                raise KilledError
            self.effects_left -= 1

    # The ledger

    def look(self) -> LedgerRow | None:
        return self.world.row

    def take(self) -> LedgerRow | None:
        self.effect()
        self.world.owner += 1
        self.token = self.world.owner
        self.effect()
        return self.world.row

    def put(self, row: LedgerRow | None) -> None:
        self.effect()
        if self.token != self.world.owner:
            raise ProducerFencedException("another driver took the ledger")
        self.world.row = None if row is None else LedgerRow.decoded(row.encoded())
        self.effect()

    # The transactions

    def describe(self, tasks: Sequence[TaskTransaction]) -> Mapping[str, Described]:
        seen = {one.transactional_id: self._described(one.transactional_id) for one in tasks}
        return {name: one for name, one in seen.items() if one is not None}

    def commit(self, tasks: Sequence[TaskTransaction]) -> Mapping[int, Standing]:
        standings = dict[int, Standing]()
        for one in tasks:
            self.effect()
            code = self.world.end(one, commit=True)
            described = self._described(one.transactional_id)
            standings[one.task] = standing(one, code, described)
        self.effect()
        return standings

    def abort(self, tasks: Sequence[TaskTransaction]) -> None:
        for one in tasks:
            self.effect()
            self.world.end(one, commit=False)

    def end_run(self, name: str, run_id: str) -> None:
        self.effect()
        self.world.over.add(run_id)
        self.effect()

    def sweep(self, name: str, run_id: str, keep: Collection[TaskTransaction]) -> int:
        kept = {(one.transactional_id, one.producer_epoch) for one in keep}
        count = 0
        listed = [
            (each, found.epoch, found.state)
            for each, found in self.world.ids.items()
            if (found.state == "Ongoing" and each.startswith(prefix_of(name)))
            or (found.state == "Empty" and each.startswith(run_prefix(name, run_id)))
        ]
        for each, epoch, state in listed:
            if (each, epoch) in kept:
                continue
            if state == "Ongoing":
                self.abort([TaskTransaction(-1, each, self.world.ids[each].producer_id, epoch, 0, "")])
                count += 1
            if state == "Empty" or self.world.protocol == 1:
                self.effect()
                if self.world.ids[each].epoch == epoch:
                    self.world.take_id(each)
        return count

    def _described(self, name: str) -> Described | None:
        found = self.world.ids.get(name)
        if found is None:
            return None
        return Described(found.state, found.producer_id, found.epoch, found.start_ms)

    # Spark

    def tasks(self, batch_id: int, tasks_count: int) -> tuple[TaskTransaction, ...]:
        """Every task writes, some of them more than once; one attempt of each counts. Sometimes a repeated batch is empty."""
        if self.world.empty_chance and self.world.dice.random() < self.world.empty_chance:
            return ()
        return tuple(self._task(batch_id, task) for task in range(tasks_count))

    def _task(self, batch_id: int, task: int) -> TaskTransaction:
        dice = self.world.dice
        attempts = 1 + (dice.random() < 0.3)
        winner = dice.randrange(attempts)
        counts: TaskTransaction | None = None
        content = "rows" if self.world.is_deterministic else f"rows of run {self.run}"
        for attempt in range(attempts):
            name = f"{run_prefix(NAME, self.run)}{task}.{attempt}"
            self.effect()
            found = self.world.begin(name, (batch_id, task, content))
            if attempt == winner:
                counts = TaskTransaction(task, name, found.producer_id, found.epoch, 10, content)
        assert counts is not None
        if dice.random() < self.world.straggler_chance:
            # A number that no other attempt has; or, where a stage was repeated, another id (`Attempt.only_id`).
            name = f"{run_prefix(NAME, self.run)}{task}.{attempts}"
            self.world.stragglers.append(Straggler(name, Place(QUERY, self.run, batch_id)))
        return counts

    def batch(self, tasks_count: int, *, at_step: "Interruption | None" = None) -> None:
        """The next batch of the query, from its tasks to Spark's own note of it."""
        batch_id = self.world.logged
        tasks = self.tasks(batch_id, tasks_count)
        committer = Committer(NAME, self, self, on_step=at_step)
        try:
            committer.commit_batch(LedgerRow(QUERY, batch_id, tasks, self.run))
        except (SinkIncompleteError, SinkRefusedError, ProducerFencedException):
            committer.abort_batch(tasks, self.run)  # As Spark does when a commit fails.
            raise
        self.effect()
        # A checkpoint's log has one entry per batch: who comes second finds it and stops.
        self.world.logged = max(self.world.logged, batch_id + 1)


@dataclass
class Interruption:
    """At one step of a commit, another driver does the same batch, all of it or until it dies."""

    world: World
    step: Step
    tasks_count: int
    effects_left: int | None

    def __call__(self, step: Step) -> None:
        if step is self.step:
            other = Life(self.world, self.effects_left)
            try:
                other.batch(self.tasks_count)
            except (KilledError, SinkIncompleteError, SinkRefusedError, ProducerFencedException):
                return

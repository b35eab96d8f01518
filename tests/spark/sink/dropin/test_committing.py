"""The driver's protocol counts every batch once, wherever drivers die, and says so where it cannot.

Method: the real `Committer` on a world in memory (`dropin_world`). Drivers are killed before or after any effect, transactions
time out, attempts of tasks are left open, and a second driver does the same batch in the middle of a step. At the end each task of
each batch that Spark has noted must be seen exactly once; at no time may one be seen twice.
"""

import logging
import random
from collections import Counter
from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import ErrorCode, RefusedError
from semel.exceptions import ProducerFencedException
from semel.spark.sink.common.errors import SinkIncompleteError, SinkRefusedError
from semel.spark.sink.common.names import prefix_of
from semel.spark.sink.dropin.batch_ledger import LedgerRow, TaskTransaction, with_starts
from semel.spark.sink.dropin.committing import Committer, Step
from support.spark.dropin_world import NAME, QUERY, Interruption, KilledError, Life, World

BATCHES = 3
LIVES_MAX = 60
STEPS = list(Step)


def live(world: World, tasks_count: int, *, kills: bool = True, interruptions: bool = False) -> bool:
    """Drivers come and go until the batches are done; False if they are refused in the end."""
    dice = world.dice
    refusals = 0
    for number in range(LIVES_MAX):
        calm = number > LIVES_MAX // 2
        life = Life(world, None if calm or not kills else dice.randrange(60))
        if calm:
            world.timeout_chance = world.late_chance = 0.0
        try:
            while world.logged < BATCHES:
                other = None
                if interruptions and not calm and dice.random() < 0.5:
                    left = dice.choice([None, dice.randrange(40)])
                    other = Interruption(world, dice.choice(STEPS), tasks_count, left)
                life.batch(tasks_count, at_step=other)
        except (KilledError, ProducerFencedException):
            pass
        except (SinkIncompleteError, SinkRefusedError):
            refusals += calm
            if refusals > 3:
                return False
        counted = Counter((batch, task) for batch, task, _content in world.seen)
        assert max(counted.values(), default=0) <= 1, world.seen
        if world.logged == BATCHES:
            return True
    return False


def every_task_once(world: World, tasks_count: int) -> None:
    wanted = [(batch, task) for batch in range(BATCHES) for task in range(tasks_count)]
    assert sorted((batch, task) for batch, task, _content in world.seen) == wanted


@given(seed=st.integers(0, 2**32), protocol=st.sampled_from([1, 2]), tasks_count=st.integers(1, 4))
def test_drivers_that_die_anywhere(seed: int, protocol: int, tasks_count: int) -> None:
    world = World(random.Random(seed), protocol)
    assert live(world, tasks_count)
    every_task_once(world, tasks_count)
    assert not world.open_ids(), "what does not count was swept"


@given(seed=st.integers(0, 2**32), protocol=st.sampled_from([1, 2]), tasks_count=st.integers(1, 4))
def test_transactions_that_time_out(seed: int, protocol: int, tasks_count: int) -> None:
    """The same rows take the place of those that were lost."""
    world = World(random.Random(seed), protocol, timeout_chance=0.02)
    assert live(world, tasks_count)
    every_task_once(world, tasks_count)


@given(seed=st.integers(0, 2**32), protocol=st.sampled_from([1, 2]), tasks_count=st.integers(1, 3))
def test_a_second_driver_in_the_middle(seed: int, protocol: int, tasks_count: int) -> None:
    world = World(random.Random(seed), protocol, timeout_chance=0.01)
    assert live(world, tasks_count, interruptions=True)
    every_task_once(world, tasks_count)


@given(seed=st.integers(0, 2**32), protocol=st.sampled_from([1, 2]), tasks_count=st.integers(1, 4))
def test_rows_that_differ_each_time(seed: int, protocol: int, tasks_count: int) -> None:
    """A batch is of one run, whole. Where a transaction of it timed out after the decision, the sink stops instead of guessing."""
    world = World(random.Random(seed), protocol, timeout_chance=0.02, is_deterministic=False)
    is_done = live(world, tasks_count)
    for batch in range(BATCHES):
        runs = {content for number, _task, content in world.seen if number == batch}
        assert len(runs) <= 1, world.seen
    if is_done:
        every_task_once(world, tasks_count)


@given(seed=st.integers(0, 2**32), protocol=st.sampled_from([1, 2]), tasks_count=st.integers(1, 4))
def test_two_phase_commit_needs_no_luck(seed: int, protocol: int, tasks_count: int) -> None:
    """Prepared transactions never time out: even rows that differ each time are written once, and no batch is ever stuck."""
    world = World(random.Random(seed), protocol, two_phase=True, timeout_chance=0.5, is_deterministic=False)
    assert live(world, tasks_count)
    every_task_once(world, tasks_count)


@given(seed=st.integers(0, 2**32), protocol=st.sampled_from([1, 2]), tasks_count=st.integers(1, 3))
def test_attempts_that_wake_up_late(seed: int, protocol: int, tasks_count: int) -> None:
    """They fence what took their place. Then it cannot be told whether that was committed, and nothing is done on a guess."""
    world = World(random.Random(seed), protocol, late_chance=0.05, timeout_chance=0.01)
    if live(world, tasks_count):
        every_task_once(world, tasks_count)
    assert all(batch >= 0 for batch, _task, _content in world.seen)


@given(seed=st.integers(0, 2**32), protocol=st.sampled_from([1, 2]), tasks_count=st.integers(1, 4))
def test_attempts_that_were_given_up_leave_nothing_open(seed: int, protocol: int, tasks_count: int) -> None:
    """Spark counts another attempt and does not wait for them. Whenever they come to write, readers never wait for them.

    Unless their driver was killed: then its successor's next sweep finds them, or their timeout.
    """
    world = World(random.Random(seed), protocol, straggler_chance=0.6)
    assert live(world, tasks_count)
    every_task_once(world, tasks_count)
    world.let_stragglers_end()
    runs_of_open = {name.removeprefix(prefix_of(NAME)).partition(":")[0] for name in world.open_ids()}
    assert runs_of_open <= world.killed


@given(seed=st.integers(0, 2**32), protocol=st.sampled_from([1, 2]), is_job=st.booleans())
def test_a_job_or_a_batch_that_is_given_up_leaves_nothing_open(
    seed: int, protocol: int, is_job: bool
) -> None:
    """There is no later sweep that would find what an attempt began too late."""
    world = World(random.Random(seed), protocol, straggler_chance=0.6)
    life = Life(world)
    tasks = life.tasks(0, 3)
    committer = Committer(NAME, life, life, is_write=is_job)
    if is_job and world.dice.random() < 0.5:
        committer.commit_batch(LedgerRow("job", 0, tasks, life.run))
    else:
        committer.abort_batch(tasks, life.run)
    world.let_stragglers_end()
    assert not world.open_ids()


@pytest.mark.parametrize("is_job", [False, True])
def test_a_batch_counts_although_what_does_not_could_not_be_swept(
    is_job: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever hears that a job failed runs it again: its rows would be there twice."""

    class Unlucky(Life):
        def sweep(self, name: str, run_id: str, keep: Collection[TaskTransaction]) -> int:
            raise RefusedError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "nobody coordinates")

    world = World(random.Random(1), 2)
    life = Unlucky(world)
    row = LedgerRow(QUERY, 0, life.tasks(0, 3), life.run)
    with caplog.at_level(logging.WARNING):
        Committer(NAME, life, life, is_write=is_job).commit_batch(row)
    assert sorted(task for _batch, task, _content in world.seen) == [0, 1, 2]
    assert "batch 0, topics by row: the batch counts, but attempts that do not may be open" in caplog.text
    assert "nobody coordinates" in caplog.text


@given(seed=st.integers(0, 2**32), protocol=st.sampled_from([1, 2]), tasks_count=st.integers(1, 3))
def test_batches_that_are_empty_when_they_are_repeated(seed: int, protocol: int, tasks_count: int) -> None:
    """What was decided is ended all the same: a batch is there as a whole, or was empty."""
    world = World(random.Random(seed), protocol, empty_chance=0.3)
    assert live(world, tasks_count)
    counts = Counter(batch for batch, _task, _content in world.seen)
    assert set(counts.values()) <= {tasks_count}
    assert not world.open_ids()


def test_a_driver_that_was_replaced_decides_nothing() -> None:
    """Its tasks are done, its row is not written; then another driver takes the ledger."""
    world = World(random.Random(1))
    old, new = Life(world), Life(world)
    tasks = old.tasks(0, 2)
    world_of_old = Committer(
        NAME, old, old, on_step=lambda step: new.take() if step is Step.CHECKED else None
    )
    with pytest.raises(ProducerFencedException):
        world_of_old.commit_batch(LedgerRow(QUERY, 0, tasks))
    assert world.row is None
    assert not world.seen


def test_a_batch_given_up_after_it_was_decided_is_completed() -> None:
    """Spark aborts a batch whose commit raised, though its row may be durable: then it counts."""
    world = World(random.Random(1))
    life = Life(world)
    tasks = life.tasks(0, 3)
    life.take()
    life.put(LedgerRow(QUERY, 0, tasks))
    Committer(NAME, life, life).abort_batch(tasks, life.run)
    assert len(world.seen) == 3
    assert not world.open_ids()


def test_a_batch_given_up_before_is_gone() -> None:
    world = World(random.Random(1))
    life = Life(world)
    Committer(NAME, life, life).abort_batch(life.tasks(0, 3), life.run)
    assert not world.seen
    assert not world.open_ids()


def test_a_job_of_the_same_name_finishes_its_predecessor() -> None:
    """A batch job decided and died; the next one of that name ends what it left, then writes its own."""
    world = World(random.Random(1))
    dead = Life(world)
    rows = dead.tasks(0, 2)
    dead.take()
    dead.put(LedgerRow("job-1", 0, rows))
    life = Life(world)
    mine = life.tasks(1, 2)
    Committer(NAME, life, life, is_write=True).commit_batch(LedgerRow("job-2", 0, mine))
    assert sorted(world.seen) == [(batch, task, "rows") for batch in range(2) for task in range(2)]
    assert world.row is None, "a job that is done leaves no row"


def test_a_job_that_is_finished_by_another_is_done() -> None:
    """Two jobs at a time: the second finds the first one's row and ends it, while the first is about to say that it is done."""
    world = World(random.Random(1))
    life, other = Life(world), Life(world)

    def finished_by_another(step: Step) -> None:
        if step is Step.RECORDED:
            Committer(NAME, other, other, is_write=True).finish()

    tasks = life.tasks(0, 2)
    committer = Committer(NAME, life, life, is_write=True, on_step=finished_by_another)
    committer.commit_batch(LedgerRow("job-1", 0, tasks))
    assert sorted(world.seen) == [(0, task, "rows") for task in range(2)]
    assert world.row is None


def left_by_a_job(world: World) -> tuple[TaskTransaction, ...]:
    """A batch job that decided and died before it ended anything."""
    dead = Life(world)
    written = dead.tasks(0, 3)
    tasks = with_starts(written, dead.describe(written))
    dead.take()
    dead.put(LedgerRow("job-1", 0, tasks))
    return tasks


def test_what_nobody_can_tell_of_a_dead_job_is_said_and_kept(caplog: pytest.LogCaptureFixture) -> None:
    """A coordinator has forgotten a transaction: it may have been committed or not."""
    world = World(random.Random(1))
    tasks = left_by_a_job(world)
    del world.ids[tasks[1].transactional_id]
    life = Life(world)
    Committer(NAME, life, life, is_write=True).finish()
    assert [task for _batch, task, _content in world.seen] == [0, 2]
    assert "job-1" in caplog.text
    assert "cannot be told from what the coordinators of its tasks 1 know" in caplog.text
    assert world.row is not None, "the next one looks again"
    caplog.clear()
    Committer(NAME, life, life, is_write=True).commit_batch(LedgerRow("job-2", 0, life.tasks(1, 1)))
    assert "cannot be told from what the coordinators of its tasks 1 know" in caplog.text
    assert world.row is None, "a job of its name takes its place"


def test_what_a_dead_job_lost_is_said_and_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    """A coordinator says that it aborted a transaction: nothing will ever bring it back."""
    world = World(random.Random(1))
    left_by_a_job(world)
    world.timeout_chance = 1.0
    world.let_time_pass()
    life = Life(world)
    Committer(NAME, life, life, is_write=True).finish()
    assert not world.seen
    assert "the transactions of its tasks 0, 1, 2 timed out before anybody came" in caplog.text
    assert world.row is None


def test_a_batch_whose_transactions_ran_out_is_not_begun() -> None:
    world = World(random.Random(1), timeout_chance=1.0)
    life = Life(world)
    world.timeout_chance = 0.0
    tasks = life.tasks(0, 2)
    world.timeout_chance = 1.0
    with pytest.raises(SinkIncompleteError, match=r"kafka\.transaction\.timeout\.ms"):
        Committer(NAME, life, life).commit_batch(LedgerRow(QUERY, 0, tasks))
    assert world.row is None
    assert not world.seen

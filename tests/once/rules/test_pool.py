"""The pool's bookkeeping against a plain account of what was handed out and what was done."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.errors import ConfigError
from semel.once.errors import WorkFailedError
from semel.once.rules.pool import End, Order, PoolOptions, PoolState, Task
from semel.types import TopicPartition

PARTITIONS = tuple(TopicPartition("orders", number) for number in range(3))
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["offer", "take", "finish", "leave", "commit", "revoke"]), st.integers(0, 1_000_000)
    ),
    max_size=80,
)


@dataclass(frozen=True)
class Record:
    topic: str
    partition: int
    offset: int
    key: str | None


@dataclass
class Account:
    """What a member of a group would see."""

    state: PoolState
    next_offset: dict[TopicPartition, int] = field(default_factory=lambda: dict.fromkeys(PARTITIONS, 0))
    taken: list[Task] = field(default_factory=list)
    done: dict[TopicPartition, set[int]] = field(
        default_factory=lambda: {where: set() for where in PARTITIONS}
    )
    committed: dict[TopicPartition, int] = field(default_factory=lambda: dict.fromkeys(PARTITIONS, 0))

    def offer(self, choice: int) -> None:
        where = PARTITIONS[choice % 3]
        first = self.next_offset[where]
        keys = [None, "a", "b"]
        records = [Record(*where, first + n, keys[(choice + n) % 3]) for n in range(choice % 4)]
        self.next_offset[where] += len(records)
        self.state.offer(records, PARTITIONS)

    def take(self, _: int) -> None:
        task = self.state.take()
        if task is not None:
            assert task.lane is None or task.lane not in {other.lane for other in self.taken}, "overtaken"
            self.taken.append(task)

    def finish(self, choice: int) -> None:
        if self.taken:
            task = self.taken.pop(choice % len(self.taken))
            self.state.ended(task, End.FINISHED)
            if task.home.ours:
                self.done[TopicPartition(task.record.topic, task.record.partition)].add(task.record.offset)

    def leave(self, choice: int) -> None:
        if self.taken:
            self.state.ended(self.taken.pop(choice % len(self.taken)), End.LEFT)

    def commit(self, _: int) -> None:
        commit = self.state.to_commit()
        for where, position in commit.offsets.items():
            assert position > self.committed[where], "committed back, or again"
            assert set(range(position)) <= self.done[where], "committed what is not finished"
            self.committed[where] = position
        commit.done()
        assert self.state.to_commit().offsets == {}

    def revoke(self, choice: int) -> None:
        """It goes, and comes back at what was committed."""
        where = PARTITIONS[choice % 3]
        self.state.leaving([where])
        self.state.drop([where])
        self.next_offset[where] = self.committed[where]
        self.done[where] = set(range(self.committed[where]))


@settings(max_examples=200)
@given(steps=STEPS, order=st.sampled_from(["key", "partition", "none"]))
def test_commits_only_what_is_finished(steps: list[tuple[str, int]], order: Order) -> None:
    account = Account(PoolState(PoolOptions(workers=4, order=order)))
    for step, choice in steps:
        getattr(account, step)(choice)
    account.commit(0)


def test_holds_back_above_its_bound() -> None:
    state = PoolState(PoolOptions(workers=1, order="none", in_flight_max=4))
    here, other = PARTITIONS[:1], PARTITIONS[:2]
    state.offer([Record(*here[0], offset, None) for offset in range(5)], here)
    assert state.held_back(here) == (frozenset(here), frozenset())
    assert state.held_back(here) == (frozenset(), frozenset()), "they are paused already"
    assert state.held_back(other) == (frozenset(other), frozenset()), "one came: it is paused as well"
    for left in (4, 3):
        _finish_one(state)
        assert state.held_back(other) == (frozenset(), frozenset()), f"{left} are above half of the bound"
    _finish_one(state)
    assert state.held_back(here) == (frozenset(), frozenset(here)), "only what is ours is resumed"
    assert state.held_back(here) == (frozenset(), frozenset())


def test_stops_at_the_first_failure() -> None:
    state = PoolState(PoolOptions(workers=2, order="none"))
    where = PARTITIONS[0]
    state.offer([Record(*where, offset, None) for offset in range(3)], [where])
    first, second = state.take(), state.take()
    assert first is not None
    assert second is not None
    state.ended(second, ValueError("no such order"))
    state.ended(first, End.FINISHED)
    assert state.take() is None, "nothing more is begun"
    assert state.to_commit().offsets == {where: 1}
    with pytest.raises(WorkFailedError, match=r"orders-0 offset 1 failed after 1 attempt: .*no such order"):
        state.raise_failure()


def test_forgets_a_partition_that_went_without_a_word() -> None:
    state = PoolState(PoolOptions(workers=1, order="none"))
    gone, kept = PARTITIONS[:2]
    state.offer([Record(*gone, 0, None)], [gone])
    state.offer([Record(*kept, 0, None)], [kept])
    _finish_one(state)
    assert state.take() is None, "what was waiting for it is the new owner's"
    assert state.to_commit().offsets == {kept: 1}


def test_a_failed_commit_is_tried_again() -> None:
    state = PoolState(PoolOptions())
    where = PARTITIONS[0]
    state.offer([Record(*where, 0, None)], [where])
    _finish_one(state)
    assert state.to_commit().offsets == {where: 1}
    assert state.to_commit([where]).offsets == {where: 1}, "nobody said that it is stored"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"workers": 0}, "workers is 0: it must be from 1 to 1000"),
        ({"order": "keys"}, "order is 'keys': it must be one of key, partition, none"),
        ({"workers": 8, "in_flight_max": 4}, "in_flight_max is 4: fewer than workers"),
        ({"drain_ms": -1}, "drain_ms is -1: it must not be negative"),
    ],
)
def test_refuses_options(options: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        PoolOptions(**options)  # type: ignore[arg-type]


def _finish_one(state: PoolState) -> None:
    task = state.take()
    assert task is not None
    state.ended(task, End.FINISHED)

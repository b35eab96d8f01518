"""A table that is read while transactions are being ended has the rows of its position, all of them and no others.

Method: a world of two topics in which a writer decides transactions, whose markers reach the topics one by one, in any order, at any
moment between two readings. What is read is compared with the position: transaction n adds row n. Then the same wait against an
admin client that answers as Kafka does.
"""

import json
import random
from types import TracebackType
from typing import Any, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.exceptions import TransactionalIdNotFoundException
from semel.spark.pipelines import snapshot
from semel.spark.pipelines.errors import TableError
from semel.spark.pipelines.rebuilding import Position

TRANSACTIONS_MAX = 6


class World:
    """A writer, one transaction after the other, and two topics in which they appear."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.decided = 0
        self.rows = list[int]()
        self.position = 0
        self.saved = list[int]()

    def step(self) -> None:
        """One thing happens: a marker is written or, if all are, the next transaction is decided."""
        owed = [place for place in ("rows", "position") if self._lacks(place)]
        if owed:
            self._mark(self.dice.choice(owed))
        elif self.decided < TRANSACTIONS_MAX:
            self.decided += 1

    def some_steps(self) -> None:
        for _ in range(self.dice.randrange(4)):
            self.step()

    def read_position(self) -> int:
        self.some_steps()
        return self.position

    def save(self, _position: int) -> None:
        self.some_steps()
        self.saved = list(self.rows)

    def wait(self) -> None:
        while self._lacks("rows") or self._lacks("position"):
            self.step()

    def _lacks(self, place: str) -> bool:
        return (self.position if place == "position" else len(self.rows)) < self.decided

    def _mark(self, place: str) -> None:
        if place == "position":
            self.position = self.decided
        else:
            self.rows.append(self.decided)


@given(seed=st.integers(0, 2**32))
def test_rows_and_position_are_of_one_transaction(seed: int) -> None:
    world = World(random.Random(seed))
    position = snapshot.read_as_one(world.read_position, world.save, world.wait)
    assert world.saved == list(range(1, position + 1))


def test_a_position_that_is_seen_before_its_rows_is_waited_for() -> None:
    """The driver died right after its commit was answered; the marker is in one topic, and in the other a moment later."""
    world = World(random.Random(0))
    world.decided, world.position = TRANSACTIONS_MAX, TRANSACTIONS_MAX  # Nothing more will be decided.
    world.rows = list(range(1, TRANSACTIONS_MAX))
    saved = list[list[int]]()

    def save(_position: int) -> None:
        saved.append(list(world.rows))

    assert snapshot.read_as_one(lambda: world.position, save, world.wait) == TRANSACTIONS_MAX
    assert saved == [list(range(1, TRANSACTIONS_MAX + 1))]


class Coordinator:
    """An admin client to which a coordinator tells one state after the other, and the last for ever."""

    def __init__(self, states: list[str | None]) -> None:
        self.states = states

    def __call__(self, _settings: object) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        pass

    def describe_transactions(self, name: str) -> dict[str, Any]:
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if state is None:
            raise TransactionalIdNotFoundException(name)
        return {name: type("View", (), {"state": state})}


@pytest.mark.parametrize(
    "states",
    [
        ["PrepareCommit", "PrepareCommit", "CompleteCommit"],
        ["PrepareAbort", "CompleteAbort"],
        ["PrepareCommit", "Ongoing"],
        [None],
    ],
)
def test_what_is_decided_is_waited_for_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, states: list[str | None]
) -> None:
    coordinator = Coordinator(list(states))
    monkeypatch.setattr(snapshot, "Admin", coordinator)
    snapshot.wait_for_markers("nowhere:1", "semel-sink-sold")
    assert coordinator.states == states[-1:]


def test_markers_that_never_come_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "Admin", Coordinator(["PrepareCommit"]))
    monkeypatch.setattr(snapshot, "_PATIENCE_SECONDS", 0.0)
    with pytest.raises(TableError, match="semel txn describe semel-sink-sold"):
        snapshot.wait_for_markers("nowhere:1", "semel-sink-sold")


def test_a_partition_that_is_younger_than_the_position_is_read_from_its_beginning() -> None:
    position = Position("query", 3, {"orders": {0: 7, 1: 9}})
    assert json.loads(position.start("orders", [0, 1, 2])) == {"orders": {"0": 7, "1": 9, "2": -2}}
    assert json.loads(position.start("orders", [0])) == {"orders": {"0": 7, "1": 9}}, (
        "one that is gone is not hidden"
    )
    assert position.start("payments", [0, 1]) == "earliest"

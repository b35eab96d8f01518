"""Six faults on the way x two ways to write, with the public client: nothing lost, nothing twice, in order, all or nothing.

Method: whole worlds on the simulated runtime, each from one integer; the integer's remainder by twelve is the cell of the
table. `make campaign` plays a thousand of each. Then clients are broken on purpose, one promise at a time, and the judgement
must notice within a few seeds of the cells that show it.
"""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from broken_clients import aborts_by_committing, without_sequences, wrong_offset
from semel.client.consumer.fetcher import Fetcher
from semel.client.producer.transactions import Transactions
from semel.core.client import fetch_buffer
from semel.core.client.fetched import Chunk
from semel.verify.scenarios import client_matrix
from semel.verify.scenarios.client_matrix import CELLS, Fault, Story, Writing
from story_kit import must_be_noticed, must_be_reproduced, run_random_seeds

_SEEDS_PER_CELL = 2
_RANDOM = 6
_LATE = (Fault.REORDER, Fault.FREEZE)
_SLOW = (Fault.DELAY, Fault.DROP)


def seeds_of(
    *, faults: Iterable[Fault] = tuple(Fault), writing: Writing | None = None, rounds: int = 6
) -> list[int]:
    """Seeds of these cells, a cell after the other."""
    wanted = [at for at, (fault, how) in enumerate(CELLS) if fault in faults and writing in (None, how)]
    return [at + round_ * len(CELLS) for round_ in range(rounds) for at in wanted]


@pytest.mark.parametrize("cell", range(len(CELLS)), ids=["-".join(cell) for cell in CELLS])
def test_fixed_seeds(cell: int) -> None:
    harmed = 0
    for seed in range(cell, _SEEDS_PER_CELL * len(CELLS), len(CELLS)):
        story = Story(seed)
        assert (story.fault, story.writing) == CELLS[cell]
        story.run()
        harmed += story.link.faults + story.freezes
    assert harmed, "nothing went wrong, so nothing was shown"


def test_random_seeds() -> None:
    run_random_seeds(client_matrix.run, _RANDOM)


def test_a_run_is_reproduced_to_the_byte_by_its_seed() -> None:
    must_be_reproduced("client_matrix", 5)


# Broken on purpose


def _forgets_the_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs are committed without the positions behind their inputs."""

    async def nothing(*_arguments: Any, **_more: Any) -> None:
        return

    monkeypatch.setattr(Transactions, "send_offsets", nothing)
    monkeypatch.setattr(client_matrix, "SETTLE_SECONDS", 5.0)  # It will never be done.


def _shows_what_was_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    def blind(*arguments: Any, **more: Any) -> Chunk:
        return Chunk(*arguments, **{**more, "aborted": None})

    monkeypatch.setattr(fetch_buffer, "Chunk", blind)


def _skips_what_it_could_not_fetch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer that goes to the end when a fetch gets no answer."""
    answered = Fetcher._rest

    def rest(self: Fetcher, who: Any) -> None:
        for state in self._subscription.partitions.values():
            if state.position is not None and state.high_watermark > state.position:
                state.position = state.fetch_offset = state.high_watermark
        answered(self, who)

    monkeypatch.setattr(Fetcher, "_rest", rest)


@pytest.mark.parametrize(
    ("break_it", "noticed", "seeds"),
    [
        (without_sequences, r"lies at \[", seeds_of(writing=Writing.IDEMPOTENT)),
        (wrong_offset, "told was", seeds_of(faults=[Fault.CUT])),
        (aborts_by_committing, "was not committed", seeds_of(faults=_LATE, writing=Writing.TRANSACTIONAL)),
        (_forgets_the_positions, "twice", seeds_of(faults=_SLOW, writing=Writing.TRANSACTIONAL)),
        (_shows_what_was_aborted, "not there", seeds_of(faults=_LATE, writing=Writing.TRANSACTIONAL)),
        (_skips_what_it_could_not_fetch, "missing", seeds_of(faults=[Fault.DROP])),
    ],
)
def test_a_client_that_breaks_a_promise_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
    break_it: Callable[[pytest.MonkeyPatch], None],
    noticed: str,
    seeds: list[int],
) -> None:
    break_it(monkeypatch)
    must_be_noticed(client_matrix.run, noticed, seeds)

"""A judgement that cannot fail is none: brokers, logs and clients are broken on purpose, and each must be found within its seeds.

Method: each mutation replaces one function; seeded stories are played on what it made until one of them ends badly in the way that
was to be expected. CI hunts those that are found within a second or two; `semel verify --self-test` and `make campaign` all.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from semel.core.idempotence import producer_window
from semel.verify.campaign import SCENARIOS
from semel.verify.mutations.catalogue import MUTATIONS
from semel.verify.mutations.mutation import Hunt, Mutation, Patch, hunt
from semel.verify.mutations.self_test import as_line, hunt_all
from semel.verify.simulation.promise import PromiseBroken


def _must_be_found(name: str) -> None:
    mutation = MUTATIONS[name]
    found = hunt(mutation, SCENARIOS[mutation.scenario])
    assert found.seed is not None, (
        f"{found.played} seeds, and nothing says {mutation.noticed!r}, only: {found.words}"
    )


@pytest.mark.parametrize("name", [one.name for one in MUTATIONS.values() if one.quick])
def test_what_is_wrong_is_found(name: str) -> None:
    _must_be_found(name)


@pytest.mark.campaign
@pytest.mark.parametrize("name", [one.name for one in MUTATIONS.values() if not one.quick])
def test_what_is_wrong_and_rarely_shows_is_found(name: str) -> None:
    _must_be_found(name)


# The hunt itself


def _made_up(shows_at: int) -> tuple[Mutation, Callable[[int], None], list[int]]:
    """A mutation, and stories of which one ends badly while it is made; the seeds that were played."""
    played: list[int] = []

    def change(patch: Patch) -> None:
        patch.setattr(producer_window, "WINDOW_BATCHES_MAX", 4)

    def run(seed: int) -> None:
        played.append(seed)
        if seed == shows_at and producer_window.WINDOW_BATCHES_MAX < 5:
            raise PromiseBroken(f"made up seed {seed}: offset 7 is gone\n    0.0001  a story")

    mutation = Mutation("made up", "nothing is lost", change, "made_up", "is gone", range(5))
    return mutation, run, played


def test_a_hunt_ends_with_the_seed_that_finds_it_and_leaves_nothing_behind() -> None:
    mutation, run, played = _made_up(shows_at=3)
    found = hunt(mutation, run)
    assert (found.seed, found.played, found.words) == (3, 4, "offset 7 is gone")
    assert played == [0, 1, 2, 3]
    assert producer_window.WINDOW_BATCHES_MAX == 5


def test_a_story_that_ends_badly_for_another_reason_finds_nothing() -> None:
    mutation, run, _played = _made_up(shows_at=3)
    found = hunt(replace(mutation, noticed="stored twice"), run)
    assert (found.seed, found.played, found.words) == (None, 5, "offset 7 is gone")


def test_a_mutation_that_no_longer_fits_the_code_says_so() -> None:
    with pytest.raises(AttributeError, match="has no window_size: the mutation no longer fits"):
        Patch().setattr(producer_window, "window_size", 4)


def test_what_was_inherited_is_inherited_again() -> None:
    class Above:
        number = 1

    class Below(Above):
        pass

    patch = Patch()
    patch.setattr(Below, "number", 2)
    patch.undo()
    assert "number" not in vars(Below)
    assert Below.number == 1


def test_hunts_run_in_processes_and_are_told_in_a_line() -> None:
    (found,) = hunt_all(["syncs that are none"])
    assert found.seed is not None
    assert as_line(found).startswith("found   syncs that are none ")
    assert as_line(Hunt("syncs that are none", None, 60, 1.0, "")).endswith("log_crash: none of 60 seeds")

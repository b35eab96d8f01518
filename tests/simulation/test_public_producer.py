"""The public producer through broken connections, stalled links and kills: each record once, in order, or not at all.

Method: whole worlds on the simulated runtime, each from one integer, with and without transactions. Then the client is broken
on purpose, one promise at a time, and the judgement must notice within a few seeds.
"""

from collections.abc import Callable

import pytest

from broken_clients import aborts_by_committing, without_sequences, wrong_offset
from semel.client.producer import answers
from semel.exceptions import TimeoutException
from semel.verify.scenarios import public_producer
from story_kit import must_be_noticed, run_random_seeds, run_seeds

_FIXED = 20
_RANDOM = 5


@pytest.mark.parametrize("first", range(0, _FIXED, 10))
def test_fixed_seeds(first: int) -> None:
    run_seeds(public_producer.run, first, 10)


def test_random_seeds() -> None:
    run_random_seeds(public_producer.run, _RANDOM)


def test_a_run_is_reproduced_by_its_seed() -> None:
    digests = set()
    for _ in range(2):
        story = public_producer.Story(3, traced=True)
        story.run()
        digests.add(story.world.simulation.loop.trace_digest())
    assert len(digests) == 1


# Broken on purpose


def _hides_a_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Says nothing of records that may be stored."""
    monkeypatch.setattr(
        answers, "expired", lambda batch, _timeout_ms: TimeoutException(f"{batch.partition} failed")
    )


@pytest.mark.parametrize(
    ("break_it", "noticed"),
    [
        (without_sequences, "lies at|behind it"),
        (wrong_offset, "told was"),
        (_hides_a_doubt, "failed for certain"),
        (aborts_by_committing, "was not committed"),
    ],
)
def test_a_client_that_breaks_a_promise_is_noticed(
    monkeypatch: pytest.MonkeyPatch, break_it: Callable[[pytest.MonkeyPatch], None], noticed: str
) -> None:
    break_it(monkeypatch)
    must_be_noticed(public_producer.run, noticed, range(60))

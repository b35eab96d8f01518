"""Transactions through everything that goes wrong: all or nothing, fenced, never stuck, each input once in the output.

Method: whole worlds on the simulated runtime, each from one integer: writers of both protocols that commit, abort, freeze and
vanish, two instances of one transactional id, workers that consume, transform and produce, a broker that is killed and loses
power, a bad network. Fixed seeds keep what holds, random ones look for what does not; a failing seed fails again, alone:
`semel.verify.simulation.scenarios.transactions.run(seed)`. `test_mutations` breaks the broker on purpose: the judgement must notice.
"""

import pytest

from semel.verify.simulation.scenarios import transactions
from support.verify.story_kit import must_be_reproduced, run_random_seeds, run_seeds

_CHUNK = 8
_FIXED = 16
_RANDOM = 8


@pytest.mark.mission("READ-07")
@pytest.mark.parametrize("first", range(0, _FIXED, _CHUNK))
def test_fixed_seeds(first: int) -> None:
    run_seeds(transactions.run, first, _CHUNK)


def test_a_worker_that_is_far_behind_catches_up() -> None:
    """Its outputs were one batch, larger than a segment: refused, and tried again for ever."""
    transactions.run(160641565)


def test_a_log_that_refuses_rows_is_left_alone_for_a_while() -> None:
    """The seed of a campaign that never ended: loaded, a shard sent its markers, could not note it, and was loaded again at once."""
    transactions.run(16578)


def test_random_seeds() -> None:
    run_random_seeds(transactions.run, _RANDOM)


def test_a_run_is_reproduced_to_the_byte_by_its_seed() -> None:
    must_be_reproduced("transactions", 5)

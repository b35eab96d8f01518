"""A consumer group through everything that goes wrong: one owner, fenced commits, nothing forgotten, nothing left out.

Method: whole worlds on the simulated runtime, each from one integer: members that join, leave, freeze and die, a broker
that is killed and loses power, a bad network. Fixed seeds keep what holds, random ones look for what does not; a failing
seed fails again, alone: `semel.verify.simulation.scenarios.groups.run(seed)`. `test_mutations` breaks the coordinator on purpose: the
judgement must notice.
"""

import pytest

from semel.verify.simulation.scenarios import groups
from support.verify.story_kit import must_be_reproduced, run_random_seeds, run_seeds

_CHUNK = 8
_FIXED = 16
_RANDOM = 8


@pytest.mark.parametrize("first", range(0, _FIXED, _CHUNK))
def test_fixed_seeds(first: int) -> None:
    run_seeds(groups.run, first, _CHUNK)


def test_random_seeds() -> None:
    run_random_seeds(groups.run, _RANDOM)


def test_a_run_is_reproduced_to_the_byte_by_its_seed() -> None:
    must_be_reproduced("groups", 5)

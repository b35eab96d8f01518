"""Six faults on the way x two ways to write, with the public client: nothing lost, nothing twice, in order, all or nothing.

Method: whole worlds on the simulated runtime, each from one integer; the integer's remainder by twelve is the cell of the
table. `make campaign` plays a thousand of each. `test_mutations` breaks clients on purpose: the judgement must notice.
"""

import pytest

from semel.verify.simulation.scenarios import client_matrix
from semel.verify.simulation.scenarios.client_matrix import CELLS, Story
from support.verify.story_kit import must_be_reproduced, run_random_seeds

_SEEDS_PER_CELL = 2
_RANDOM = 6


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

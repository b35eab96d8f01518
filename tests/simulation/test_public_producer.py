"""The public producer through broken connections, stalled links and kills: each record once, in order, or not at all.

Method: whole worlds on the simulated runtime, each from one integer, with and without transactions. `test_mutations`
breaks the client on purpose: the judgement must notice.
"""

import pytest

from semel.verify.simulation.scenarios import public_producer
from support.verify.story_kit import run_random_seeds, run_seeds

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

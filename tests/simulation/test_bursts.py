"""Five requests in flight behind a link that loses, repeats and reorders them: each record once, in order.

Method: whole worlds on the simulated runtime, each from one integer. And a look at the plans of many seeds: every kind of fault
that this page of the documentation promises is drawn by some of them.
"""

from collections import Counter

from semel.runtime.randomness import seeded_dice
from semel.verify.faults.disturbances import KINDS, Reach, plan
from semel.verify.simulation.actors.admin import Admin
from semel.verify.simulation.scenarios import bursts, produce
from support.verify.story_kit import must_be_reproduced, run_random_seeds, run_seeds

_FIXED = 16
_RANDOM = 4


def test_fixed_seeds() -> None:
    run_seeds(bursts.run, 0, _FIXED)


def test_random_seeds() -> None:
    run_random_seeds(bursts.run, _RANDOM)


def test_a_run_is_reproduced_to_the_byte_by_its_seed() -> None:
    must_be_reproduced("bursts", 5)


def test_requests_are_harmed() -> None:
    story = bursts.Story(1)
    story.run()
    assert story.link.faults


def test_every_kind_of_fault_is_drawn() -> None:
    story = produce.Story(0)
    reach = Reach(
        clients=["producer0", Admin.name], mortal=["producer0"], admin=story.admin, topics=story.topics
    )
    drawn = Counter(
        type(disturbance).__name__
        for seed in range(100)
        for _at, disturbance in plan(seeded_dice(seed, "kinds"), reach, count=9, seconds=10.0)
    )
    assert len(drawn) == len(KINDS)

"""Three brokers, a ZooKeeper and three that stand for leader, through everything that goes wrong between any two of them.

Method: whole worlds on the simulated runtime, each from one integer; the electors speak ZooKeeper's bytes. `test_mutations` takes the
fence from a leader's writes: the judgement must notice. And a look at what the seeds play: leaders do change, and every kind of fault is
drawn.
"""

from collections import Counter

import pytest

from semel.runtime.randomness import seeded_dice
from semel.verify.faults.cluster_disturbances import CLUSTER_KINDS, ClusterReach
from semel.verify.faults.disturbances import drawn
from semel.verify.history.events import Elected, Reopened, Wrote
from semel.verify.simulation.scenarios import election
from support.verify.story_kit import must_be_reproduced, run_random_seeds, run_seeds

_CHUNK = 15
_FIXED = 30
_RANDOM = 10


@pytest.mark.parametrize("first", range(0, _FIXED, _CHUNK))
def test_fixed_seeds(first: int) -> None:
    run_seeds(election.run, first, _CHUNK)


def test_random_seeds() -> None:
    run_random_seeds(election.run, _RANDOM)


def test_a_run_is_reproduced_to_the_byte_by_its_seed() -> None:
    must_be_reproduced("election", 5)


def test_leaders_change_and_every_broker_ends() -> None:
    elected, wrote, ended = 0, 0, Counter[str]()
    for seed in range(10):
        story = election.Story(seed)
        story.run()
        history = story.world.history
        elected += sum(1 for _ in history.of(Elected))
        wrote += sum(1 for _ in history.of(Wrote))
        ended.update(one.broker for one in history.of(Reopened) if one.endings)
    assert elected > 15
    assert wrote > 100
    assert set(ended) == {"broker1", "broker2", "broker3"}


def test_every_kind_of_fault_is_drawn() -> None:
    reach = ClusterReach(["broker1", "broker2"], ["elector0", "producer0"])
    kinds = Counter(
        type(disturbance).__name__
        for seed in range(100)
        for _at, disturbance in drawn(
            seeded_dice(seed, "kinds"), reach, count=9, seconds=10.0, kinds=CLUSTER_KINDS
        )
    )
    assert len(kinds) == len(CLUSTER_KINDS)

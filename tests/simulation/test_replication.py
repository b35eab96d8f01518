"""Three members of a cluster under a model of Kafka's controller, through everything that goes wrong between any two of them.

Method: whole worlds on the simulated runtime, each from one integer; the members are real brokers, the controllers a model. A witness
looks at all logs and at ZooKeeper's states, and what it saw is judged beside what clients were told. `test_mutations` breaks members on
purpose. And a look at what the seeds play: leaders change, members end in every way, and every kind of fault is drawn.
"""

from collections import Counter

import pytest

from semel.runtime.randomness import seeded_dice
from semel.verify.faults.disturbances import drawn
from semel.verify.faults.replication_disturbances import ReplicationReach, kinds, peaceful_kinds
from semel.verify.history.events import Reopened
from semel.verify.simulation.scenarios import replication
from support.verify.story_kit import must_be_reproduced, run_random_seeds, run_seeds

_CHUNK = 10
_FIXED = 30
_RANDOM = 8


@pytest.mark.parametrize("first", range(0, _FIXED, _CHUNK))
def test_fixed_seeds(first: int) -> None:
    run_seeds(replication.run, first, _CHUNK)


def test_random_seeds() -> None:
    run_random_seeds(replication.run, _RANDOM)


def test_a_run_is_reproduced_to_the_byte_by_its_seed() -> None:
    must_be_reproduced("replication", 5)


def test_leaders_change_and_members_end_in_every_way() -> None:
    led, shrunk, ended, endings = 0, 0, Counter[str](), Counter[str]()
    for seed in range(10):
        story = replication.Story(seed)
        story.run()
        led += len(story.witness.seen.led)
        shrunk += sum(len(one.isr) < len(one.replicas) for one in story.witness.seen.states)
        for one in story.world.history.of(Reopened):
            endings.update(one.endings)
            ended[one.broker] += bool(one.endings)
    assert led > 100
    assert shrunk > 50
    assert set(ended) == {"broker1", "broker2", "broker3"}
    assert set(endings) == {"kill", "power cut", "clean stop"}


def test_every_kind_of_fault_is_drawn() -> None:
    story = replication.Story(1)
    reach = ReplicationReach(
        ["broker1", "broker2", "broker3"],
        ["controller0", "controller1"],
        ["producer0"],
        story.cluster_admin,
        story.topics,
        story.rest,
    )
    for choices in (kinds(("kill", "power cut", "clean stop")), peaceful_kinds()):
        found = Counter(
            type(disturbance).__name__
            for seed in range(100)
            for _at, disturbance in drawn(
                seeded_dice(seed, "kinds"), reach, count=9, seconds=10.0, kinds=choices
            )
        )
        expected = {type(draw(seeded_dice(1, name), reach)).__name__ for name, draw in choices.items()}
        assert expected <= set(found)

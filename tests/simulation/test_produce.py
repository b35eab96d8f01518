"""A broker and idempotent clients through everything that goes wrong: nothing is lost, doubled or out of order.

Method: whole worlds on the simulated runtime, each from one integer. Fixed seeds keep what holds, random ones look for what
does not; a failing seed is printed with its story and fails again, alone: `semel.verify.simulation.scenarios.produce.run(seed)`.
`test_mutations` breaks the broker on purpose: the judgement must notice.
"""

import pytest

from semel.verify.simulation.scenarios import produce
from support.verify import story_digests
from support.verify.story_kit import must_be_reproduced, run_random_seeds, run_seeds

_CHUNK = 20
_FIXED = 120
_RANDOM = 20


@pytest.mark.parametrize("first", range(0, _FIXED, _CHUNK))
def test_fixed_seeds(first: int) -> None:
    run_seeds(produce.run, first, _CHUNK)


# Each of these once showed a flaw, of the broker or of the log below it.
@pytest.mark.parametrize(
    ("seed", "what"),
    [
        (836, "a topic made again took over the log of the one before, whose deletion the disk had refused"),
        (1071, "the same, found by a kill"),
        (10040, "a log that had failed a sync was synced again, and believed"),
    ],
)
def test_seeds_that_once_failed(seed: int, what: str) -> None:
    produce.run(seed)


def test_random_seeds() -> None:
    run_random_seeds(produce.run, _RANDOM)


def test_a_run_is_reproduced_to_the_byte_by_its_seed() -> None:
    must_be_reproduced("produce", 17)


def test_other_seeds_are_other_runs() -> None:
    assert len({story_digests.digests("produce", seed) for seed in range(3)}) == 3

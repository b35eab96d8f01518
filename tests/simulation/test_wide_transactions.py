"""Twelve partitions of three topics and a group's offsets: all of a transaction or nothing, wherever the broker dies.

Method: whole worlds on the simulated runtime, in each of which the broker dies tens of times, inside changes of its disk and
between them; `make campaign` plays as many as give ten thousand deaths.
"""

import itertools
import multiprocessing
import os

import pytest

from semel.verify.simulation.scenarios import wide_transactions
from support.verify.story_kit import must_be_reproduced, run_random_seeds

_FIXED = 2
_MANY_DEATHS = 10_000


@pytest.mark.mission("TXN-14")
@pytest.mark.parametrize("seed", range(_FIXED))
def test_fixed_seeds(seed: int) -> None:
    deaths = wide_transactions.deaths_in(seed)
    print(f"{deaths} deaths")
    assert deaths >= wide_transactions.DEATHS // 4  # Some that were planned fell together.


def test_random_seeds() -> None:
    run_random_seeds(wide_transactions.run, 2)


def test_a_run_is_reproduced_to_the_byte_by_its_seed() -> None:
    must_be_reproduced("wide_transactions", 2)


@pytest.mark.campaign  # About ten minutes of CPU.
@pytest.mark.timeout(7200)
@pytest.mark.mission("TXN-01")
def test_ten_thousand_deaths() -> None:
    deaths = 0
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        for first in itertools.count(0, 100):
            seeds = range(first, first + 100)
            deaths += sum(pool.map(wide_transactions.deaths_in, seeds, chunksize=5))
            print(f"{seeds.stop} stories, {deaths} deaths")
            if deaths >= _MANY_DEATHS:
                break
    assert deaths >= _MANY_DEATHS

"""How a scenario with a whole broker is put to the test: by fixed and random seeds, and twice over.

Fixed seeds keep what holds, random ones look for what does not; a failing seed is printed with its story and fails again,
alone: `semel.verify.simulation.scenarios.produce.run(seed)`. A run is reproduced to the byte by its seed. And a judgement that cannot
fail is none: `test_mutations` breaks brokers and clients on purpose.
"""

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from support.verify import story_digests

Run = Callable[[int], None]


def run_seeds(run: Run, first: int, count: int) -> None:
    for seed in range(first, first + count):
        run(seed)


def run_random_seeds(run: Run, count: int) -> None:
    first = random.SystemRandom().randrange(10**6, 10**9)
    print(f"seeds {first} to {first + count - 1}")
    run_seeds(run, first, count)


def must_be_reproduced(scenario: str, seed: int) -> None:
    """Twice, in processes whose sets and dictionaries of strings are ordered differently."""
    program = Path(story_digests.__file__)
    printed = set()
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, str(program), scenario, str(seed)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        printed.add(done.stdout)
    assert len(printed) == 1
    assert len(printed.pop().split()) == 2

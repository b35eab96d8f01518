"""How a scenario with a whole broker is put to the test: by fixed and random seeds, twice over, and on broken brokers.

Fixed seeds keep what holds, random ones look for what does not; a failing seed is printed with its story and fails again,
alone: `semel.verify.scenarios.produce.run(seed)`. A run is reproduced to the byte by its seed. And a judgement that cannot
fail is none: the broker is broken on purpose, one promise at a time, and the judgement must notice within a few seeds.
"""

import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

import story_digests
from semel.verify.promise import PromiseBroken

Run = Callable[[int], None]
Break = Callable[[pytest.MonkeyPatch], None]


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


def must_be_noticed(run: Run, noticed: str, seeds: Iterable[int]) -> None:
    """One of these seeds must find what is broken, and its judgement say so: `noticed` is a pattern."""
    other_findings = []
    for seed in seeds:
        try:
            run(seed)
        except PromiseBroken as broken:
            judgement = re.split(r"\n *\d+\.\d{4}  ", str(broken))[0]  # After it comes the history.
            if re.search(noticed, judgement) and f"seed {seed}" in judgement:
                print(f"found by seed {seed}")
                return
            other_findings.append(judgement.splitlines()[0])
    pytest.fail(f"{seeds}, and nothing says {noticed!r}, only {other_findings}")

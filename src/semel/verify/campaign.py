"""Long seeded runs: every scenario over many seeds, on all cores, with the outcome written down.

Role.   `make campaign`. CI plays a few hundred seeds; a campaign plays as many as its time allows.
Flow.   `semel verify --sim` plays a mix of all scenarios (`shares`); so does `make campaign`.
Rules.  * A seed is a whole story: the same seed fails again, alone (`again` is the command).
        * A failing seed stops nothing; its story goes into the report, and the exit code is 1.
        * The page says what was run: scenario, seeds, how long, commit, date, machine.

Usage.  python -m semel.verify.campaign [--only NAME[:N]]… [--first N] [--seeds N] [--write docs/campaign.md]
"""

import argparse
import logging
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from semel.runtime.environment import environment
from semel.verify import campaign_page
from semel.verify.campaign_page import Run
from semel.verify.simulation.scenarios import (
    bursts,
    client_matrix,
    compaction_crash,
    directory_crash,
    election,
    groups,
    log_crash,
    produce,
    public_producer,
    rare_transactions,
    replication,
    transactions,
    wide_transactions,
)

SCENARIOS: Final[Mapping[str, Callable[[int], None]]] = {
    "bursts": bursts.run,
    "client_matrix": client_matrix.run,
    "compaction_crash": compaction_crash.run,
    "directory_crash": directory_crash.run,
    "election": election.run,
    "groups": groups.run,
    "log_crash": log_crash.run,
    "produce": produce.run,
    "public_producer": public_producer.run,
    "rare_transactions": rare_transactions.run,
    "replication": replication.run,
    "transactions": transactions.run,
    "wide_transactions": wide_transactions.run,
}
MIX: Final[Mapping[str, int]] = {
    "bursts": 80,
    "client_matrix": 50,
    "compaction_crash": 100,
    "directory_crash": 100,
    "election": 40,
    "groups": 50,
    "log_crash": 220,
    "produce": 100,
    "public_producer": 24,
    "rare_transactions": 15,
    "replication": 100,
    "transactions": 120,
    "wide_transactions": 1,
}
"""Of a thousand seeds: cheap scenarios are played most, and every scenario takes some of the time."""
_SEEDS_DEFAULT: Final = 100_000
_CHUNK: Final = 50
_STORIES_MAX: Final = 20


def shares(seeds: int) -> dict[str, int]:
    """How many of so many seeds each scenario plays: by its share in the mix; seeds left by rounding go to scenarios without any."""
    total = sum(MIX.values())
    shared = {name: seeds * share // total for name, share in MIX.items()}
    by_need = sorted(MIX, key=lambda name: (shared[name] > 0, -MIX[name]))
    for name in by_need[: seeds - sum(shared.values())]:
        shared[name] += 1
    return {name: count for name, count in shared.items() if count}


def again(name: str, seed: int) -> str:
    """The command that plays a seed again."""
    return f"semel verify --sim --story {name} --seeds 1 --seed {seed}"


def play(task: tuple[str, int]) -> tuple[int, str] | None:
    """Run one seed; the seed and its story if a promise was broken."""
    name, seed = task
    logging.disable(logging.CRITICAL)  # Scenarios damage files by the thousand; every repair would be a line.
    try:
        SCENARIOS[name](seed)
    except Exception as error:
        return seed, f"{type(error).__name__}: {error}"
    return None


def run(name: str, first: int, seeds: int, progress: Callable[[int], None]) -> Run:
    """Play `seeds` seeds from `first` on, on every core."""
    here = environment("")  # Now: the checkout may go on while this runs.
    started = time.monotonic()
    failures = []
    cores = os.cpu_count() or 1
    with multiprocessing.get_context("spawn").Pool(min(cores, seeds)) as pool:
        tasks = ((name, seed) for seed in range(first, first + seeds))
        chunk = max(1, min(_CHUNK, seeds // (4 * cores)))  # The last ones shall not be left to one core.
        for done, failure in enumerate(pool.imap_unordered(play, tasks, chunksize=chunk), start=1):
            if failure is not None:
                failures.append(failure)
            if done % max(1, min(1000, seeds // 20)) == 0 or done == seeds:
                progress(done)
    return Run(
        name=name,
        first=first,
        seeds=seeds,
        seconds=time.monotonic() - started,
        failures=tuple(sorted(failures)),
        commit=here.commit,
        date=here.date,
        machine=f"{here.python}, {here.cores} cores of {here.processor}",
    )


def _chosen(text: str) -> tuple[str, int | None]:
    """`NAME` or `NAME:N`."""
    name, colon, seeds = text.partition(":")
    if name not in SCENARIOS:
        raise argparse.ArgumentTypeError(
            f"{name!r} is not a scenario; there are {', '.join(sorted(SCENARIOS))}"
        )
    if colon and not (seeds.isdecimal() and int(seeds)):
        raise argparse.ArgumentTypeError(f"{seeds!r} is not a number of seeds, as in {name}:1000")
    return name, int(seeds) if colon else None


def _print_progress(name: str, done: int) -> None:
    print(f"{name}: {done} seeds", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line of this module."""
    parser = argparse.ArgumentParser(prog="python -m semel.verify.campaign", description="Long seeded runs.")
    parser.add_argument(
        "--only",
        action="append",
        type=_chosen,
        metavar="NAME[:N]",
        help="this scenario, N seeds of it; may be repeated",
    )
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first seed (default 0)")
    parser.add_argument(
        "--seeds",
        type=int,
        default=_SEEDS_DEFAULT,
        metavar="N",
        help="how many, of the mix or of what was chosen (default %(default)s)",
    )
    parser.add_argument("--write", type=Path, metavar="PAGE", help="add the outcome to this page")
    options = parser.parse_args(arguments)
    outcomes = []
    for name, seeds in options.only or shares(options.seeds).items():
        outcome = run(name, options.first, seeds or options.seeds, partial(_print_progress, name))
        print(f"{name}: {outcome.seeds} seeds in {outcome.seconds:.0f} s, {len(outcome.failures)} failed")
        for seed, story in outcome.failures[:_STORIES_MAX]:
            print(f"seed {seed}: {story}\nagain: {again(name, seed)}")
        outcomes.append(outcome)
    if options.write:
        campaign_page.add(options.write, outcomes)
    return 1 if any(outcome.failures for outcome in outcomes) else 0


if __name__ == "__main__":
    raise SystemExit(main())

"""The hunt for every mutation, on every core: `semel verify --self-test`.

Role.   Shows that simulation and judgement find errors: each mutation is made, and stories are played until one of them
        breaks the expected promise.
Rules.  * A worker makes one mutation at a time and undoes it: its next story is not touched by it.
        * A mutation that is not found within its seeds is a flaw of the simulation, and reported as missed.
"""

import logging
import multiprocessing
import os
from collections.abc import Iterator, Sequence

from semel.verify.campaign import SCENARIOS
from semel.verify.mutations.catalogue import MUTATIONS
from semel.verify.mutations.mutation import Hunt, hunt


def hunt_one(name: str) -> Hunt:
    """The hunt for the mutation of this name, in this process."""
    logging.disable(logging.CRITICAL)  # Code broken on purpose complains at length.
    return hunt(MUTATIONS[name], SCENARIOS[MUTATIONS[name].scenario])


def hunt_all(names: Sequence[str] = tuple(MUTATIONS), processes: int | None = None) -> Iterator[Hunt]:
    """Each hunt as soon as it is over."""
    with multiprocessing.get_context("spawn").Pool(processes or os.cpu_count()) as pool:
        yield from pool.imap_unordered(hunt_one, names)


def as_line(found: Hunt) -> str:
    """A row of the table: found or missed, what was wrong, the promise that breaks, the story, the seed."""
    mutation = MUTATIONS[found.name]
    of = f"{found.played} of at most {len(mutation.seeds)}"
    where = f"seed {found.seed}, the {of}" if found.seed is not None else f"none of {found.played} seeds"
    word = "found" if found.seed is not None else "MISSED"
    return f"{word:<7} {found.name:<48} {mutation.breaks:<82} {mutation.scenario}: {where}"

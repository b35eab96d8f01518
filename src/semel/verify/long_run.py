"""An hour of everything at once: all programs, a fault every few seconds, and how the broker does meanwhile.

Role.   `python -m semel.verify.long_run --write docs/long-run.md` plays one long proof and writes down what came of it, with a picture
        of operations, faults, memory and handles. `make campaign` does so.
Rules.  * The broker is killed seldom, so that what it holds can grow: everything else is done to it all the time.
        * The exit code is 0 only if it came to its end and nothing was found. Whether memory and handles stayed flat is on the page, in numbers and
          to be seen: the first quarter of the time beside the last.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from semel.runtime.environment import Environment, environment
from semel.verify.proof.options import Options
from semel.verify.proof.page import as_data, drawn, portrait
from semel.verify.proof.programs import Stage
from semel.verify.proof.progress import Standing
from semel.verify.proof.report import as_text, trends
from semel.verify.proof.runner import Proof, UnfinishedError, prove

_HOUR_SECONDS: Final = 3600.0
_FAULT_SECONDS: Final = 3.0
_LIFE_SHARE: Final = 0.3
"""How much of the run a broker lives before it may be killed: a few lives in all."""
_SHOWN_SECONDS: Final = 30.0
_FLAT_AFTER_SECONDS: Final = 600.0
_GROWTH_MAX: Final = 1.25
"""The last quarter of the time over the first, where that is still called flat."""


def page(proof: Proof, where: Environment, picture: str) -> str:
    """The published page: the command, its result, and the picture beside it."""
    verdict = "Nothing was lost, duplicated, reordered or torn; nothing else was found."
    told = as_text(proof, where.command)
    return (
        "# The long run\n\n"
        f"Every workload of [`semel verify`](verify.md) but Spark's on one broker, with a fault every {_FAULT_SECONDS:.0f} s in the mean. "
        "Written by the command below, do not edit.\n\n"
        f"{where.text}\n"
        f"{verdict if not proof.findings else 'Promises were broken: see below.'} "
        f"{growth_told(proof)}{lives_told(proof)}\n\n"
        f"![operations, faults, memory and handles over time]({picture})\n\n"
        "```\n" + "\n".join(told) + "\n```\n"
    )


def grown(proof: Proof) -> list[str]:
    """The resources the broker held more of at the end than at the beginning; none after a short run."""
    if proof.seconds < _FLAT_AFTER_SECONDS:
        return []
    return [
        name.removesuffix("_bytes")
        for name, one in trends(proof).items()
        if one is not None and one.last > one.first * _GROWTH_MAX
    ]


def growth_told(proof: Proof) -> str:
    """Whether the broker stayed as it was, in words; nothing after a short run."""
    if proof.seconds < _FLAT_AFTER_SECONDS or not proof.vitals:
        return ""
    what = " and ".join(grown(proof))
    return f"Its {what} grew. " if what else "The broker's memory and handles stayed flat. "


def lives_told(proof: Proof) -> str:
    """How many lives the broker had, by the processes that were looked at."""
    lives = len({one.pid for one in proof.vitals})
    if lives <= 1:
        return "The broker was not killed in it: all of it is one life."
    return (
        f"The broker is killed seldom here, so that what it holds can grow: it had {lives} lives, and each drop of its memory in the "
        "picture is a new one."
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line of this module."""
    parser = argparse.ArgumentParser(prog="python -m semel.verify.long_run", description="An hour of faults.")
    parser.add_argument(
        "--seconds", type=float, default=_HOUR_SECONDS, help="how long (default %(default).0f)"
    )
    parser.add_argument("--seed", type=int, default=1, help="decides which faults (default %(default)s)")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="write page, picture and its data here")
    given = parser.parse_args(arguments)
    where = environment(
        f"python -m semel.verify.long_run --seconds {given.seconds:.0f} --seed {given.seed}"
    )  # Now: the checkout may go on while this runs.
    options = Options(
        seconds=given.seconds,
        seed=given.seed,
        fault_seconds=_FAULT_SECONDS,
        life_seconds=given.seconds * _LIFE_SHARE,
    )
    standing = Standing(given.seconds)

    def show(stage: Stage, what: str) -> None:
        if standing.is_due(stage, _SHOWN_SECONDS):
            print(standing.line(stage, what), file=sys.stderr, flush=True)

    try:
        proof = asyncio.run(prove(options, show))
    except UnfinishedError as error:
        print("\n".join(as_text(error.proof, where.command)))
        return 1
    print("\n".join(as_text(proof, where.command)))
    if given.write is not None:
        picture = given.write.with_suffix(".svg")
        seen = portrait(proof)
        picture.write_text(drawn(seen), encoding="utf-8")
        given.write.with_suffix(".json").write_text(json.dumps(as_data(seen)) + "\n", encoding="utf-8")
        given.write.write_text(page(proof, where, picture.name), encoding="utf-8")
    for what in grown(proof):
        print(f"The broker's {what} grew by more than {_GROWTH_MAX - 1:.0%}.")
    return 1 if proof.findings or grown(proof) else 0


if __name__ == "__main__":
    raise SystemExit(main())

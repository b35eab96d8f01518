"""`python -m semel.bench`: measure beside the peers, print, and write the page.

Role.   Runs the modules named below (each has `comparisons()`), one after the other.
Flow.   `make bench` calls it with `--write docs/benchmarks.md`; the figures are kept in docs/benchmarks.json.
Rules.  * A page is never written from a quick run: its figures are for the eye of whoever is changing code.
        * Exit code 0 measured, 1 failed, 2 wrong usage. A missed target is a result, not a failure.
"""

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from semel.bench.beside_kafka import check
from semel.bench.measure import PAIRS_DEFAULT, ROUND_SECONDS_MIN, measure
from semel.bench.peer import add_peer_options, peer_of, peer_words
from semel.bench.report import Section, aligned, as_json, as_markdown, comparison_lines, update
from semel.errors import SemelError
from semel.runtime.environment import environment

NAMES: Final = ("codec", "kernels", "runtime", "log", "client", "tables")
_OWN_PAGES: Final = (
    "abuse",
    "broker",
    "cleaner",
    "groups",
    "idempotence",
    "profile",
    "recovery",
    "scale",
    "spark",
    "transactions",
)
"""Whole processes: measured in their own way, each on its page."""
_WITH_PEER: Final = ("client",)
_QUICK_PAIRS: Final = 3
_QUICK_ROUND_SECONDS: Final = 0.01


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] in _OWN_PAGES:
        return importlib.import_module(f"semel.bench.{given[0]}").main(given[1:])  # type: ignore[no-any-return]
    options = _options(arguments)
    try:
        _run(options)
    except SemelError as error:
        print(f"semel.bench: {error}", file=sys.stderr)
        return 1
    return 0


def _run(options: argparse.Namespace) -> None:
    sections: list[Section] = []
    for name in dict.fromkeys(options.names or NAMES):
        section = _measure_section(name, options)
        sections.append(section)
        if options.write is not None:  # After each section: an error in a later one must not cost this one.
            _write(options.write, section)
    if options.json:
        print(as_json(sections), end="")


def _write(page: Path, section: Section) -> None:
    merged = update(page.with_suffix(".json"), [section], NAMES)
    page.write_text(as_markdown(merged), encoding="utf-8")
    print(f"{section.name}: written to {page} and {page.with_suffix('.json')}", file=sys.stderr)


def _measure_section(name: str, options: argparse.Namespace) -> Section:
    module = importlib.import_module(f"semel.bench.{name}")
    # Only clients need a broker to talk to, and so a peer that has one.
    comparisons = module.comparisons(peer_of(options)) if name in _WITH_PEER else module.comparisons()
    about = (module.__doc__ or name).strip().splitlines()[0]
    pairs = options.pairs or (_QUICK_PAIRS if options.quick else PAIRS_DEFAULT)
    seconds = _QUICK_ROUND_SECONDS if options.quick else ROUND_SECONDS_MIN
    if not options.json:
        print(f"\n## {name}: {about}", flush=True)
    results = []
    for comparison in comparisons:
        results.append(measure(comparison, pairs, round_seconds_min=seconds))
        if not options.json:
            print(aligned(comparison_lines(results[-1])), end="", flush=True)
    again = f"python -m semel.bench {name} --pairs {pairs}" + (" --quick" if options.quick else "")
    again += peer_words(options) if name in _WITH_PEER else ""
    return Section(name=name, about=about, environment=environment(again), results=tuple(results))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m semel.bench",
        description="Measure Semel beside its peers, in interleaved rounds.",
        epilog="Example: python -m semel.bench kernels --pairs 15 --write benchmarks.md. "
        "The broker, its cleaner, groups, transactions and Spark beside their peers have options of their own: python -m semel.bench broker --help",
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"what to measure: {', '.join(NAMES)}; all if none given"
    )
    parser.add_argument("--pairs", type=int, help=f"rounds per comparison, default {PAIRS_DEFAULT}")
    parser.add_argument(
        "--quick", action="store_true", help="few short rounds: a first look, not to be published"
    )
    parser.add_argument(
        "--json", action="store_true", help="print the measurements as JSON instead of tables"
    )
    parser.add_argument(
        "--write", type=Path, metavar="PAGE.md", help="write this page, and the figures as JSON beside it"
    )
    add_peer_options(parser)
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.names if name not in NAMES]:
        parser.error(f"there is no benchmark {', '.join(unknown)}; choose from {', '.join(NAMES)}")
    check(parser, options)
    return options


if __name__ == "__main__":
    sys.exit(main())

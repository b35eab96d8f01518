"""Command-line options and page writing of every bench beside Apache Kafka.

Role.   `parser_of`, `options_of`, `carry_out` and `write_page` are shared by the suites, so that they mean the same words.
Rules.  Figures of `--quick` are never written to a page.
"""

import argparse
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from semel.bench.broker_figures import HEADER, Figure, as_json, page, summary
from semel.bench.measure import PAIRS_DEFAULT, PAIRS_MAX
from semel.bench.peer import add_peer_options, beside_kafka
from semel.bench.pictures import picture as suite_picture
from semel.bench.report import aligned
from semel.errors import SemelError
from semel.peers import kafka as kafka_peer
from semel.runtime.environment import environment

_WITH_ITS_OWN_PEERS: Final = ("spark",)
_OF_PROCESSES: Final = ("abuse", "recovery", "scale")
"""Measured by starting and killing brokers."""


def parser_of(name: str, what: str) -> argparse.ArgumentParser:
    """The options of `python -m semel.bench NAME`; add what is special to one."""
    parser = argparse.ArgumentParser(
        prog=f"python -m semel.bench {name}",
        description=f"Measure {what} beside Apache Kafka, in interleaved rounds.",
        epilog=f"Example: python -m semel.bench {name} --pairs 7 --write benchmarks-{name}.md",
    )
    parser.add_argument("--pairs", type=int, help=f"rounds per workload, default {PAIRS_DEFAULT}")
    parser.add_argument(
        "--quick", action="store_true", help="little work, few rounds: a first look, not to be published"
    )
    parser.add_argument("--directory", type=Path, help="where both brokers keep their data while it runs")
    parser.add_argument(
        "--write", type=Path, metavar="PAGE.md", help="write the page, its plot and its figures"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures as JSON")
    if name in _WITH_ITS_OWN_PEERS:
        parser.set_defaults(against=None, alone=False, beside=None)
    else:
        add_peer_options(parser, elsewhere=name not in _OF_PROCESSES)
    return parser


def options_of(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    """The parsed and checked options."""
    options = parser.parse_args(arguments)
    check(parser, options)
    return options


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """End with an error if these do not go together."""
    if options.pairs is not None and not 1 <= options.pairs <= PAIRS_MAX:
        parser.error(f"--pairs {options.pairs} is out of range; choose between 1 and {PAIRS_MAX}")
    if options.write is not None and options.write.suffix != ".md":
        parser.error(f"--write {options.write} is not a Markdown page; name one that ends in .md")
    if options.quick and options.write is not None:
        parser.error("--quick figures are not for a page; leave out --quick or --write")
    if options.write is not None and not beside_kafka(options):
        parser.error("a page is written beside the Apache Kafka of this machine; --json keeps any figures")


def carry_out(
    options: argparse.Namespace,
    measure: Callable[[Path], list[Figure]],
    command: str,
    notes: Sequence[str],
    *,
    suite: str,
    header: str = HEADER,
    also: Callable[[Sequence[Figure]], str] | None = None,
) -> int:
    """Measure in a temporary folder, show the results, write the page; returns the exit code.

    `suite` decides which picture the page has; `also` is more of the page, after what was reached.
    """
    # A kill must end the brokers too, and remove what they wrote.
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    root = Path(tempfile.mkdtemp(prefix="semel-bench-", dir=options.directory))
    if options.beside is not None:
        print(
            f"The columns of Kafka hold the Semel of {options.beside}; targets are those beside Apache Kafka, and decide nothing here.",
            flush=True,
        )
    try:
        figures = measure(root)
    except SemelError as error:
        print(f"semel.bench: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(root, ignore_errors=True)
        signal.signal(signal.SIGTERM, before)
    if options.beside is None:
        show(summary(figures))
    if options.json is not None:
        options.json.write_text(as_json(figures, environment(command), notes), encoding="utf-8")
    if options.write is not None:
        write_page(options.write, figures, command, notes, header=header, suite=suite, also=also)
    return 0


def show(text: str) -> None:
    """Print figures as they arrive, in columns aligned for a terminal."""
    print(aligned(text), flush=True)


def write_page(
    path: Path,
    figures: Sequence[Figure],
    command: str,
    notes: Sequence[str],
    *,
    suite: str,
    header: str = HEADER,
    also: Callable[[Sequence[Figure]], str] | None = None,
) -> None:
    """The page, its plot and its figures beside it. `command` repeats the run."""
    where = environment(command)
    picture = path.with_suffix(".svg")
    drawn = suite_picture(suite, figures)
    picture.write_text(drawn, encoding="utf-8")
    path.with_suffix(".json").write_text(as_json(figures, where, notes), encoding="utf-8")
    text = page(
        figures,
        where,
        notes,
        kafka_version=kafka_peer.DEFAULT_VERSION,
        plot=picture.name,
        header=header,
        also="" if also is None else also(figures),
    )
    path.write_text(text, encoding="utf-8")
    print(f"written to {path}, {picture} and {path.with_suffix('.json')}", file=sys.stderr)

"""What every bench beside Apache Kafka asks on its command line, and how it writes its page.

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

from semel.bench import kafka_peer
from semel.bench.broker_figures import HEADER, Figure, as_json, page, summary
from semel.bench.measure import PAIRS_DEFAULT, PAIRS_MAX
from semel.bench.plot import ratio_plot
from semel.errors import SemelError
from semel.runtime.environment import environment


def parser_of(name: str, what: str) -> argparse.ArgumentParser:
    """The options of `python -m semel.bench NAME`; add what is special to one."""
    parser = argparse.ArgumentParser(
        prog=f"python -m semel.bench {name}",
        description=f"Measure {what} beside Apache Kafka, in interleaved rounds.",
        epilog=f"Example: python -m semel.bench {name} --pairs 7 --write docs/benchmarks-{name}.md",
    )
    parser.add_argument("--pairs", type=int, help=f"rounds per workload, default {PAIRS_DEFAULT}")
    parser.add_argument(
        "--quick", action="store_true", help="little work, few rounds: a first look, not to be published"
    )
    parser.add_argument("--directory", type=Path, help="where both brokers keep their data while it runs")
    parser.add_argument(
        "--write", type=Path, metavar="PAGE.md", help="write the page, its plot and its figures"
    )
    return parser


def options_of(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    """What was asked for, if it can be."""
    options = parser.parse_args(arguments)
    if options.pairs is not None and not 1 <= options.pairs <= PAIRS_MAX:
        parser.error(f"--pairs {options.pairs} is out of range; choose between 1 and {PAIRS_MAX}")
    if options.write is not None and options.write.suffix != ".md":
        parser.error(f"--write {options.write} is no Markdown page; name one that ends in .md")
    if options.quick and options.write is not None:
        parser.error("--quick figures are not for a page; leave out --quick or --write")
    return options


def carry_out(
    options: argparse.Namespace,
    measure: Callable[[Path], list[Figure]],
    command: str,
    notes: Sequence[str],
    *,
    header: str = HEADER,
) -> int:
    """Measure in a folder that is removed whatever happens, show what was reached, write the page; the exit code."""
    # A kill must end the brokers too, and remove what they wrote.
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    root = Path(tempfile.mkdtemp(prefix="semel-bench-", dir=options.directory))
    try:
        figures = measure(root)
    except SemelError as error:
        print(f"semel.bench: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(root, ignore_errors=True)
        signal.signal(signal.SIGTERM, before)
    print(summary(figures))
    if options.write is not None:
        write_page(options.write, figures, command, notes, header=header)
    return 0


def show(text: str) -> None:
    """Figures as soon as they are there."""
    print(text, flush=True)


def write_page(
    path: Path, figures: Sequence[Figure], command: str, notes: Sequence[str], *, header: str = HEADER
) -> None:
    """The page, its plot and its figures beside it. `command` repeats the run."""
    where = environment(command)
    plot = path.with_suffix(".svg")
    plot.write_text(ratio_plot(figures, "Semel ÷ Apache Kafka"), encoding="utf-8")
    path.with_suffix(".json").write_text(as_json(figures, where, notes), encoding="utf-8")
    text = page(
        figures, where, notes, kafka_version=kafka_peer.DEFAULT_VERSION, plot=plot.name, header=header
    )
    path.write_text(text, encoding="utf-8")
    print(f"written to {path}, {plot} and {path.with_suffix('.json')}", file=sys.stderr)

"""How a broker comes back: after kill -9 and after a clean stop, with little and with much to read, beside Apache Kafka.

Role.   `python -m semel.bench recovery` fills both brokers, ends them in both ways, and times starts on clones of what they left;
        `--write` makes the page, its figures as JSON and its plot.
Flow.   fill -> kill -9 -> that directory is kept; a start on a clone of it and a clean stop give the second one -> rounds of starts on
        clones, one broker and then the other.
Rules.  * A start is timed from the moment the process is asked for: until it says that it serves, and until every partition has given
          its first records. CPU seconds and memory are those of the process at that moment.
        * The records are in the system's page cache: what is timed is the broker, not the disk's reading.
        * Whatever happens, no process is left behind.
"""

import argparse
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from semel.bench import broker_lives as lives
from semel.bench.beside_kafka import carry_out, options_of, parser_of, show
from semel.bench.broker_figures import Figure, Target, figure, table
from semel.bench.broker_workloads import KAFKA, SEMEL
from semel.bench.measure import PAIRS_DEFAULT, BenchError
from semel.bench.peer import Maker, own_makers, peer_of, peer_words
from semel.bench.processes import clone
from semel.core.records.build import load_kernels

_QUICK_PAIRS: Final = 1
_GB: Final = 1_000_000_000
_KILLED, _STOPPED = "after kill -9", "after a clean stop"
_A_FIFTH: Final = Target(0.2)
_HEADER: Final = """\
# Coming back, beside Apache Kafka

Written by `python -m semel.bench recovery --write docs/benchmarks-recovery.md`; do not edit. Each start is a process of its own on a
clone of the same files, one broker and then the other, every second round in the opposite order; Apache Kafka {version} at the settings
it ships with and its heap of 1 GB. A figure is the median of the rounds, the brackets hold the true median with the probability below;
*Semel ÷ Kafka* is taken inside each round. Batches are of 16 KB, records of 1 KiB.

![Semel beside Apache Kafka]({plot})

"""
_NOTES: Final = (
    "The records are in the page cache of the system: a disk that has to be read first adds its time to both.",
    "Kafka's time until it serves holds about what a start takes it with nothing to recover (see the broker's page).",
)


@dataclass(frozen=True, slots=True)
class Case:
    """So many bytes in so many partitions."""

    total_bytes: int
    partitions: int

    def text(self, ended: str) -> str:
        return f"{ended}, {self.total_bytes / _GB:.3g} GB in {self.partitions} partitions"


_CASES: Final = (Case(2 * _GB, 2), Case(2 * _GB, 200), Case(8 * _GB, 2))
_QUICK_CASES: Final = (Case(_GB // 10, 2),)


def prepare(make: Maker, case: Case, killed: Path, stopped: Path) -> None:
    """What a broker leaves by kill -9, and the same after it came back and stopped in order."""
    lives.prepare_restart(make, killed, case.total_bytes, case.partitions)
    clone(killed, stopped)
    lives.prepare_start(make, stopped)


def measured(makers: Mapping[str, Maker], case: Case, rounds: int, root: Path) -> list[Figure]:
    """The figures of one case."""
    ended = (_KILLED, _STOPPED)
    seen: dict[tuple[str, str], list[lives.Restart]] = {(name, how): [] for name in makers for how in ended}
    for name, make in makers.items():
        prepare(make, case, root / f"{name}-{_KILLED}", root / f"{name}-{_STOPPED}")
    for number in range(rounds):
        for name in makers if number % 2 == 0 else reversed(list(makers)):
            for how in ended:
                left, run = root / f"{name}-{how}", root / "run"
                seen[name, how].append(lives.restart(makers[name], left, run, case.partitions))
                shutil.rmtree(run)
    for name in makers:
        for how in ended:
            shutil.rmtree(root / f"{name}-{how}")

    def both(how: str, quantity: str, value: Callable[[lives.Restart], float], *targets: Target) -> Figure:
        semel, kafka = ([value(one) for one in seen.get((name, how), ())] for name in (SEMEL, KAFKA))
        return figure("Coming back", case.text(how), quantity, semel, kafka, targets=targets)

    made: list[Figure] = []
    for how in ended:
        made += [
            both(how, "s until it serves", lambda one: one.ready_seconds),
            both(
                how, "s to the first fetch of each partition", lambda one: one.first_fetch_seconds, _A_FIFTH
            ),
            both(how, "CPU s until then", lambda one: one.cpu_seconds),
            both(how, "MB resident then", lambda one: one.resident_bytes / 1e6),
        ]
    return made


def run_all(
    cases: Sequence[Case], rounds: int, root: Path, show: Callable[[str], object], makers: Mapping[str, Maker]
) -> list[Figure]:
    """Every case."""
    load_kernels()
    made: list[Figure] = []
    for case in cases:
        _check_room(root, case, len(makers))
        made += (fresh := measured(makers, case, rounds, root))
        show(table(fresh))
    return made


def _check_room(root: Path, case: Case, sides: int) -> None:
    free, wanted = shutil.disk_usage(root).free, int(case.total_bytes * sides * 1.2)
    if free < wanted:
        raise BenchError(
            f"{case.text('filling')} for {sides} brokers needs {wanted / _GB:.3g} GB of disk, {free / _GB:.3g} are free at "
            f"{root}: choose less with --gigabytes, or another place with --directory"
        )


def gigabytes(text: str) -> float:
    """A size of the command line."""
    value = float(text)
    if not 0 < value <= 1000:
        raise argparse.ArgumentTypeError(f"{text} GB is out of range: above 0, at most 1000")
    return value


def main(arguments: Sequence[str]) -> int:
    """`python -m semel.bench recovery`."""
    parser = parser_of("recovery", "starts after kill -9 and after clean stops")
    parser.add_argument(
        "--gigabytes",
        type=gigabytes,
        nargs="+",
        metavar="GB",
        help="sizes to come back with, default 2 (in 2 and in 200 partitions) and 8",
    )
    options = options_of(parser, arguments)
    pairs = options.pairs or (_QUICK_PAIRS if options.quick else PAIRS_DEFAULT)
    cases: tuple[Case, ...] = _QUICK_CASES if options.quick else _CASES
    command = f"python -m semel.bench recovery --pairs {pairs}{peer_words(options)}"
    if options.gigabytes:
        cases = tuple(Case(int(size * _GB), 2) for size in options.gigabytes)
        command += f" --gigabytes {' '.join(f'{size:g}' for size in options.gigabytes)}"
    return carry_out(
        options,
        lambda root: run_all(cases, pairs, root, show, own_makers(peer_of(options), {})),
        command,
        _NOTES,
        header=_HEADER,
    )

"""How a broker comes back: after kill -9 and after a clean stop, with little and with much to read, beside Apache Kafka.

Role.   `python -m semel.bench recovery` fills both brokers, ends them in both ways, and times starts on clones of what they left;
        `--write` makes the page, its figures as JSON and its plot. Transactions are the page's second part:
        `recovery_transactions`.
Flow.   fill -> kill -9 -> that directory is kept; a start on a clone of it and a clean stop give the second one -> rounds of starts on
        clones, one broker and then the other.
Rules.  * A start is timed from the moment the process is asked for: until it says that it serves, and until every partition has given
          its first records. CPU seconds and memory are those of the process at that moment.
        * The records are in the system's page cache: what is timed is the broker, not the disk's reading.
        * Each part keeps its figures, with their date and commit, in a file of its own: `--part` measures one of them, and the page
          shows the other as it was measured last.
        * No process is left behind, also after an error.
"""

import argparse
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from semel.bench import broker_lives as lives
from semel.bench import recovery_transactions as transactions
from semel.bench.beside_kafka import carry_out, options_of, parser_of, show
from semel.bench.broker_figures import Figure, Target, as_json, figure, page, rounds_text, table
from semel.bench.broker_workloads import KAFKA, SEMEL
from semel.bench.measure import PAIRS_DEFAULT, BenchError
from semel.bench.peer import Maker, own_makers, peer_of, peer_words
from semel.bench.performance import figures_of
from semel.bench.pictures import picture as suite_picture
from semel.core.records.build import load_kernels
from semel.peers import kafka as kafka_peer
from semel.peers.processes import clone
from semel.runtime.environment import Environment, environment

_QUICK_PAIRS: Final = 1
_BYTES, _TRANSACTIONS = "bytes", "transactions"
_GROUP: Final = "Coming back"
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
_TRANSACTIONS_TEXT: Final = """
## {group}

Many small transactions in one active segment, after kill -9: a batch of one record and a marker each, ten of them open at a time.
Both brokers recover copies of the same segment, which was written without a broker. The clock stops when the answers are right: the
last stable offset is the log's end and its last aborts are listed; or the coordinator gives the offset that the last transaction
committed.

{where}
{table}
{rounds}
"""
_TRANSACTIONS_NOTES: Final = (
    "The machine of the transactions' figures was shared with other work: CPU seconds tell more than seconds on the clock.",
    "While it loads a partition of `__consumer_offsets`, Kafka answers OffsetFetch with older offsets or none, and no error.",
    "Before recovery was linear (84b5815), 10,000 committed transactions took 2.04 CPU s, 20,000 7.32, 40,000 29.7; 20,000 aborted 9.25, with offsets 9.22.",
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
    """A directory after kill -9, and the same after a restart and a clean stop."""
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
        return figure(_GROUP, case.text(how), quantity, semel, kafka, targets=targets)

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


def write(path: Path, figures: Sequence[Figure], where: Environment) -> None:
    """Keep what was measured, part by part, and make the page of all that is kept."""
    for part, group in ((_BYTES, _GROUP), (_TRANSACTIONS, transactions.GROUP)):
        if fresh := [one for one in figures if one.group == group]:
            notes = _NOTES if part == _BYTES else _TRANSACTIONS_NOTES
            _kept(path, part).write_text(as_json(fresh, where, notes), encoding="utf-8")
    compose(path)


def compose(path: Path) -> None:
    """The page and its plot, from the figures that are kept beside it."""
    picture = path.with_suffix(".svg")
    where, figures = figures_of(_kept(path, _BYTES))
    text = page(
        figures, where, (), kafka_version=kafka_peer.DEFAULT_VERSION, plot=picture.name, header=_HEADER
    )
    notes: tuple[str, ...] = _NOTES
    if (kept := _kept(path, _TRANSACTIONS)).exists():
        of_transactions, more = figures_of(kept)
        text += _TRANSACTIONS_TEXT.format(
            group=transactions.GROUP, where=of_transactions.text, table=table(more), rounds=rounds_text(more)
        )
        figures = [*figures, *more]
        notes += _TRANSACTIONS_NOTES
    path.write_text(
        text.rstrip() + "\n\n## Notes\n\n" + "".join(f"- {note}\n" for note in notes), encoding="utf-8"
    )
    picture.write_text(suite_picture("recovery", figures), encoding="utf-8")


def _kept(path: Path, part: str) -> Path:
    stem = path.stem if part == _BYTES else f"{path.stem}-{part}"
    return path.with_name(f"{stem}.json")


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
    parser.add_argument(
        "--part",
        choices=(_BYTES, _TRANSACTIONS),
        help="measure one part: many bytes, or many transactions; the page keeps what it has of the other",
    )
    options = options_of(parser, arguments)
    pairs = options.pairs or (_QUICK_PAIRS if options.quick else PAIRS_DEFAULT)
    cases: tuple[Case, ...] = _QUICK_CASES if options.quick else _CASES
    command = f"python -m semel.bench recovery --pairs {pairs}{peer_words(options)}"
    if options.gigabytes:
        cases = tuple(Case(int(size * _GB), 2) for size in options.gigabytes)
        command += f" --gigabytes {' '.join(f'{size:g}' for size in options.gigabytes)}"
    if options.part is not None:
        command += f" --part {options.part}"
    target, options.write = options.write, None
    if target is not None and options.part == _TRANSACTIONS and not _kept(target, _BYTES).exists():
        parser.error(f"{target} has no figures of the other part yet; leave out --part")
    made: list[Figure] = []

    def measure(root: Path) -> list[Figure]:
        makers = own_makers(peer_of(options), {})
        if options.part != _TRANSACTIONS:
            made.extend(run_all(cases, pairs, root, show, makers))
        if options.part != _BYTES:
            wanted = transactions.QUICK_CASES if options.quick else transactions.CASES
            made.extend(transactions.run_all(wanted, pairs, root, lambda fresh: show(table(fresh)), makers))
        return made

    code = carry_out(
        options, measure, command, (*_NOTES, *_TRANSACTIONS_NOTES), header=_HEADER, suite="recovery"
    )
    if code == 0 and target is not None:
        write(target, made, environment(command))
    return code

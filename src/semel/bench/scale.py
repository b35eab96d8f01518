"""How cost grows: 1 to 10,000 partitions, 1 to 1,000 connections, 1 to 100,000 producer ids, 1 to 50 GB of log.

Role.   `python -m semel.bench scale` brings a broker of its own to each size, Semel's and Apache Kafka's in turn, and prints start-up,
        memory and latency at each; `--write` makes the page, its figures as JSON and its plot of growth.
Flow.   for each axis, for each size: a look (`scale_looks`) at one broker and then at the other -> figures -> page.
Rules.  * The log grows on one broker at a time, and is removed before the other's: a disk need not hold both.
        * Sizes of the log that the disk has no room for are left out, and the page says so.
        * Growth is the middle latency over that at the smallest size.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from semel.bench import scale_looks as looks
from semel.bench.beside_kafka import carry_out, options_of, parser_of, show
from semel.bench.broker_figures import Figure, Target, figure, table
from semel.bench.broker_workloads import KAFKA, SEMEL
from semel.bench.peer import Maker, own_makers, peer_of, peer_words
from semel.bench.recovery import gigabytes
from semel.bench.scale_looks import P50, Look
from semel.core.records.build import load_kernels

AXES: Final = ("partitions", "connections", "producers", "log")
_ROUNDS: Final = 3
_LOG_ROUNDS_MAX: Final = 1
_GB: Final = 1_000_000_000
_SHARE_OF_DISK: Final = 0.85
_GROWTH: Final = f"{P50} ÷ that at the smallest"
_IN_PROPORTION: Final = Target(1.5, absolute=True)
_HEADER: Final = """\
# How cost grows, beside Apache Kafka

Written by `python -m semel.bench scale --write docs/benchmarks-scale.md`; do not edit. Each look is a broker process of its own, brought
to its size through the wire; Semel and Apache Kafka {version} (the settings it ships with, a heap of 1 GB) in turn. A figure is the
median of the rounds, the brackets hold the true median with the probability below; *Semel ÷ Kafka* is taken inside each round.

![How cost grows]({plot})

"""
_NOTES: Final = (
    """Latency is that of one producer with one request in flight, to a partition of its own, while all the rest is there and idle; a
  record is 100 B.""",
    """Partitions: topics of up to 1,000, each partition with one record before the broker is killed. *To describe all* is one Metadata
  request for every topic.""",
    """Producer ids: each sends one batch to the same partition, which remembers them all. Kafka's heap is taken from the system at the
  start: what its ids cost does not show in what is resident.""",
    "The log grows on one broker and then on the other, one look each; its records are of 1 KiB, in batches of 64 KB.",
    "A start is timed to the first acknowledged produce.",
)


@dataclass(frozen=True, slots=True)
class Sizes:
    """How far each axis goes."""

    partitions: tuple[int, ...] = (1, 10, 100, 1_000, 10_000)
    connections: tuple[int, ...] = (1, 10, 100, 1_000)
    producers: tuple[int, ...] = (1, 100, 10_000, 100_000)
    log_gb: tuple[float, ...] = (1, 5, 20, 50)


QUICK: Final = Sizes((1, 50), (1, 50), (1, 1_000), (0.05, 0.2))
_TITLES: Final = {
    "partitions": ("Partitions", "partitions", looks.with_partitions),
    "connections": ("Connections", "connections", looks.with_connections),
    "producers": ("Producer ids", "producer ids", looks.with_producer_ids),
}


def measured(
    axis: str, makers: Mapping[str, Maker], sizes: Sequence[int], rounds: int, root: Path
) -> Iterator[list[Figure]]:
    """The figures of each size of an axis, as they come."""
    title, things, look = _TITLES[axis]
    first: dict[str, list[Look]] = {}
    for size in sizes:
        seen: dict[str, list[Look]] = {name: [] for name in makers}
        for number in range(rounds):
            for name in makers if number % 2 == 0 else reversed(list(makers)):
                place = root / "look"
                seen[name].append(look(makers[name], place, size))
                shutil.rmtree(place)
        first = first or seen
        yield _figures(title, f"{size:,} {things}", seen, first)


def log_measured(
    makers: Mapping[str, Maker], sizes_gb: Sequence[float], rounds: int, root: Path
) -> Iterator[list[Figure]]:
    """The figures of a log that grows."""
    seen: dict[float, dict[str, list[Look]]] = {size: {name: [] for name in makers} for size in sizes_gb}
    for number in range(rounds):
        for name in makers if number % 2 == 0 else reversed(list(makers)):
            place = root / "look"
            for size, look in looks.with_log(makers[name], place, sizes_gb):
                seen[size][name].append(look)
            shutil.rmtree(place)
    for size in sizes_gb:
        yield _figures("Log", f"{size:g} GB", seen[size], seen[sizes_gb[0]])


def _figures(
    group: str, work: str, seen: Mapping[str, Sequence[Look]], first: Mapping[str, Sequence[Look]]
) -> list[Figure]:
    semel, kafka = seen[SEMEL], seen.get(KAFKA, ())
    made = [
        _both(group, work, quantity, [look[quantity] for look in semel], [look[quantity] for look in kafka])
        for quantity in semel[0]
    ]
    if seen is not first:
        grown = [
            [
                look[P50] / smallest[P50]
                for look, smallest in zip(seen.get(name, ()), first.get(name, ()), strict=True)
            ]
            for name in (SEMEL, KAFKA)
        ]
        made.append(_both(group, work, _GROWTH, *grown, targets=[_IN_PROPORTION]))
    return made


def _both(
    group: str,
    work: str,
    quantity: str,
    semel: Sequence[float],
    kafka: Sequence[float],
    *,
    targets: Sequence[Target] = (),
) -> Figure:
    """A figure; one of Semel alone where Kafka's is 0, for there is no ratio to it."""
    return figure(group, work, quantity, semel, kafka if all(kafka) else (), targets=targets)


def run_all(
    sizes: Sizes,
    axes: Sequence[str],
    rounds: int,
    root: Path,
    show: Callable[[str], object],
    makers: Mapping[str, Maker],
    notes: list[str],
) -> list[Figure]:
    """The axes that were asked for; what was left out is added to the notes of the page."""
    load_kernels()
    made: list[Figure] = []
    for axis in axes:
        if axis == "log":
            fitting = fitting_gb(sizes.log_gb, shutil.disk_usage(root).free)
            if missing := [size for size in sizes.log_gb if size not in fitting]:
                notes.append(_no_room(missing))
                show(notes[-1])
            parts = log_measured(makers, fitting, min(rounds, _LOG_ROUNDS_MAX), root) if fitting else ()
        else:
            parts = measured(axis, makers, getattr(sizes, axis), rounds, root)
        for fresh in parts:
            made += fresh
            show(table(fresh))
    return made


def _no_room(sizes_gb: Sequence[float]) -> str:
    """The note about skipped sizes."""
    return f"There was no room on this disk for a log of {', '.join(f'{size:g}' for size in sizes_gb)} GB."


def fitting_gb(sizes_gb: Sequence[float], free_bytes: int) -> list[float]:
    """The sizes a disk has room for."""
    return [size for size in sizes_gb if size * _GB <= free_bytes * _SHARE_OF_DISK]


def main(arguments: Sequence[str]) -> int:
    """`python -m semel.bench scale`."""
    parser = parser_of("scale", "how cost grows")
    parser.add_argument("--only", nargs="+", choices=AXES, metavar="AXIS", help=f"of {', '.join(AXES)}")
    parser.add_argument(
        "--log-gb",
        type=gigabytes,
        nargs="+",
        metavar="GB",
        help="sizes of the log, default 1 5 20 50; those the disk has no room for are left out",
    )
    options = options_of(parser, arguments)
    pairs = options.pairs or (1 if options.quick else _ROUNDS)
    sizes = QUICK if options.quick else Sizes()
    axes = [axis for axis in AXES if options.only is None or axis in options.only]
    command = f"python -m semel.bench scale --pairs {pairs}{peer_words(options)}"
    if options.only:
        command += f" --only {' '.join(axes)}"
    if options.log_gb:
        chosen = sorted(set(options.log_gb))
        sizes = Sizes(sizes.partitions, sizes.connections, sizes.producers, tuple(chosen))
        command += f" --log-gb {' '.join(f'{size:g}' for size in chosen)}"
    notes = list(_NOTES)
    return carry_out(
        options,
        lambda root: run_all(sizes, axes, pairs, root, show, own_makers(peer_of(options), {}), notes),
        command,
        notes,
        header=_HEADER,
        suite="scale",
    )

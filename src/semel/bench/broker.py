"""The broker beside Apache Kafka 4.3.1: produce, fetch, latency, idempotence, start, memory, restart.

Role.   `python -m semel.bench broker` runs both brokers at once, loads one and the other in turn, and prints what each
        took; `--write` makes the page, its figures as JSON and its plot.
Flow.   lives (starts and restarts, on brokers of their own) -> both brokers up, idle -> every workload in rounds ->
        memory -> idempotence -> page.
Rules.  * Both brokers have warmed up on a workload before its first round counts.
        * A topic is made for a run and deleted behind it; both brokers remove deleted files after a second instead of
          a minute, so that a run needs a few GB of disk at a time. No other setting differs from stock.
        * All files are in one temporary directory that is always removed at the end.
"""

import contextlib
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from semel.bench import broker_lives as lives
from semel.bench.beside_kafka import carry_out, options_of, parser_of, show
from semel.bench.broker_figures import Figure, Target, figure, table
from semel.bench.broker_load import ProduceFrame, produce_small, records_of, small_requests
from semel.bench.broker_workloads import (
    KAFKA,
    QUICK,
    SEMEL,
    Samples,
    Scale,
    Side,
    figures_of,
    fresh_topic,
    measure,
    workloads,
)
from semel.bench.idempotence_cost import judge_and_record_seconds
from semel.bench.measure import PAIRS_DEFAULT
from semel.bench.peer import Maker, Peer, own_makers, peer_of, peer_words, running_sides
from semel.core.records.build import load_kernels
from semel.peers.processes import RemoteBroker, cpu_seconds, pid_of, resident_bytes

_QUICK_PAIRS: Final = 2
_NOTES: Final = (
    "ConsumerPerformance joins a group; the time until it has its partitions is not counted.",
    "Kafka's directory is formatted before its start is timed.",
    "The CPU of the Java client includes the start of its JVM, its throughput does not.",
    """`judge + record` is timed alone over many batches. The rows of requests with producer ids over requests without
  compare whole requests of the broker process, and hold everything an idempotent batch brings along.""",
)
_LIFE: Final = "Start and restart"
_SETTINGS: Final = {"log.segment.delete.delay.ms": "1000", "log.retention.check.interval.ms": "1000"}


def idempotence_figures(semel: Side, samples: dict[str, Samples], scale: Scale, pairs: int) -> list[Figure]:
    """The CPU that judging and recording adds per request, and the difference of idempotence on and off."""
    judging = judge_and_record_seconds()
    group = "Idempotence on against off"
    made: list[Figure] = []
    for work, measured in samples.items():
        whole = [
            spent / load.units
            for load, spent in zip(measured.loads[SEMEL], measured.broker_cpu[SEMEL], strict=True)
        ]
        middle = sorted(whole)[len(whole) // 2]
        shares = [one / (middle - one) * 100 for one in judging]
        made.append(
            figure(group, work, "judge + record, % of the rest", shares, targets=[Target(1.0, absolute=True)])
        )
    seconds = [one * 1e6 for one in judging]
    made.append(figure(group, "each batch", "judge + record, CPU µs", seconds))
    made.append(
        figure(group, "tiny requests", "whole request, on ÷ off", _on_against_off(semel, scale, pairs))
    )
    return made


def _on_against_off(semel: Side, scale: Scale, pairs: int) -> list[float]:
    """Broker CPU with producer ids over that without, in turns."""
    records = records_of(100, count=1)
    ratios: list[float] = []
    for number in range(pairs):
        spent: dict[bool, float] = {}
        for on in (True, False) if number % 2 == 0 else (False, True):
            with fresh_topic(semel) as topic:
                producer_id = semel.wire.producer_id() if on else -1
                requests = small_requests(ProduceFrame.of(topic, records), scale.small_requests, producer_id)
                before = cpu_seconds(pid_of(semel.broker))
                produce_small(semel.wire, requests, in_flight=50)
                spent[on] = cpu_seconds(pid_of(semel.broker)) - before
        ratios.append(spent[True] / spent[False])
    return ratios


def life_figures(makers: dict[str, Maker], root: Path, scale: Scale) -> list[Figure]:
    """Starts and restarts, each on a clone of a prepared directory."""
    starts: dict[str, list[lives.Start]] = {name: [] for name in makers}
    restarts: dict[str, list[lives.Restart]] = {name: [] for name in makers}
    for name, make in makers.items():
        lives.prepare_start(make, root / f"{name}-empty")
        lives.prepare_restart(make, root / f"{name}-full", scale.restart_bytes)
    for number in range(scale.lives):
        for name, make in makers.items() if number % 2 == 0 else reversed(makers.items()):
            run = root / "run"
            starts[name].append(lives.start(make, root / f"{name}-empty", run))
            shutil.rmtree(run)
            restarts[name].append(lives.restart(make, root / f"{name}-full", run))
            shutil.rmtree(run)
    for name in makers:
        shutil.rmtree(root / f"{name}-full")

    def both(work: str, quantity: str, values: Callable[[str], list[float]], *targets: Target) -> Figure:
        others = values(KAFKA) if KAFKA in makers else ()
        return figure(_LIFE, work, quantity, values(SEMEL), others, targets=targets)

    killed = f"after kill -9 with {scale.restart_bytes / 1e9:.3g} GB"
    return [
        both(
            "a new process",
            "s to the first acknowledged produce",
            lambda name: [one.first_ack_seconds for one in starts[name]],
            Target(0.1),
            Target(0.5, absolute=True),
        ),
        both(
            "a new process",
            "MB resident before the first produce",
            lambda name: [one.resident_bytes / 1e6 for one in starts[name]],
            Target(80, absolute=True),
        ),
        both(killed, "s until it serves", lambda name: [one.ready_seconds for one in restarts[name]]),
        both(
            killed,
            "s to the first fetch",
            lambda name: [one.first_fetch_seconds for one in restarts[name]],
            Target(0.2),
        ),
    ]


def memory_figure(sides: Sequence[Side], work: str, target: Target) -> Figure:
    """The current memory of both brokers."""
    semel, *kafka = (
        resident_bytes(pid_of(side.broker)) / 1e6
        for side in sides
        if not isinstance(side.broker, RemoteBroker)
    )
    return figure("Memory", work, "MB resident", [semel], kafka, targets=[target])


def run_all(
    scale: Scale, pairs: int, root: Path, show: Callable[[str], object], peer: Peer | None
) -> list[Figure]:
    """Everything."""
    load_kernels()  # Batches are built here: not something to wait for in the middle.
    made = life_figures(own_makers(peer, _SETTINGS), root, scale)
    show(table(made))
    with contextlib.ExitStack() as stack:
        sides = running_sides(stack, peer, root, _SETTINGS)
        time.sleep(lives.IDLE_SECONDS)
        made.append(memory_figure(sides, f"idle for {lives.IDLE_SECONDS:g} s", Target(80, absolute=True)))
        kept: dict[str, Samples] = {}
        for workload in workloads(scale, peer.home if peer else None):
            samples = measure(workload, sides, pairs)
            if workload.group.startswith("Produce"):
                kept[workload.work] = samples
            made += (fresh := figures_of(workload, samples))
            show(table(fresh))
        made.append(memory_figure(sides, "after all the load here", Target(200, absolute=True)))
        made += (fresh := idempotence_figures(sides[0], kept, scale, pairs))
        show(table(fresh))
    return made


def main(arguments: Sequence[str]) -> int:
    """`python -m semel.bench broker`."""
    options = options_of(parser_of("broker", "the broker"), arguments)
    pairs = options.pairs or (_QUICK_PAIRS if options.quick else PAIRS_DEFAULT)
    scale = QUICK if options.quick else Scale(lives=pairs)
    command = f"python -m semel.bench broker --pairs {pairs}{peer_words(options)}"
    return carry_out(
        options,
        lambda root: run_all(scale, pairs, root, show, peer_of(options)),
        command,
        _NOTES,
        suite="broker",
    )

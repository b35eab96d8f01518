"""Idempotence off and on: throughput, latency, CPU and memory, network and storage, beside Apache Kafka and the classic table.

Role.   `python -m semel.bench idempotence` answers what switching it on costs: the four rows of the table that tutorials print (10 %
        throughput, 20 % latency, 25 % CPU, 20 % memory), measured here on Semel and on Apache Kafka; and what a producer costs.
Flow.   for each round, each broker and each way to send: a fresh broker, our own client in a process of its own (`idempotence_client`) ->
        losses inside the round -> figures -> page.
Rules.  * Like with like: the table's *without* is acks=1 without idempotence, its *with* is acks=all with it. The second pair has acks=all on
          both sides, where idempotence itself is all that differs.
        * A loss is taken inside a round, of one broker: (off - on) / off for throughput, (on - off) / off for all else.
        * One broker, three partitions, records of 1 KB. The table was made on three brokers: replication is not in these figures.
        * CPU and memory are those of broker and client together; of a broker that runs elsewhere they are not seen.
"""

import json
import math
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from semel.bench.beside_kafka import carry_out, options_of, parser_of, show
from semel.bench.broker_figures import Figure, Target, figure, table
from semel.bench.broker_load import ProduceFrame, Wire, records_of
from semel.bench.broker_workloads import KAFKA, SEMEL, fresh_topic
from semel.bench.idempotence_cost import judge_and_record_seconds
from semel.bench.measure import PAIRS_DEFAULT, BenchError, estimate
from semel.bench.peer import Maker, Peer, makers, own_makers, peer_of, peer_words, side_of
from semel.bench.report import number_text
from semel.bench.scale_looks import with_producer_ids
from semel.core.records.build import load_kernels
from semel.peers.processes import BrokerProcess, RemoteBroker, cpu_of, pid_of, resident_bytes

PARTITIONS: Final = 3
RECORD_BYTES: Final = 1024
OFF, ACKS, ON = "off, acks=1", "off, acks=all", "on, acks=all"
MODES: Final[Mapping[str, Mapping[str, str]]] = {
    OFF: {"enable.idempotence": "false", "acks": "1"},
    ACKS: {"enable.idempotence": "false", "acks": "all"},
    ON: {"enable.idempotence": "true", "acks": "all"},
}
SPEED, LATENCY, CPU, MEMORY = (
    "messages/s",
    "latency p50, ms",
    "CPU µs per message",
    "MB resident, broker and client",
)
SEEDS: Final = {
    SPEED: ("throughput, msg/s", 50_000, 45_000, 10),
    LATENCY: ("latency, ms", 15, 18, 20),
    CPU: ("CPU, %", 20, 25, 25),
    MEMORY: ("memory, MB", 100, 120, 20),
}
"""The classic table: what it calls a row, without, with, and the loss it states in per cent."""
LOSSES: Final = {OFF: "acks=1 → acks=all and idempotence", ACKS: "acks=all → with idempotence"}
_BROKER_CPU: Final = "of it broker"
_LOG_BYTES: Final = "bytes of log per message"
_SNAPSHOT_BYTES: Final = "bytes of producer snapshots"
_TOPIC: Final = "sent"
_QUICK_PAIRS: Final = 1
_COST_GROUP: Final = "What switching it on costs, %"
_HEADER: Final = """\
# Idempotence off and on

Written by `python -m semel.bench idempotence --write docs/benchmarks-idempotence.md`; do not edit. One broker, three partitions, records
of 1 KB, our own Python producer in a process of its own; a fresh broker for every look; Semel and Apache Kafka {version} in turn, every
second round in the opposite order. A figure is the median of the rounds, the brackets hold the true median with the probability below.

![Semel beside Apache Kafka]({plot})

"""
_NOTES: Final = (
    """The table's figures are those of the tutorial this project began with: three brokers, three partitions, 1 KB, machine unknown.
  Absolute figures do not compare; the losses do, as far as replication is not what they measure.""",
    """With one broker acks=1 and acks=all wait for the same write. What acks=all waits for in a cluster is the replicas.""",
    """Requests: a batch has room for a producer's id, epoch and sequence whether they are used or not. Idempotence adds one request per
  producer, when it starts.""",
    """Memory per producer is that of a broker with many producers on one partition over one with none; Kafka's heap is taken from the
  system at its start, so its own does not show.""",
)


@dataclass(frozen=True, slots=True)
class Scale:
    """How much work one look is."""

    records: int = 100_000
    one_by_one: int = 1_000
    producers: int = 20_000


QUICK: Final = Scale(10_000, 200, 2_000)


def look(broker: BrokerProcess, topic: str, mode: str, scale: Scale) -> dict[str, float]:
    """One way to send, to a broker that runs: what the client saw and what both spent."""
    settings = [f"{key}={value}" for key, value in MODES[mode].items()]
    sizes = ["--records", scale.records, "--one-by-one", scale.one_by_one, "--bytes", RECORD_BYTES]
    program = [sys.executable, "-m", "semel.bench.idempotence_client", broker.bootstrap, topic]
    before = cpu_of(broker)
    done = subprocess.run(
        [*program, *settings, *map(str, sizes)], stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise BenchError(f"the producer with {' '.join(settings)} ended with {done.returncode}")
    seen = json.loads(done.stdout)
    sent = scale.records + max(1, scale.records // 20) + scale.one_by_one + 1
    broker_cpu = (cpu_of(broker) - before) * 1e6 / sent
    is_seen = not isinstance(broker, RemoteBroker)
    resident = resident_bytes(pid_of(broker)) / 1e6 if is_seen else math.nan
    return {
        SPEED: seen["records_per_second"],
        LATENCY: seen["latency_ms"],
        CPU: seen["cpu_seconds"] * 1e6 / scale.records + broker_cpu,
        _BROKER_CPU: broker_cpu,
        MEMORY: seen["resident_mb"] + resident,
    }


def fresh_look(make: Maker, directory: Path, mode: str, scale: Scale) -> dict[str, float]:
    """A look at a new broker, and what it left on disk; at one that runs elsewhere, at a new topic."""
    broker = make(directory)
    try:
        side = side_of("", broker)
        with side.wire:
            if isinstance(broker, RemoteBroker):
                with fresh_topic(side, PARTITIONS) as topic:
                    return look(broker, topic, mode, scale)
            side.wire.create_topic(_TOPIC, PARTITIONS)
            seen = look(broker, _TOPIC, mode, scale)
        broker.stop()
        return seen | _stored(directory / "data", scale)
    finally:
        broker.kill()
        shutil.rmtree(directory, ignore_errors=True)


def _stored(data: Path, scale: Scale) -> dict[str, float]:
    """A topic on a stopped broker: its records, and its producers' state."""
    sizes = {".log": 0, ".snapshot": 0}
    for partition in range(PARTITIONS):
        for path in (data / f"{_TOPIC}-{partition}").iterdir():
            if path.suffix in sizes:
                sizes[path.suffix] += path.stat().st_size
    sent = scale.records + max(1, scale.records // 20) + scale.one_by_one + 1
    return {_LOG_BYTES: sizes[".log"] / sent, _SNAPSHOT_BYTES: sizes[".snapshot"]}


def measured(
    brokers: Mapping[str, Maker], scale: Scale, rounds: int, root: Path
) -> dict[str, dict[str, list[dict[str, float]]]]:
    """Looks by side and way to send, one per round."""
    seen: dict[str, dict[str, list[dict[str, float]]]] = {
        name: {mode: [] for mode in MODES} for name in brokers
    }
    for number in range(rounds):
        for name in brokers if number % 2 == 0 else reversed(list(brokers)):
            for mode in MODES if number % 2 == 0 else reversed(list(MODES)):
                seen[name][mode].append(fresh_look(brokers[name], root / "look", mode, scale))
    return seen


def figures_of(seen: Mapping[str, Mapping[str, Sequence[Mapping[str, float]]]]) -> list[Figure]:
    """Every way to send as it was, and what switching on cost."""
    made: list[Figure] = []
    for mode in MODES:
        for quantity in seen[SEMEL][mode][0]:
            semel, kafka = (
                [one.get(quantity, math.nan) for one in seen.get(name, {}).get(mode, ())]
                for name in (SEMEL, KAFKA)
            )
            if not all(kafka):  # No snapshot, no ratio.
                made.append(_beside("Off and on", mode, quantity, semel, kafka))
            else:
                made.append(figure("Off and on", mode, quantity, semel, kafka))
    for before, work in LOSSES.items():
        for quantity, (_words, _off, _on, stated) in SEEDS.items():
            semel, kafka = (_losses(seen.get(name, {}), before, quantity) for name in (SEMEL, KAFKA))
            target = Target(stated, absolute=True)
            made.append(_beside(_COST_GROUP, work, f"{quantity}: loss, %", semel, kafka, target))
    return made


def _losses(modes: Mapping[str, Sequence[Mapping[str, float]]], before: str, quantity: str) -> list[float]:
    """The loss of each round, in per cent of the value without idempotence."""
    sign = 1 if quantity == SPEED else -1
    return [
        sign * (off[quantity] - on[quantity]) / off[quantity] * 100
        for off, on in zip(modes.get(before, ()), modes.get(ON, ()), strict=True)
    ]


def _beside(
    group: str, work: str, quantity: str, semel: Sequence[float], kafka: Sequence[float], *targets: Target
) -> Figure:
    """Both sides without a ratio: a loss near nothing has none."""
    is_seen = bool(kafka) and not any(map(math.isnan, kafka))
    theirs = estimate(kafka) if is_seen else None
    return Figure(group, work, quantity, estimate(semel), theirs, None, len(semel), targets)


def request_figures(brokers: Mapping[str, Maker], directory: Path) -> list[Figure]:
    """Bytes on the network: of a request with and without a producer's numbers, and of what a producer asks once."""
    group = "On the network"
    frame = ProduceFrame.of("bench", records_of(RECORD_BYTES, count=16))
    sizes: list[float] = []
    for producer_id in (-1, 1):
        frame.identify(producer_id)
        sizes.append(len(frame.data))
    made = [
        figure(group, "a request of 16 records", f"bytes, {mode}", [size])
        for mode, size in zip((OFF, ON), sizes, strict=True)
    ]
    made.append(
        figure(group, "a request of 16 records", "more bytes per batch when on", [sizes[1] - sizes[0]])
    )
    asked = {name: _asked_once(make, directory) for name, make in brokers.items()}
    made.append(
        figure(
            group,
            "a producer, once",
            "bytes asked and answered (InitProducerId)",
            [asked[SEMEL]],
            [asked[KAFKA]] if KAFKA in asked else [],
        )
    )
    return made


def _asked_once(make: Maker, directory: Path) -> float:
    broker = make(directory)
    try:
        broker.start()
        with Wire(broker.bootstrap) as wire:
            wire.producer_id()
            before = wire.bytes_moved
            wire.producer_id()
            return wire.bytes_moved - before
    finally:
        broker.kill()
        shutil.rmtree(directory, ignore_errors=True)


def producer_figures(brokers: Mapping[str, Maker], scale: Scale, directory: Path) -> list[Figure]:
    """The cost of a producer on a broker: bytes of memory, and CPU per message."""
    group, work = "A producer", f"{scale.producers:,} on one partition"
    seen: dict[str, dict[str, float]] = {}
    for name, make in brokers.items():
        seen[name] = with_producer_ids(make, directory, scale.producers)
        shutil.rmtree(directory)
    bytes_each = "bytes on top, each"
    judging = [seconds * 1e6 for seconds in judge_and_record_seconds()]
    return [
        _beside(
            group,
            work,
            "bytes of memory per producer",
            [seen[SEMEL][bytes_each]],
            [seen[KAFKA][bytes_each]] if KAFKA in seen else [],
            Target(1024, absolute=True),
        ),
        figure(group, "each batch", "CPU µs to judge and remember", judging),
    ]


def seeds_table(figures: Sequence[Figure]) -> str:
    """The classic table with what was measured beside it."""
    values = {(one.group, one.work, one.quantity): one for one in figures}

    def cell(of: str, quantity: str, before: str) -> str:
        shown: list[str] = []
        for mode in (before, ON):
            value = getattr(values["Off and on", mode, quantity], of)
            if value is None:
                return ""
            shown.append(number_text(value.median))
        loss = getattr(values[_COST_GROUP, LOSSES[before], f"{quantity}: loss, %"], of)
        return f"{shown[0]} → {shown[1]} ({loss.median:+.1f} %)"

    lines = [
        "",
        "The classic table, and the same rows here (*off → on*, what is lost in brackets; less than nothing is a gain):",
        "",
        "| | the table: without → with | Semel: acks=1 → on | Kafka: acks=1 → on | Semel: acks=all → on | Kafka: acks=all → on |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for quantity, (words, off, on, stated) in SEEDS.items():
        cells = [cell(of, quantity, before) for before in (OFF, ACKS) for of in ("semel", "kafka")]
        what = words if quantity != CPU else f"{words} (here: CPU µs per message)"
        lines.append(f"| {what} | {off:,} → {on:,} (+{stated} %) | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def run_all(
    scale: Scale, rounds: int, root: Path, show: Callable[[str], object], peer: Peer | None
) -> list[Figure]:
    """Everything."""
    load_kernels()
    made = figures_of(measured(makers(peer, {}), scale, rounds, root))
    show(table(made))
    show(seeds_table(made))
    more = request_figures(own_makers(peer, {}), root / "look")
    more += producer_figures(own_makers(peer, {}), scale, root / "look")
    show(table(more))
    return made + more


def main(arguments: Sequence[str]) -> int:
    """`python -m semel.bench idempotence`."""
    options = options_of(parser_of("idempotence", "what idempotence costs"), arguments)
    pairs = options.pairs or (_QUICK_PAIRS if options.quick else PAIRS_DEFAULT)
    scale = QUICK if options.quick else Scale()
    return carry_out(
        options,
        lambda root: run_all(scale, pairs, root, show, peer_of(options)),
        f"python -m semel.bench idempotence --pairs {pairs}{peer_words(options)}",
        _NOTES,
        header=_HEADER,
        suite="idempotence",
        also=seeds_table,
    )

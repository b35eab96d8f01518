"""Consumer groups beside Apache Kafka: joining, rebalancing, committing, and polling in a group.

Role.   `python -m semel.bench groups` runs both brokers at once, loads one and the other in turn, and prints what each took;
        `--write` makes the page, its figures as JSON and its plot.
Flow.   both brokers up, the topic of offsets made -> every workload in rounds -> page.
Rules.  * One driver for both brokers: members on plain sockets (`group_load`), and confluent-kafka as people use it.
        * Both brokers begin an empty group's first rebalance at once (`group.initial.rebalance.delay.ms=0`, as in the file
          Kafka ships); 3 s of waiting would be all there is to see.
        * Both brokers have warmed up on a workload before its first round counts.
"""

import contextlib
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from semel.bench.beside_kafka import carry_out, options_of, parser_of, show
from semel.bench.broker_clients import (
    PARTITIONS,
    confluent_consume_in_group,
    confluent_produce,
    has_confluent,
)
from semel.bench.broker_figures import Figure, Target, figure, table
from semel.bench.broker_load import Load, ProduceFrame, produce_large, records_of
from semel.bench.broker_workloads import KAFKA, SEMEL, Samples, Side, Workload, measure
from semel.bench.group_load import WireGroup, await_coordinator, commit, join_to_first_record
from semel.bench.measure import PAIRS_DEFAULT
from semel.bench.peer import Peer, peer_of, peer_words, running_sides
from semel.core.records.build import load_kernels
from semel.errors import SemelError

_QUICK_PAIRS: Final = 2
_SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "log.segment.delete.delay.ms": "1000",
    "log.retention.check.interval.ms": "1000",
}
_AS_FAST: Final = Target(1.0, at_least=True)
_AS_SHORT: Final = Target(1.0)
_RECORD_BYTES: Final = 100
_REBALANCES: Final = "rebalances"
_COMMITS: Final = "Commits, the driver"
_CONFLUENT: Final = "confluent-kafka"
_HEADER: Final = """\
# Consumer groups beside Apache Kafka

Written by `python -m semel.bench groups --write docs/benchmarks-groups.md`; do not edit. Both brokers ran on this machine at
the same time, one process each, Apache Kafka {version} at the settings it ships with and its heap of 1 GB; each round loads
one and then the other, every second round in the opposite order. A figure is the median of the rounds, the brackets hold
the true median with the probability below. *Semel ÷ Kafka* is taken inside each round. CPU is that of the whole broker
process, all threads. *The driver* is one process with a plain socket per member and frames encoded beforehand.

![Semel beside Apache Kafka]({plot})

"""
_NOTES: Final = (
    """A rebalance is timed from the request of the member that comes or goes until the last member has its part. Members
  send a heartbeat at once, so that no client's interval is waited for.""",
    """From joining to the first record: connect, FindCoordinator, JoinGroup, SyncGroup, OffsetFetch, ListOffsets, Fetch, for
  a new group each time.""",
    "confluent-kafka mostly waits for itself between subscribing and its first record: its figure has no target.",
)


@dataclass(frozen=True, slots=True)
class Scale:
    """How much work one run is."""

    members: int = 50
    rebalances: int = 20
    joins: int = 60
    client_joins: int = 5
    one_by_one: int = 3_000
    commits: int = 20_000
    records: int = 500_000


QUICK: Final = Scale(
    members=50, rebalances=4, joins=10, client_joins=1, one_by_one=300, commits=2_000, records=50_000
)


def workloads(scale: Scale) -> list[Workload]:
    """Everything the two running brokers are asked to do."""
    names = _Names()

    def rebalance(side: Side, topic: str) -> Load:
        group = WireGroup(side.broker.bootstrap, names.next(), topic, scale.members)
        try:
            return group.rebalances(scale.rebalances)
        finally:
            group.close()

    def fill_one(side: Side, topic: str) -> None:
        produce_large(side.wire, ProduceFrame.of(topic, records_of(_RECORD_BYTES, count=1)), 1, in_flight=1)

    def join(side: Side, topic: str) -> Load:
        times = [join_to_first_record(side.broker.bootstrap, topic, names.next()) for _ in range(scale.joins)]
        return Load(sum(times), 0.0, scale.joins, 0, times)

    def join_with_client(side: Side, topic: str) -> Load:
        times = [
            _confluent_join(side.broker.bootstrap, topic, names.next()) for _ in range(scale.client_joins)
        ]
        return Load(sum(times), 0.0, scale.client_joins, 0, times)

    def commits(count: int, in_flight: int) -> Callable[[Side, str], Load]:
        return lambda side, topic: commit(
            side.broker.bootstrap, topic, names.next(), count=count, in_flight=in_flight
        )

    def produce(side: Side, topic: str) -> Load:
        return confluent_produce(
            side.broker.bootstrap, topic, records=scale.records, size_bytes=_RECORD_BYTES
        )

    def poll(side: Side, topic: str) -> Load:
        return confluent_consume_in_group(
            side.broker.bootstrap, topic, names.next(), records=scale.records, size_bytes=_RECORD_BYTES
        )

    made = [
        Workload(
            "Rebalance, the driver",
            f"{scale.members} members",
            _REBALANCES,
            rebalance,
            _AS_SHORT,
            per_gb=False,
        ),
        Workload(
            "From joining to the first record",
            "the driver",
            "joins",
            join,
            _AS_SHORT,
            per_gb=False,
            fill=fill_one,
        ),
        Workload(
            "From joining to the first record",
            _CONFLUENT,
            "joins",
            join_with_client,
            _AS_SHORT,
            per_gb=False,
            fill=fill_one,
        ),
        Workload(_COMMITS, "1 in flight", "commits", commits(scale.one_by_one, 1), _AS_FAST, per_gb=False),
        Workload(_COMMITS, "50 in flight", "commits", commits(scale.commits, 50), _AS_FAST, per_gb=False),
        Workload(
            "Poll in a group",
            f"{_CONFLUENT}, {_RECORD_BYTES} B records",
            "records",
            poll,
            _AS_FAST,
            per_gb=False,
            partitions=PARTITIONS,
            fill=produce,
        ),
    ]
    return [one for one in made if _CONFLUENT not in one.work or has_confluent()]


class _Names:
    """Names of groups, each used once."""

    def __init__(self) -> None:
        self._made = 0
        self._run = secrets.token_hex(4)  # A peer that runs already may remember the groups of another run.

    def next(self) -> str:
        self._made += 1
        return f"bench-{self._run}-{self._made}"


def _confluent_join(bootstrap: str, topic: str, group: str) -> float:
    """Seconds from making a consumer to its first record."""
    from confluent_kafka import Consumer

    began = time.perf_counter()
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        message = consumer.poll(60.0)
        seconds = time.perf_counter() - began
    finally:
        consumer.close()
    if message is None or message.error() is not None:
        raise SemelError(f"no first record in a new group of {topic}: {message and message.error()}")
    return seconds


def figures_of(workload: Workload, samples: Samples) -> list[Figure]:
    """Times where a thing is waited for, speeds where it is done many times; and the broker's CPU."""
    loads, broker = samples.loads, samples.broker_cpu

    def both(quantity: str, values: Callable[[str], list[float]], *targets: Target) -> Figure:
        return figure(workload.group, workload.work, quantity, values(SEMEL), values(KAFKA), targets=targets)

    if workload.speed.at_least:
        made = [
            both(
                f"{workload.unit}/s",
                lambda name: [load.units / load.seconds for load in loads[name]],
                workload.speed,
            )
        ]
    else:
        target = () if workload.work == _CONFLUENT else (workload.speed,)
        made = [both("ms, median", lambda name: [load.latency(0.5) * 1e3 for load in loads[name]], *target)]
        if workload.work != _CONFLUENT:
            made.append(both("ms, p95", lambda name: [load.latency(0.95) * 1e3 for load in loads[name]]))
    if (
        workload.unit != _REBALANCES
    ):  # Most of what a broker does there is done before the clock starts: 50 joins.
        one = workload.unit.removesuffix("s")
        made.append(
            both(
                f"broker CPU µs per {one}",
                lambda name: [
                    cpu * 1e6 / load.units for cpu, load in zip(broker[name], loads[name], strict=True)
                ],
            )
        )
    if loads[SEMEL][0].latencies and workload.speed.at_least:
        made.append(both("p50, µs", lambda name: [load.latency(0.5) * 1e6 for load in loads[name]]))
        made.append(both("p99, µs", lambda name: [load.latency(0.99) * 1e6 for load in loads[name]]))
    return made


def run_all(
    scale: Scale, pairs: int, root: Path, show: Callable[[str], object], peer: Peer | None
) -> list[Figure]:
    """Everything."""
    load_kernels()
    made: list[Figure] = []
    with contextlib.ExitStack() as stack:
        sides = running_sides(stack, peer, root, _SETTINGS)
        for side in sides:
            await_coordinator(side.wire, "first")
        for workload in workloads(scale):
            made += (fresh := figures_of(workload, measure(workload, sides, pairs)))
            show(table(fresh))
    return made


def main(arguments: Sequence[str]) -> int:
    """`python -m semel.bench groups`."""
    options = options_of(parser_of("groups", "consumer groups"), arguments)
    pairs = options.pairs or (_QUICK_PAIRS if options.quick else PAIRS_DEFAULT)
    scale = QUICK if options.quick else Scale()
    command = f"python -m semel.bench groups --pairs {pairs}{peer_words(options)}"
    return carry_out(
        options,
        lambda root: run_all(scale, pairs, root, show, peer_of(options)),
        command,
        _NOTES,
        header=_HEADER,
        suite="groups",
    )

"""The workloads for both brokers, and the measurement of a round.

Role.   `workloads` are the loads; `measure` runs one on both brokers in turn; `figures_of` is what came of it.
Rules.  * Both brokers have warmed up on a workload before its first round counts.
        * A topic is made for a run and deleted behind it; what only reads is given one topic for all rounds.
        * The broker's CPU seconds are those of its whole process during a run; the client's are counted by the load.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from semel.bench import broker_clients as clients
from semel.bench.broker_figures import Figure, Target, figure
from semel.bench.broker_load import (
    Load,
    ProduceFrame,
    Wire,
    fetch,
    produce_large,
    produce_small,
    records_of,
    small_requests,
)
from semel.bench.measure import PAIRS_DEFAULT
from semel.peers.kafka import KafkaHome
from semel.peers.processes import BrokerProcess, cpu_of

SEMEL, KAFKA = "Semel", "Kafka"
_LARGE: Final = 1_000_000
_MIDDLE: Final = 16_000  # The default batch size of Kafka's producer.
_CPU: Final = Target(0.5)
_AS_FAST: Final = Target(1.0, at_least=True)
_TWICE: Final = Target(2.0, at_least=True)


@dataclass(frozen=True, slots=True)
class Scale:
    """How much work one run is."""

    large_batches: int = 300
    middle_batches: int = 6_000
    one_by_one: int = 3_000
    small_requests: int = 20_000
    records: dict[int, int] = field(default_factory=lambda: {100: 500_000, 1024: 200_000})
    restart_bytes: int = 2_000_000_000
    lives: int = PAIRS_DEFAULT


QUICK: Final = Scale(48, 500, 500, 3_000, {100: 60_000}, 128_000_000, 1)


@dataclass(slots=True)
class Side:
    """One of the two brokers, running."""

    name: str
    broker: BrokerProcess
    wire: Wire
    topics_made: int = 0
    prefix: str = "bench"
    """Of its topics."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Something to do to a broker. `fill`, if given, is done once to the topic that all runs then read."""

    group: str
    work: str
    unit: str
    run: Callable[[Side, str], Load]
    speed: Target
    per_gb: bool = True
    partitions: int = 1
    fill: Callable[[Side, str], object] | None = None
    latency: bool = False


@dataclass(slots=True)
class Samples:
    """The samples of one workload's rounds, per side."""

    loads: dict[str, list[Load]] = field(default_factory=lambda: {SEMEL: [], KAFKA: []})
    broker_cpu: dict[str, list[float]] = field(default_factory=lambda: {SEMEL: [], KAFKA: []})


def workloads(scale: Scale, home: KafkaHome | None) -> list[Workload]:
    """Everything the two running brokers are asked to do; the Java client's part where it is installed."""
    made = [
        *(_large(size, scale) for size in (100, 1024)),
        _middle(scale),
        _small(1, scale.one_by_one),
        *(_small(in_flight, scale.small_requests) for in_flight in (5, 50)),
        *(_fetch(count, scale) for count in (1, 8)),
    ]
    if clients.has_confluent():
        for size, records in scale.records.items():
            made += _confluent(size, records)
    if home is not None:
        for size, records in scale.records.items():
            made += _java(home, size, records)
    return made


def _size_text(size: int) -> str:
    return "1 KiB" if size == 1024 else f"{size} B"


def _large(size: int, scale: Scale) -> Workload:
    records = records_of(size, batch_bytes=_LARGE)
    return Workload(
        "Produce, the loader",
        f"produce 1 MB batches of {_size_text(size)}",
        "batches",
        lambda side, topic: produce_large(
            side.wire, ProduceFrame.of(topic, records), scale.large_batches, in_flight=5
        ),
        _AS_FAST,
    )


def _middle(scale: Scale) -> Workload:
    records = records_of(100, batch_bytes=_MIDDLE)
    return Workload(
        "Produce, the loader",
        "produce 16 KB batches of 100 B",
        "batches",
        lambda side, topic: produce_large(
            side.wire, ProduceFrame.of(topic, records), scale.middle_batches, in_flight=5
        ),
        _AS_FAST,
    )


def _small(in_flight: int, count: int) -> Workload:
    records = records_of(100, count=1)

    def run(side: Side, topic: str) -> Load:
        requests = small_requests(ProduceFrame.of(topic, records), count, side.wire.producer_id())
        return produce_small(side.wire, requests, in_flight=in_flight)

    work = f"tiny requests, {in_flight} in flight"
    return Workload(
        "Produce, the loader, one 100 B record per request",
        work,
        "requests",
        run,
        _TWICE,
        per_gb=False,
        latency=in_flight == 1,
    )


def _fetch(batches_per_fetch: int, scale: Scale) -> Workload:
    records = records_of(100, batch_bytes=_LARGE)
    batches = scale.large_batches // 8 * 8

    def fill(side: Side, topic: str) -> None:
        produce_large(side.wire, ProduceFrame.of(topic, records), batches, in_flight=5)

    def run(side: Side, topic: str) -> Load:
        request = ProduceFrame.of(topic, records)
        return fetch(side.wire, topic, batches=batches, batch=request, batches_per_fetch=batches_per_fetch)

    work = f"fetch {batches_per_fetch} MB per request"
    return Workload("Fetch, the loader", work, "fetches", run, _AS_FAST, fill=fill)


def _confluent(size: int, records: int) -> list[Workload]:
    def produce(side: Side, topic: str) -> Load:
        return clients.confluent_produce(side.broker.bootstrap, topic, records=records, size_bytes=size)

    def consume(side: Side, topic: str) -> Load:
        return clients.confluent_consume(side.broker.bootstrap, topic, records=records, size_bytes=size)

    group, count = "confluent-kafka", clients.PARTITIONS
    return [
        Workload(
            group, f"{group}, produce {_size_text(size)}", "records", produce, _AS_FAST, partitions=count
        ),
        Workload(
            group,
            f"{group}, consume {_size_text(size)}",
            "records",
            consume,
            _AS_FAST,
            partitions=count,
            fill=produce,
        ),
    ]


def _java(home: KafkaHome, size: int, records: int) -> list[Workload]:
    def produce(side: Side, topic: str) -> Load:
        return clients.java_produce(home, side.broker.bootstrap, topic, records=records, size_bytes=size)

    def fill(side: Side, topic: str) -> Load:
        if not clients.has_confluent():
            return produce(side, topic)
        return clients.confluent_produce(side.broker.bootstrap, topic, records=records, size_bytes=size)

    def consume(side: Side, topic: str) -> Load:
        return clients.java_consume(home, side.broker.bootstrap, topic, records=records, size_bytes=size)

    group, count = "Kafka's Java client", clients.PARTITIONS
    return [
        Workload(
            group, f"Java client, produce {_size_text(size)}", "records", produce, _AS_FAST, partitions=count
        ),
        Workload(
            group,
            f"Java client, consume {_size_text(size)}",
            "records",
            consume,
            _AS_FAST,
            partitions=count,
            fill=fill,
        ),
    ]


# Measuring


def measure(workload: Workload, sides: Sequence[Side], pairs: int) -> Samples:
    """One run that does not count, then `pairs` rounds of both sides, in turns."""
    samples = Samples()
    with contextlib.ExitStack() as topics:
        shared: dict[str, str] = {}
        if workload.fill is not None:
            for side in sides:
                shared[side.name] = topics.enter_context(fresh_topic(side, workload.partitions))
                workload.fill(side, shared[side.name])
        for number in range(-1, pairs):
            for side in sides if number % 2 == 0 else reversed(sides):
                with contextlib.ExitStack() as own:
                    topic = shared.get(side.name) or own.enter_context(fresh_topic(side, workload.partitions))
                    before = cpu_of(side.broker)
                    load = workload.run(side, topic)
                    spent = cpu_of(side.broker) - before
                if number >= 0:
                    samples.loads[side.name].append(load)
                    samples.broker_cpu[side.name].append(spent)
    return samples


@contextlib.contextmanager
def fresh_topic(side: Side, partitions: int = 1) -> Iterator[str]:
    """A topic that is gone behind its use."""
    side.topics_made += 1
    topic = f"{side.prefix}-{side.topics_made}"
    side.wire.create_topic(topic, partitions)
    try:
        yield topic
    finally:
        side.wire.delete_topic(topic)


def figures_of(workload: Workload, samples: Samples) -> list[Figure]:
    """Speed, broker CPU and client CPU of a workload; latencies where each request has one."""

    loads, broker = samples.loads, samples.broker_cpu
    per, amount = ("GB", 1e9) if workload.per_gb else ("request", 1.0)
    scale, unit = (1.0, "s") if workload.per_gb else (1e6, "µs")

    def done(load: Load) -> float:
        return (load.bytes if workload.per_gb else load.units) / amount

    def both(quantity: str, values: Callable[[str], list[float]], *targets: Target) -> Figure:
        return figure(workload.group, workload.work, quantity, values(SEMEL), values(KAFKA), targets=targets)

    made = [
        both(
            "GB/s" if workload.per_gb else f"{workload.unit}/s",
            lambda name: [done(load) / load.seconds for load in loads[name]],
            workload.speed,
        ),
        both(
            f"broker CPU {unit} per {per}",
            lambda name: [
                cpu * scale / done(load) for cpu, load in zip(broker[name], loads[name], strict=True)
            ],
            _CPU,
        ),
        both(
            f"client CPU {unit} per {per}",
            lambda name: [load.client_cpu * scale / done(load) for load in loads[name]],
        ),
    ]
    if workload.latency:
        made += [
            both("ack p50, µs", lambda name: [load.latency(0.5) * 1e6 for load in loads[name]], Target(0.5)),
            both("ack p99, µs", lambda name: [load.latency(0.99) * 1e6 for load in loads[name]]),
        ]
    return made

"""Compaction beside Apache Kafka: how fast a log is cleaned, at what cost, and what producers feel of it.

Role.   `python -m semel.bench cleaner`: a page and its data of its own.
Flow.   In each round each broker gets a compacted topic with records of many keys, several times over, that it may not
        clean yet; then its dirty ratio is lowered, and the time is taken until `cleaner-offset-checkpoint` tells that it is
        clean and the new segments are in their places, with the CPU of the broker. The same again with a producer that sends one small record at a time to another
        topic, whose latencies are set beside those without a cleaning.
Rules.  * Both brokers look for dirty logs every 100 ms instead of every 15 s; everything else is what they ship with.
        * Written records are synced first, so that neither broker is timed while the disk still writes them.
        * MB/s and CPU are per byte of log that was cleaned, however often it was read.
        * Kernels are compiled before: `semel.runtime.kernel_cache` has them.
"""

import argparse
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from semel.bench.broker_figures import Figure, as_json, figure, table
from semel.bench.broker_load import (
    ProduceFrame,
    Wire,
    produce_large,
    produce_small,
    records_of,
    small_requests,
)
from semel.core.records.build import RecordInput, build_batch
from semel.core.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from semel.core.wire.registry import ApiKey
from semel.errors import SemelError
from semel.peers import kafka as kafka_peer
from semel.peers.processes import BrokerProcess, SemelProcess, cpu_seconds, pid_of
from semel.runtime.environment import environment
from semel.runtime.kernel_cache import warm

SEMEL: Final = "semel"
KAFKA: Final = "kafka"
SETTINGS: Final = {"log.cleaner.backoff.ms": "100"}
_SEGMENT_BYTES: Final = 16 * 1024 * 1024
_BATCH_RECORDS: Final = 130  # About 16 KB, as Kafka's own producer sends them by default.
_KEYS: Final = 50_000
_VALUE_BYTES: Final = 100
_TIMEOUT_SECONDS: Final = 600.0
_ALTER_VERSION: Final = 1
_TOPIC_RESOURCE: Final = 2
_PAIRS_DEFAULT: Final = 7


@dataclass(frozen=True, slots=True)
class Cleaned:
    """One cleaning."""

    seconds: float
    cpu: float
    bytes: int
    p99: float = 0.0
    """Of the produce requests meanwhile, in seconds."""


def main(arguments: Sequence[str]) -> int:
    """`python -m semel.bench cleaner`."""
    options = _options(arguments)
    root = Path(tempfile.mkdtemp(prefix="semel-bench-cleaner-", dir=options.directory))
    warm()
    try:
        figures = run_all(options.pairs, options.megabytes * 1_000_000, root)
    except SemelError as error:
        print(f"semel.bench: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(root, ignore_errors=True)
    text = table(figures)
    print(text)
    if options.write is not None:
        where = environment(
            f"python -m semel.bench cleaner --pairs {options.pairs} --megabytes {options.megabytes}"
        )
        notes = [line.strip() for line in (__doc__ or "").splitlines() if line.strip().startswith("*")]
        head = f"# Compaction beside Apache Kafka {kafka_peer.DEFAULT_VERSION}\n\n"
        told = f"{where.date}, commit {where.commit}, {where.python}, {where.cores} cores of {where.processor}.\n"
        again = f"Reproduce with `{where.command}`.\n\n"
        options.write.write_text(
            head + told + again + text + "\n" + "\n".join(notes) + "\n", encoding="utf-8"
        )
        options.write.with_suffix(".json").write_text(as_json(figures, where, notes), encoding="utf-8")
    return 0


def run_all(pairs: int, total_bytes: int, root: Path) -> list[Figure]:
    """Every round, and what they gave."""
    home = kafka_peer.find(kafka_peer.DEFAULT_VERSION)
    quiet: dict[str, list[float]] = {SEMEL: [], KAFKA: []}
    alone: dict[str, list[Cleaned]] = {SEMEL: [], KAFKA: []}
    loaded: dict[str, list[Cleaned]] = {SEMEL: [], KAFKA: []}
    for number in range(pairs):
        for name in (SEMEL, KAFKA) if number % 2 == 0 else (KAFKA, SEMEL):
            directory = root / f"{name}-{number}"
            broker: BrokerProcess = (
                SemelProcess(directory, SETTINGS)
                if name == SEMEL
                else kafka_peer.KafkaBroker(home, directory, SETTINGS)
            )
            try:
                broker.start()
                with Wire(broker.bootstrap) as wire:
                    wire.create_topic("quiet")
                    _p99(wire, 2_000)  # Warm both up: code is compiled, caches are filled.
                    _clean(broker, wire, directory / "data", "warm", total_bytes)
                    os.sync()  # Flush the filling to disk before the timing.
                    quiet[name].append(_p99(wire, 10_000))
                    alone[name].append(_clean(broker, wire, directory / "data", "alone", total_bytes))
                    loaded[name].append(
                        _clean(broker, wire, directory / "data", "loaded", total_bytes, load=True)
                    )
            finally:
                broker.kill()
                shutil.rmtree(directory, ignore_errors=True)
            print(
                f"round {number + 1}, {name}: {alone[name][-1]}, {loaded[name][-1]}",
                file=sys.stderr,
                flush=True,
            )
    return _figures(quiet, alone, loaded)


def _figures(
    quiet: dict[str, list[float]], alone: dict[str, list[Cleaned]], loaded: dict[str, list[Cleaned]]
) -> list[Figure]:
    group = "Compaction"

    def both(work: str, quantity: str, values: dict[str, list[float]]) -> Figure:
        return figure(group, work, quantity, values[SEMEL], values[KAFKA])

    names = (SEMEL, KAFKA)
    return [
        both("cleaning", "MB/s", {n: [c.bytes / c.seconds / 1e6 for c in alone[n]] for n in names}),
        both(
            "cleaning", "broker CPU s per GB", {n: [c.cpu / (c.bytes / 1e9) for c in alone[n]] for n in names}
        ),
        both(
            "produce, one record", "ack p99 µs, no cleaning", {n: [p * 1e6 for p in quiet[n]] for n in names}
        ),
        both(
            "produce, one record",
            "ack p99 µs, while a log is cleaned",
            {n: [c.p99 * 1e6 for c in loaded[n]] for n in names},
        ),
    ]


def _clean(
    broker: BrokerProcess, wire: Wire, data: Path, topic: str, total_bytes: int, *, load: bool = False
) -> Cleaned:
    """Fill a topic, let it be cleaned, and wait for it."""
    wire.create_topic(topic)
    _alter(
        wire,
        topic,
        {"cleanup.policy": "compact", "segment.bytes": str(_SEGMENT_BYTES), "min.cleanable.dirty.ratio": "1"},
    )
    written = _fill(wire, topic, total_bytes)
    os.sync()
    pid = pid_of(broker)
    latencies: list[float] = []
    done = threading.Event()
    before = _checkpoint(data, topic)
    began, cpu = time.perf_counter(), cpu_seconds(pid)
    _alter(wire, topic, {"min.cleanable.dirty.ratio": "0.0001"})
    loader = threading.Thread(target=_load, args=(broker.bootstrap, done, latencies))
    if load:
        loader.start()
    try:
        while _checkpoint(data, topic) == before or _is_swapping(data, topic):
            if time.perf_counter() - began > _TIMEOUT_SECONDS:
                raise SemelError(f"{topic} was not cleaned within {_TIMEOUT_SECONDS:.0f} s")
            time.sleep(0.005)
        seconds = time.perf_counter() - began
    finally:
        done.set()
        if load:
            loader.join()
    ordered = sorted(latencies)
    p99 = ordered[int(0.99 * (len(ordered) - 1))] if ordered else 0.0
    return Cleaned(seconds, cpu_seconds(pid) - cpu, written, p99)


def _fill(wire: Wire, topic: str, total_bytes: int) -> int:
    """Records of many keys, each several times; the bytes of them."""
    dice = random.Random(1)
    written = 0
    while written < total_bytes:
        rows = [
            RecordInput(
                b"key %08d" % dice.randrange(_KEYS), dice.randbytes(_VALUE_BYTES), int(time.time() * 1000)
            )
            for _ in range(_BATCH_RECORDS)
        ]
        request = ProduceFrame.of(topic, bytes(build_batch(rows)))
        count = min(16, max(1, (total_bytes - written) // request.batch_bytes))
        written += produce_large(wire, request, count, in_flight=4, idempotent=False).bytes
    return written


def _p99(wire: Wire, count: int) -> float:
    request = ProduceFrame.of("quiet", records_of(100, count=1))
    return produce_small(wire, small_requests(request, count, -1), in_flight=1).latency(0.99)


def _load(bootstrap: str, done: threading.Event, latencies: list[float]) -> None:
    with Wire(bootstrap) as wire:
        requests = small_requests(ProduceFrame.of("quiet", records_of(100, count=1)), 20, -1)
        while not done.is_set():
            latencies.extend(produce_small(wire, requests, in_flight=1).latencies)


def _alter(wire: Wire, topic: str, settings: dict[str, str]) -> None:
    configs = [
        AlterableConfig(name=name, config_operation=0, value=value) for name, value in settings.items()
    ]
    resource = AlterConfigsResource(resource_type=_TOPIC_RESOURCE, resource_name=topic, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    answer = wire.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, request, _ALTER_VERSION)
    if answer.responses[0].error_code:
        raise SemelError(f"{topic} does not take {settings}: {answer.responses[0].error_message}")


def _checkpoint(data: Path, topic: str) -> str | None:
    """How far a topic is clean, as the broker notes it."""
    try:
        lines = (data / "cleaner-offset-checkpoint").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return None
    return next((line for line in lines if line.startswith(f"{topic} ")), None)


def _is_swapping(data: Path, topic: str) -> bool:
    """Whether cleaned segments have not yet taken the place of the old ones."""
    return any(path.suffix in (".cleaned", ".swap") for path in (data / f"{topic}-0").iterdir())


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m semel.bench cleaner",
        description="Measure compaction beside Apache Kafka, in interleaved rounds.",
        epilog="Example: python -m semel.bench cleaner --pairs 7 --write benchmarks-cleaner.md",
    )
    parser.add_argument("--pairs", type=int, default=_PAIRS_DEFAULT, help=f"rounds, default {_PAIRS_DEFAULT}")
    parser.add_argument("--megabytes", type=int, default=400, help="what is cleaned in a round, default 400")
    parser.add_argument("--directory", type=Path, help="where both brokers keep their data while it runs")
    parser.add_argument(
        "--write", type=Path, metavar="PAGE.md", help="write the page and its figures as JSON"
    )
    options = parser.parse_args(arguments)
    for name, least in (("pairs", 1), ("megabytes", 40)):
        if getattr(options, name) < least:
            parser.error(f"--{name} {getattr(options, name)} is too little; choose at least {least}")
    return options

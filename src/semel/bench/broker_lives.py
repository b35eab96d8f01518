"""The life of a broker process: start-up time, memory, and restart after kill -9.

Role.   Each function starts a process of its own on a clone of a prepared directory and times it.
Rules.  * A start is timed from the moment the process is asked for, to the first acknowledged produce: the topic is
          made on the way.
        * No process is left behind, also after an error.
        * A directory is prepared once and cloned for every run, so that each begins from the same files.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from semel.bench.broker_load import ProduceFrame, Wire, fetch_first, produce_first, produce_large, records_of
from semel.peers.processes import BrokerProcess, clone, cpu_seconds, pid_of, resident_bytes

_RESTART_TOPIC: Final = "restart"
_RESTART_BATCH_BYTES: Final = 16_000  # As Kafka's own producer sends them by default.
IDLE_SECONDS: Final = 3.0

Maker = Callable[[Path], BrokerProcess]


class Start(NamedTuple):
    """One start."""

    first_ack_seconds: float
    resident_bytes: int
    """Just before the first produce."""


class Restart(NamedTuple):
    """One start on what an earlier life left."""

    ready_seconds: float
    first_fetch_seconds: float
    cpu_seconds: float
    resident_bytes: int


def prepare_start(make: Maker, directory: Path) -> None:
    """A directory a broker has once used, and nothing in it."""
    broker = make(directory)
    try:
        broker.start()
        broker.stop()
    finally:
        broker.kill()


def start(make: Maker, prepared: Path, directory: Path) -> Start:
    """Start, produce one record, end."""
    clone(prepared, directory)
    broker = make(directory)
    began = time.perf_counter()
    try:
        broker.start()
        resident = resident_bytes(pid_of(broker))
        with Wire(broker.bootstrap) as wire:
            produce_first(wire, "first")
        return Start(time.perf_counter() - began, resident)
    finally:
        broker.kill()


def prepare_restart(make: Maker, directory: Path, total_bytes: int, partitions: int = 2) -> None:
    """A directory with records that a broker left by kill -9."""
    broker = make(directory)
    try:
        broker.start()
        with Wire(broker.bootstrap) as wire:
            wire.create_topic(_RESTART_TOPIC, partitions)
            records = records_of(1024, batch_bytes=_RESTART_BATCH_BYTES)
            for partition in range(partitions):
                request = ProduceFrame.of(_RESTART_TOPIC, records, partition)
                count = max(1, total_bytes // partitions // request.batch_bytes)
                produce_large(wire, request, count, in_flight=20)
    finally:
        broker.kill()


def restart(make: Maker, prepared: Path, directory: Path, partitions: int = 2) -> Restart:
    """Start on a clone of what was left, until every partition gives its first records."""
    clone(prepared, directory)
    broker = make(directory)
    began = time.perf_counter()
    try:
        broker.start()
        ready = time.perf_counter() - began
        with Wire(broker.bootstrap) as wire:
            for partition in range(partitions):
                fetch_first(wire, _RESTART_TOPIC, partition)
        pid = pid_of(broker)
        return Restart(ready, time.perf_counter() - began, cpu_seconds(pid), resident_bytes(pid))
    finally:
        broker.kill()

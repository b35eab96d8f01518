"""Measurements of a broker with a growing number of partitions, connections, producer ids, or gigabytes.

Role.   Each function starts a broker of its own, brings it to a size, and gives what it took, by name. `scale` makes figures of them.
Rules.  * Latency is that of one producer with one request in flight, to a partition of its own, while all the rest is there.
        * Memory is what is resident. Where it is told per thing, it is what came on top of a broker that had warmed up.
        * A restart is timed from the moment the process is asked for to the first acknowledged produce.
        * No process is left behind, also after an error.
"""

import random
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from semel.bench.broker_load import (
    FETCH_VERSION,
    LoadError,
    ProduceFrame,
    SmallRequests,
    Wire,
    check,
    exchange,
    fetch_request,
    produce_first,
    produce_large,
    produce_small,
    produced,
    records_of,
    small_requests,
)
from semel.bench.peer import Maker
from semel.core.wire.messages.metadata import MetadataRequest
from semel.core.wire.registry import ApiKey
from semel.peers.processes import BrokerProcess, cpu_seconds, pid_of, resident_bytes

Look: TypeAlias = dict[str, float]

P50: Final = "ack p50, µs"
_PROBE: Final = "probe"
_WARM: Final = 500
_ASKED: Final = 2_000
_TOPIC_PARTITIONS_MAX: Final = 1_000
_PIECE: Final = 5_000
_FIRST_ID: Final = 1 << 40  # Above what any broker hands out here: ids of producers that never asked for one.
_METADATA_VERSION: Final = 9
_BATCH_BYTES: Final = 64_000
_FETCHES: Final = 200
_FETCH_BYTES: Final = 1 << 16
_GB: Final = 1_000_000_000
_SETTLE_LOOKS_MAX: Final = 20
_SETTLE_SECONDS: Final = 1.0
_SETTLED_BYTES: Final = 1_000_000


def with_partitions(make: Maker, directory: Path, count: int) -> Look:
    """Make so many partitions, write to each, come back after kill -9 and after a clean stop."""
    broker = make(directory)
    try:
        with _warmed_up(broker) as wire:
            before = resident_bytes(pid_of(broker))
            topics = [
                (f"many-{first:06d}", min(_TOPIC_PARTITIONS_MAX, count - first))
                for first in range(0, count, _TOPIC_PARTITIONS_MAX)
            ]
            began = time.perf_counter()
            for topic, partitions in topics:
                wire.create_topic(topic, partitions)
            made = time.perf_counter() - began
            began = time.perf_counter()
            for topic, partitions in topics:
                _write_to_each(wire, topic, partitions)
            written = time.perf_counter() - began
            look = {
                "ms to make one": made * 1e3 / count,
                "first records/s": count / written,
                **_latencies(wire),
                "ms to describe all": _describe_seconds(wire) * 1e3,
                "MB resident": resident_bytes(pid_of(broker)) / 1e6,
                "KB on top, each": max(0, resident_bytes(pid_of(broker)) - before) / count / 1e3,
            }
        return look | _restarts(broker)
    finally:
        broker.kill()


def with_connections(make: Maker, directory: Path, count: int) -> Look:
    """So many connections, idle, and then all of them at once."""
    broker = make(directory)
    others: list[Wire] = []
    try:
        with _warmed_up(broker) as wire:
            before = resident_bytes(pid_of(broker))
            others += [Wire(broker.bootstrap) for _ in range(count)]
            for other in others:
                other.ask(ApiKey.METADATA, MetadataRequest(topics=[]), _METADATA_VERSION)
            look = _latencies(wire)
            held = resident_bytes(pid_of(broker))
            cpu, began = cpu_seconds(pid_of(broker)), time.perf_counter()
            rounds = max(1, _ASKED // count)
            for _ in range(rounds):
                _all_at_once([other.socket for other in others])
            asked = rounds * count
            return look | {
                "requests/s, all at once": asked / (time.perf_counter() - began),
                "broker CPU µs per request then": (cpu_seconds(pid_of(broker)) - cpu) * 1e6 / asked,
                "MB resident": held / 1e6,
                "KB on top, each": max(0, held - before) / count / 1e3,
            }
    finally:
        for other in others:
            other.socket.close()
        broker.kill()


def with_producer_ids(make: Maker, directory: Path, count: int) -> Look:
    """So many producers, each with one batch on the same partition."""
    broker = make(directory)
    try:
        with _warmed_up(broker) as wire:
            wire.create_topic("ids")
            before = resident_bytes(pid_of(broker))
            began = time.perf_counter()
            cpu = cpu_seconds(pid_of(broker))
            for requests in _of_new_producers("ids", count):
                _load, answers = exchange(wire, requests, in_flight=50)
                _check_all(answers)
            seconds, spent = time.perf_counter() - began, cpu_seconds(pid_of(broker)) - cpu
            held = resident_bytes(pid_of(broker))
            look = {
                "new producers/s": count / seconds,
                "broker CPU µs per new producer": spent * 1e6 / count,
                **_latencies(wire),
                "MB resident": held / 1e6,
                "bytes on top, each": max(0, held - before) / count,
            }
        return look | _restarts(broker)
    finally:
        broker.kill()


def with_log(make: Maker, directory: Path, sizes_gb: Sequence[float]) -> Iterator[tuple[float, Look]]:
    """One log that grows to each size in turn: looked at, stopped, started, killed, started."""
    records = records_of(1024, batch_bytes=_BATCH_BYTES)
    written, offset = 0, 0
    broker = make(directory)
    try:
        broker.start()
        with Wire(broker.bootstrap) as wire:
            wire.create_topic("long")
            wire.create_topic(_PROBE)
        for size_gb in sizes_gb:
            with Wire(broker.bootstrap) as wire:
                request = ProduceFrame.of("long", records)
                count = max(1, int((size_gb * _GB - written) // request.batch_bytes))
                load = produce_large(wire, request, count, in_flight=5)
                written, offset = written + load.bytes, offset + count * request.records
                produce_small(wire, _probes(_WARM), in_flight=1)
                look = {
                    "MB/s written": load.bytes / load.seconds / 1e6,
                    **_latencies(wire),
                    "p50 of a fetch anywhere, µs": _anywhere(wire, offset) * 1e6,
                    "MB resident": resident_bytes(pid_of(broker)) / 1e6,
                }
            yield size_gb, look | _restarts(broker)
    finally:
        broker.kill()


# Parts of a look


def _warmed_up(broker: BrokerProcess) -> Wire:
    """A connection to a broker that has been started and used."""
    broker.start()
    wire = Wire(broker.bootstrap)
    wire.create_topic(_PROBE)
    produce_small(wire, _probes(_WARM), in_flight=1)
    settle(broker)
    return wire


def settle(broker: BrokerProcess) -> None:
    """Until a broker's memory stays as it is: what it loads with its first produce is not what is looked at."""
    before = resident_bytes(pid_of(broker))
    for _ in range(_SETTLE_LOOKS_MAX):
        time.sleep(_SETTLE_SECONDS)
        now = resident_bytes(pid_of(broker))
        if abs(now - before) < _SETTLED_BYTES:
            return
        before = now


def _probes(count: int) -> SmallRequests:
    return small_requests(ProduceFrame.of(_PROBE, records_of(100, count=1)), count, -1)


def _latencies(wire: Wire) -> Look:
    load = produce_small(wire, _probes(_ASKED), in_flight=1)
    return {P50: load.latency(0.5) * 1e6, "ack p99, µs": load.latency(0.99) * 1e6}


def _write_to_each(wire: Wire, topic: str, partitions: int) -> None:
    """One record to each partition of a topic, 50 requests in flight."""
    records = records_of(100, count=1)
    data = bytearray()
    frame = ProduceFrame.of(topic, records)
    for partition in range(partitions):
        frame = ProduceFrame.of(topic, records, partition)
        frame.identify(-1)
        data += frame.data
    _load, answers = exchange(
        wire, SmallRequests(bytes(data), len(frame.data), frame.batch_bytes, partitions), in_flight=50
    )
    _check_all(answers)


def _of_new_producers(topic: str, count: int) -> Iterator[SmallRequests]:
    """Requests of one batch each, every one of another producer."""
    frame = ProduceFrame.of(topic, records_of(100, count=1))
    for first in range(0, count, _PIECE):
        data = bytearray()
        here = min(_PIECE, count - first)
        for producer_id in range(_FIRST_ID + first, _FIRST_ID + first + here):
            frame.identify(producer_id)
            data += frame.data
        yield SmallRequests(bytes(data), len(frame.data), frame.batch_bytes, here)


def _check_all(answers: Sequence[bytes]) -> None:
    for answer in answers:
        check("producing", produced(answer).error_code)


def _describe_seconds(wire: Wire) -> float:
    """The median of three Metadata requests for everything."""
    taken: list[float] = []
    for _ in range(3):
        began = time.perf_counter()
        answer = wire.ask(ApiKey.METADATA, MetadataRequest(topics=None), _METADATA_VERSION)
        taken.append(time.perf_counter() - began)
        for topic in answer.topics:
            check(f"describing {topic.name}", topic.error_code)
    return sorted(taken)[1]


def _all_at_once(sockets: Sequence[socket.socket]) -> None:
    """Each sends one record, then each waits for its answer."""
    frame = ProduceFrame.of(_PROBE, records_of(100, count=1))
    frame.identify(-1)
    for one in sockets:
        one.sendall(frame.data)
    for one in sockets:
        if not one.recv(4096):
            raise LoadError("the broker closed a connection")


def _anywhere(wire: Wire, end_offset: int) -> float:
    """The median of fetches at offsets all over the log."""
    dice = random.Random(1)
    taken: list[float] = []
    for _ in range(_FETCHES):
        request = fetch_request("long", _FETCH_BYTES, dice.randrange(end_offset))
        began = time.perf_counter()
        answer = wire.ask(ApiKey.FETCH, request, FETCH_VERSION)
        taken.append(time.perf_counter() - began)
        found = answer.responses[0].partitions[0]
        check("fetching", found.error_code)
        if not found.records:
            raise LoadError("a fetch inside the log brought nothing")
    return sorted(taken)[len(taken) // 2]


def _restarts(broker: BrokerProcess) -> Look:
    """kill -9 and back, then a clean stop and back; it runs afterwards."""
    broker.kill()
    killed = _start_seconds(broker)
    began = time.perf_counter()
    broker.stop()
    stopped = time.perf_counter() - began
    return {
        "s to start after kill -9": killed,
        "s to stop": stopped,
        "s to start after that": _start_seconds(broker),
        "MB resident after it": resident_bytes(pid_of(broker)) / 1e6,
    }


def _start_seconds(broker: BrokerProcess) -> float:
    began = time.perf_counter()
    broker.start()
    with Wire(broker.bootstrap) as wire:
        produce_first(wire, _PROBE)
    return time.perf_counter() - began

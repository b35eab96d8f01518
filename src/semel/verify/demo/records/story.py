"""Records alone: a broker, a bad connection, two kills, and a count at the end.

Role.   Behind `semel demo --story records`. Everything is real: a broker process that is really killed, a proxy that
        really loses answers, a producer that does not know what happened.
Flow.   start the broker -> produce through the proxy, killing the broker at a third and at two thirds -> read everything
        back -> count.
Rules.  The outcome is counted from what was read, never from what was meant: each record carries its own number.
"""

import asyncio
import tempfile
import time
from array import array
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import pyarrow as pa

from semel.core.records.arrow_encode import encode_batch
from semel.core.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from semel.net.connection import connect
from semel.runtime.bundle import Runtime, real_runtime
from semel.types import WritableBytes
from semel.verify.demo.processes import BrokerProcess, DemoFailedError
from semel.verify.demo.records.reader import ID_BYTES, read_ids
from semel.verify.demo.records.writer import Writer
from semel.verify.fault_proxy import Fate, FaultProxy, at_random

TOPIC: Final = "demo"
PARTITIONS: Final = 4
VALUE_BYTES: Final = 100
_FILLING: Final = b"." * (VALUE_BYTES - ID_BYTES)
_BATCH_RECORDS: Final = 500
_KILLS: Final = (1 / 3, 2 / 3)
_FAULTS_MAX: Final = 1_000_000
_DELAY_SECONDS_MAX: Final = 0.02
_HARM: Final = {Fate.CUT_AFTER: 0.02, Fate.DELAY: 0.05, Fate.REPEAT: 0.05}
_METADATA_VERSION: Final = 9


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of the story."""

    sent: int
    stored: int
    duplicated: int
    lost: int
    reordered: int
    kills: int
    sent_again: int
    connections: int
    harm: Mapping[Fate, int]
    seconds: float


async def play(records: int, seed: int, progress: Callable[[int, str], None]) -> Outcome:
    """Produce, disturb, read back and count. `progress(stored, what happens)` is called along the way."""
    started = time.monotonic()
    runtime = real_runtime()
    with tempfile.TemporaryDirectory(prefix="semel-demo-") as folder:
        broker = BrokerProcess(Path(folder) / "data", {"num.partitions": str(PARTITIONS)})
        try:
            progress(0, "starting a broker")
            broker.start()
            await _create_topic(runtime, broker.address)
            batches = _batches(records)
            stored = _Counter(records, progress)
            with bad_connection(broker.bootstrap, seed) as proxy:
                writer = Writer(runtime, proxy.address, TOPIC, batches, stored.add)
                async with asyncio.TaskGroup() as group:
                    writing = group.create_task(writer.run())
                    group.create_task(_kill_on_the_way(broker, proxy, stored, writing))
            progress(records, "reading everything back")
            found = await _read_back(runtime, broker.address)
        finally:
            broker.stop()
            await runtime.tasks.close()
    return Outcome(
        sent=records,
        **_count(found, records),
        kills=len(_KILLS),
        sent_again=writer.sent_again,
        connections=writer.connections,
        harm=dict(proxy.tally),
        seconds=time.monotonic() - started,
    )


def bad_connection(bootstrap: str, seed: int, harm: Mapping[Fate, float] = _HARM) -> FaultProxy:
    """A link that harms a share of the Produce requests that pass: it loses, delays and repeats."""
    plan = at_random(seed, harm, faults_max=_FAULTS_MAX, delay_max_seconds=_DELAY_SECONDS_MAX)
    return FaultProxy(bootstrap, plan, exchanges_max=0)


class _Counter:
    """How much is stored, with a place to wait for a share of it."""

    def __init__(self, total: int, progress: Callable[[int, str], None]) -> None:
        self._total = total
        self._progress = progress
        self._changed = asyncio.Event()
        self.stored = 0
        self.what = "producing through a connection that loses, delays and repeats"

    def add(self, count: int) -> None:
        self.stored += count
        self._changed.set()
        self._progress(self.stored, self.what)

    async def until(self, share: float) -> None:
        while self.stored < self._total * share:
            self._changed.clear()
            await self._changed.wait()


async def _kill_on_the_way(
    broker: BrokerProcess, proxy: FaultProxy, stored: _Counter, writing: asyncio.Task[None]
) -> None:
    for number, share in enumerate(_KILLS, start=1):
        await stored.until(share)
        if writing.done():
            return
        stored.what = f"kill -9 number {number}: the broker recovers, the producer goes on"
        await asyncio.to_thread(broker.kill)
        await asyncio.to_thread(broker.start)
        proxy.point_to(broker.bootstrap)


async def _create_topic(runtime: Runtime, address: tuple[str, int]) -> None:
    connection = await connect(runtime, *address)
    request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=True)
    response = await connection.send(request, _METADATA_VERSION, timeout_ms=10_000)
    connection.close()
    if len(response.topics[0].partitions) != PARTITIONS:
        raise DemoFailedError(f"the topic was not created: {response.topics[0]}")


def _batches(records: int) -> Mapping[int, list[WritableBytes]]:
    """Numbered records dealt out over the partitions, as finished batches."""
    batches: dict[int, list[WritableBytes]] = {partition: [] for partition in range(PARTITIONS)}
    for number, first in enumerate(range(0, records, _BATCH_RECORDS)):
        count = min(_BATCH_RECORDS, records - first)
        values = [number.to_bytes(ID_BYTES, "big") + _FILLING for number in range(first, first + count)]
        table = pa.table({"value": pa.array(values, pa.binary())})
        batches[number % PARTITIONS].append(encode_batch(table, timestamp_ms=int(time.time() * 1000)))
    return batches


async def _read_back(runtime: Runtime, address: tuple[str, int]) -> "list[array[int]]":
    connection = await connect(runtime, *address)
    try:
        return [await read_ids(connection, TOPIC, partition) for partition in range(PARTITIONS)]
    finally:
        connection.close()


def _count(found: "list[array[int]]", records: int) -> dict[str, int]:
    copies = Counter[int]()
    for ids in found:
        copies.update(ids)
    stored = copies.total()
    distinct = sum(0 <= one < records for one in copies)
    return {
        "stored": stored,
        "duplicated": stored - distinct,
        "lost": records - distinct,
        "reordered": sum(later < earlier for ids in found for earlier, later in pairwise(ids)),
    }

"""A program that sends records with the public producer, and writes down what it was told of each.

Role.   `PublicWriter` is an actor of a `World`: `semel.aio.Producer` as an application uses it, with transactions or without; a
        producer that is done for is replaced, a transaction that failed is aborted.
Flow.   records or transactions until there were enough -> calm -> the producer must get its last words stored.
Rules.  * A killed process is followed by another, which begins anew; records of the first keep their own names.
        * The actor writes down only facts an application can know: futures, and how each call to end a transaction ended.
Elsewhere. Its promises: `semel.verify.simulation.public_invariants`.
"""

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any, Final

from semel.client.producer.future import SendFuture
from semel.client.producer.producer import AsyncProducer
from semel.exceptions import KafkaException
from semel.runtime.bundle import Runtime
from semel.verify.simulation.world import World

TOPIC: Final = "records"
CLIENT: Final = "client"
LAST_WORDS: Final = b"last words"
_TRIES: Final = 20


@dataclass(slots=True)
class Sent:
    """A record, and what the application knows of it."""

    process: int
    number: int
    transaction: int | None
    future: SendFuture

    @property
    def value(self) -> bytes:
        return b"%d:%d" % (self.process, self.number)


@dataclass(slots=True)
class PublicWriter:
    """A program that sends, one process after the other."""

    world: World
    settings: dict[str, Any]
    transactional: bool
    is_older: bool
    """Whether it takes the broker for one that has transactions v1 only."""
    partitions: int
    records: int
    pause_seconds: float
    name: str = CLIENT
    sent: list[Sent] = field(default_factory=list)
    ends: dict[tuple[int, int], str] = field(default_factory=dict)
    """The end of each transaction as the application was told: committed, aborted, or unknown."""
    processes: int = 0
    is_finishing: bool = False
    is_done: bool = False

    async def run(self, runtime: Runtime) -> None:
        self.processes += 1
        producer = self._producer(runtime)
        if self.transactional:
            producer = await self._transact(producer, runtime)
        else:
            for _ in range(self.records):
                await self._send(producer, runtime, self.processes, None)
                await self._pause(runtime)
        await self._last_words(producer, runtime)
        await producer.close()
        self.is_done = True
        await asyncio.Event().wait()

    def _producer(self, runtime: Runtime) -> AsyncProducer:
        return public_producer(self.settings, runtime, is_older=self.is_older)

    def finish(self) -> None:
        self.is_finishing = True

    def owes(self) -> str | None:
        return None if self.is_done else "its last words"

    async def _pause(self, runtime: Runtime) -> None:
        if not self.is_finishing:
            await runtime.tasks.sleep(runtime.dice.expovariate(1 / self.pause_seconds))

    async def _send(
        self, producer: AsyncProducer, runtime: Runtime, process: int, transaction: int | None
    ) -> SendFuture | None:
        number = len(self.sent)
        value = b"%d:%d" % (process, number)
        try:
            future = await producer.send(TOPIC, value, partition=runtime.dice.randrange(self.partitions))
        except KafkaException as error:
            self.world.tell(f"{value!r} was not taken: {error}")
            return None
        self.sent.append(Sent(process, number, transaction, future))
        return future

    async def _transact(self, producer: AsyncProducer, runtime: Runtime) -> AsyncProducer:
        """Transactions until there were enough; a producer that is done for is replaced, as one does."""
        process, number = self.processes, 0
        is_ready = False
        while number < self.records:
            if not is_ready:
                is_ready = await introduced(producer, self.world)
                if not is_ready:
                    await producer.close(0.0)
                    producer = self._producer(runtime)
                    await runtime.tasks.sleep(0.05)
                    continue
            number += 1
            is_ready = await self._transaction(producer, runtime, process, number)
            await self._pause(runtime)
        while not is_ready:
            await producer.close(0.0)
            producer = self._producer(runtime)
            is_ready = await introduced(producer, self.world)
        return producer

    async def _transaction(
        self, producer: AsyncProducer, runtime: Runtime, process: int, number: int
    ) -> bool:
        """One transaction; False if the producer cannot go on."""
        key = process, number
        self.ends[key] = "unended"
        committing = False
        try:
            await producer.begin_transaction()
            for _ in range(runtime.dice.randint(0, 5)):
                await self._send(producer, runtime, process, number)
            if runtime.dice.random() < 0.3:
                if runtime.dice.random() < 0.7:
                    await producer.flush()
                self.ends[key] = "aborting"
                await producer.abort_transaction()
                self.ends[key] = "aborted"
                return True
            committing = True
            self.ends[key] = "committing"
            await producer.commit_transaction()
            self.ends[key] = "committed"
        except KafkaException as error:
            self.world.tell(f"transaction {key}: {error!r}")
            if committing and not error.abortable:
                self.ends[key] = "unknown"
                return False
            self.ends[key] = "aborting"
            if error.fatal:
                return False
            try:
                await producer.abort_transaction()
            except KafkaException as second:
                self.world.tell(f"transaction {key} is not aborted: {second!r}")
                return False
            self.ends[key] = "aborted"
        return True

    async def _last_words(self, producer: AsyncProducer, runtime: Runtime) -> None:
        """Wait for calm; then a record must be stored, if need be after a few that were not."""
        while not self.is_finishing:
            await runtime.tasks.sleep(0.1)
        for _ in range(_TRIES):
            try:
                if self.transactional:
                    await producer.begin_transaction()
                future = await producer.send(TOPIC, LAST_WORDS + b" of %d" % self.processes, partition=0)
                await producer.flush()
                if self.transactional:
                    await producer.commit_transaction()
                await future
                return
            except KafkaException as error:
                self.world.tell(f"last words: {error!r}")
                if self.transactional:
                    await producer.close(0.0)
                    producer = self._producer(runtime)
                    await introduced(producer, self.world)
        self.world.flaw("no last words were stored")


def producer_settings(dice: random.Random, bootstrap: str) -> dict[str, Any]:
    """Of a producer as patient, as hasty and as small as they come."""
    request_timeout_ms = dice.choice([300, 1000, 4000])
    return {
        "bootstrap.servers": bootstrap,
        "client.id": CLIENT,
        "max.in.flight.requests.per.connection": dice.choice([1, 2, 3, 4, 5, 5]),
        "linger.ms": dice.choice([0, 5, 50]),
        "batch.size": dice.choice([100, 400, 16384]),
        "request.timeout.ms": request_timeout_ms,
        "delivery.timeout.ms": request_timeout_ms + dice.choice([60, 2000, 60_000]),
        "max.block.ms": dice.choice([3000, 60_000]),
        "retry.backoff.ms": dice.choice([10, 100]),
        "compression.type": dice.choice(["none", "none", "gzip", "lz4"]),
    }


def public_producer(settings: dict[str, Any], runtime: Runtime, *, is_older: bool) -> AsyncProducer:
    """A producer of a simulated program; an older one takes the broker for one with transactions v1 only."""
    producer = AsyncProducer(dict(settings), runtime=runtime)
    if is_older:
        setattr(producer._engine.cluster, "features", _no_features)  # noqa: B010 - as a broker says that is older
    return producer


async def introduced(producer: AsyncProducer, world: World) -> bool:
    """Whether the producer has its transactional id."""
    try:
        await producer.init_transactions()
    except KafkaException as error:
        world.tell(f"no producer: {error}")
        return False
    return True


async def _no_features(_node_id: int | None = None) -> dict[str, int]:
    return {}

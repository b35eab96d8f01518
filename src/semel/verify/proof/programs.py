"""The programs of a proof: applications as users write them, each of which writes down what it was told.

Role.   Writers without and with transactions, programs that transform one topic into another, readers. They use the public
        clients of `semel.aio` and know nothing of faults.
Flow.   `run` until the deadline of the `Stage`; then they come to an end by themselves, in peace.
Rules.  * A client that is done for is replaced by another life under another name.
        * Some lives are abandoned in the middle of a transaction, as by a crashed application. Some go on after another life
          has taken their id, as a frozen application does.
        * Every writer writes at least once, in peace if there was no other chance: a proof in which nobody wrote proves nothing.
        * Everything waits through `asyncio`, so that all of them share one loop.
"""

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from semel.client.consumer.consumer import AsyncConsumer
from semel.client.producer.answers import MAY_BE_STORED
from semel.client.producer.future import RecordMetadata
from semel.client.producer.producer import AsyncProducer
from semel.client.values.consuming import ConsumerRecord
from semel.errors import SemelError
from semel.exceptions import KafkaException
from semel.types import UNKNOWN_OFFSET, TopicPartition
from semel.verify.history.events import (
    COMMITTED,
    Acked,
    Assigned,
    ClientEvent,
    Deciding,
    Drained,
    Ended,
    Failed,
    Isolation,
    Outcome,
    Polled,
    Sent,
    Took,
)
from semel.verify.proof.judge import output_of

_POLL_MS: Final = 200
_CLOSE_SECONDS: Final = 1.0
_PARTS_MAX: Final = 8
_SETTLE_SECONDS: Final = 60.0
_COMMITS: Final = 1.0
"""The fate of a transaction that is not disturbed."""


@dataclass(slots=True)
class Stage:
    """The state shared by the programs of one run."""

    settings: Mapping[str, Any]
    """How clients reach the cluster."""
    run: str
    """The prefix of all names this run makes on the cluster."""
    now: Callable[[], float]
    seconds: float
    """How long they go on."""
    partitions: int
    pause_seconds: float
    transaction_timeout_ms: int
    history: list[ClientEvent] = field(default_factory=list)
    troubles: dict[str, int] = field(default_factory=dict)
    """Errors that applications met and went on from, by name."""
    doing: str = ""
    """The fault that is being done to the system now."""

    def add(self, event: ClientEvent) -> None:
        self.history.append(event)

    def trouble(self, error: BaseException) -> None:
        name = type(error).__name__
        self.troubles[name] = self.troubles.get(name, 0) + 1

    def is_over(self) -> bool:
        return self.now() >= self.seconds


@dataclass(slots=True)
class _Sender:
    """A life of a producer: sends records and writes down what it hears of them."""

    stage: Stage
    process: str
    producer: AsyncProducer
    count: int = 0

    async def send(
        self, topic: str, partition: int, *, value: str | None = None, transaction: int | None = None
    ) -> None:
        text = value if value is not None else f"{self.process}:{self.count}"
        self.count += 1
        self.stage.add(Sent(self.stage.now(), self.process, topic, partition, text, transaction))

        def told(where: RecordMetadata | None, error: SemelError | None) -> None:
            if where is not None:
                offset = where.offset if where.has_offset else UNKNOWN_OFFSET
                self.stage.add(Acked(self.stage.now(), self.process, text, offset))
            else:
                self._failed(text, error)

        try:
            await self.producer.send(topic, text.encode(), partition=partition, callback=told)
        except KafkaException as error:
            self._failed(text, error)

    def _failed(self, value: str, error: SemelError | None) -> None:
        if error is not None:
            self.stage.trouble(error)
        certain = MAY_BE_STORED not in str(error)
        self.stage.add(Failed(self.stage.now(), self.process, value, certain, str(error)))


def text_of(record: ConsumerRecord) -> str:
    """Its value; a value that is no text of ours is shown as it is, for the judge to wonder at."""
    return "nothing" if record.value is None else record.value.decode(errors="backslashreplace")


def add_polls(
    stage: Stage, process: str, isolation: Isolation, records: Iterable[ConsumerRecord]
) -> dict[TopicPartition, int]:
    """Write down what a poll handed out, partition by partition; the positions behind it."""
    handed: dict[TopicPartition, list[tuple[int, str]]] = {}
    for record in records:
        handed.setdefault(record.topic_partition, []).append((record.offset, text_of(record)))
    for place, values in handed.items():
        stage.add(Polled(stage.now(), process, isolation, place.topic, place.partition, tuple(values)))
    return {place: values[-1][0] + 1 for place, values in handed.items()}


@dataclass(slots=True)
class PlainWriter:
    """Sends records with an idempotent producer."""

    stage: Stage
    name: str
    topic: str
    dice: random.Random
    settings: Mapping[str, Any] = field(default_factory=dict)

    async def run(self) -> None:
        life = 0
        while life == 0 or not self.stage.is_over():
            life += 1
            producer = AsyncProducer({**self.stage.settings, "client.id": self.name, **self.settings})
            sender = _Sender(self.stage, f"{self.name}.{life}", producer)
            try:
                for _ in range(self.dice.randint(200, 2000)):
                    if self.stage.is_over() and sender.count:
                        break
                    await sender.send(self.topic, self.dice.randrange(self.stage.partitions))
                    await asyncio.sleep(self.dice.expovariate(1 / self.stage.pause_seconds))
                await producer.flush()
            finally:
                await producer.close(_CLOSE_SECONDS if not self.stage.is_over() else None)


async def write_last(stage: Stage, topics: Iterable[str]) -> None:
    """One record more in every partition, outside transactions: so that positions, which lie behind records, reach the ends."""
    producer = AsyncProducer({**stage.settings, "client.id": "last-filler"})
    sender = _Sender(stage, "last-filler", producer)
    try:
        for topic in topics:
            for partition in range(stage.partitions):
                await sender.send(topic, partition)
        await producer.flush()
    finally:
        await producer.close()


@dataclass(slots=True)
class TransactionalWriter:
    """Sends records of many partitions in transactions; commits most, aborts some, dies within some, becomes a zombie in some."""

    stage: Stage
    name: str
    topic: str
    dice: random.Random
    transaction: int = 0
    committed: int = 0
    lives: int = 0

    async def run(self) -> None:
        sender = await self._next_life()
        while not self.stage.is_over() and sender is not None:
            if not await self._transact(sender, self.dice.random()):
                await sender.producer.close(_CLOSE_SECONDS)
                sender = await self._next_life()
            await asyncio.sleep(self.dice.expovariate(1 / self.stage.pause_seconds))
        if sender is not None:
            await sender.producer.close()
        await self._settle()

    async def _next_life(self) -> _Sender | None:
        """A producer that has the transactional id; None if time was over before."""
        while not self.stage.is_over():
            if (sender := await self._take_over()) is not None:
                return sender
        return None

    async def _take_over(self) -> _Sender | None:
        self.lives += 1
        producer = AsyncProducer(
            {
                **self.stage.settings,
                "client.id": self.name,
                "transactional.id": f"{self.stage.run}-{self.name}",
                "transaction.timeout.ms": self.stage.transaction_timeout_ms,
            }
        )
        process = f"{self.name}.{self.lives}"
        try:
            await producer.init_transactions()
        except KafkaException as error:
            self.stage.trouble(error)
            await producer.close(_CLOSE_SECONDS)
            return None
        self.stage.add(Took(self.stage.now(), process, self.name))
        return _Sender(self.stage, process, producer)

    async def _settle(self) -> None:
        """Take over the id, which ends the transaction the last life left open; if nothing was ever committed, commit once."""
        deadline = self.stage.now() + _SETTLE_SECONDS
        while self.stage.now() < deadline:
            if (sender := await self._take_over()) is None:
                await asyncio.sleep(_POLL_MS / 1000)
                continue
            is_done = self.committed > 0 or await self._transact(sender, _COMMITS)
            await sender.producer.close(_CLOSE_SECONDS)
            if is_done:
                return

    async def _transact(self, sender: _Sender, fate: float) -> bool:
        """One transaction; False if this life is over."""
        self.transaction += 1
        number = self.transaction
        stage, producer = self.stage, sender.producer
        committing = False
        try:
            await producer.begin_transaction()
            for _ in range(self.dice.randint(1, _PARTS_MAX)):
                await sender.send(self.topic, self.dice.randrange(stage.partitions), transaction=number)
            if fate < 0.03:
                return False  # It crashes; the next life finds the transaction open.
            if fate < 0.06:
                await self._become_zombie()
                await sender.send(self.topic, self.dice.randrange(stage.partitions), transaction=number)
            elif fate < 0.25:
                await producer.abort_transaction()
                stage.add(Ended(stage.now(), sender.process, number, "aborted"))
                return True
            committing = True
            stage.add(Deciding(stage.now(), sender.process, number))
            await producer.commit_transaction()
            stage.add(Ended(stage.now(), sender.process, number, "committed"))
            self.committed += 1
        except KafkaException as error:
            stage.trouble(error)
            return await end_after(stage, sender, number, error, committing=committing)
        return True

    async def _become_zombie(self) -> None:
        """Another life takes the id while this one is in the middle of a transaction."""
        successor = await self._take_over()
        if successor is not None:
            await successor.producer.close(_CLOSE_SECONDS)


async def end_after(
    stage: Stage, sender: _Sender, number: int, error: KafkaException, *, committing: bool
) -> bool:
    """React to a failed transaction as an application does: abort if it may; False if its producer is done for."""
    outcome: Outcome = "unknown"
    goes_on = False
    if not error.fatal and (error.abortable or not committing):
        try:
            await sender.producer.abort_transaction()
            outcome, goes_on = "aborted", True
        except KafkaException as second:
            stage.trouble(second)
    stage.add(Ended(stage.now(), sender.process, number, outcome))
    return goes_on


@dataclass(slots=True)
class Transformer:
    """Reads a topic as a member of a group and writes an output of every record, exactly once."""

    stage: Stage
    name: str
    source: str
    topic: str
    group: str
    dice: random.Random
    until: Callable[[], float]
    """It goes on a while after the others, for their last records."""
    transaction: int = 0
    lives: int = 0

    async def run(self) -> None:
        while self.stage.now() < self.until():
            self.lives += 1
            process = f"{self.name}.{self.lives}"
            producer = AsyncProducer(
                {
                    **self.stage.settings,
                    "client.id": self.name,
                    "transactional.id": f"{self.stage.run}-{self.name}",
                    "transaction.timeout.ms": self.stage.transaction_timeout_ms,
                }
            )
            consumer = AsyncConsumer(
                {
                    **self.stage.settings,
                    "client.id": self.name,
                    "group.id": self.group,
                    "auto.offset.reset": "earliest",
                    "enable.auto.commit": False,
                    "isolation.level": COMMITTED,
                    "session.timeout.ms": 6000,
                    "heartbeat.interval.ms": 1000,
                }
            )
            sender = _Sender(self.stage, process, producer)
            try:
                await self._work(sender, consumer)
            except KafkaException as error:
                self.stage.trouble(error)
            finally:
                await producer.close(_CLOSE_SECONDS)
                await _closed(self.stage, consumer)

    async def _work(self, sender: _Sender, consumer: AsyncConsumer) -> None:
        await sender.producer.init_transactions()
        self.stage.add(Took(self.stage.now(), sender.process, self.name))

        def given(partitions: Iterable[TopicPartition]) -> None:
            for place in partitions:
                self.stage.add(
                    Assigned(self.stage.now(), sender.process, self.group, place.topic, place.partition)
                )

        consumer.subscribe([self.source], on_assign=given)
        while self.stage.now() < self.until():
            records = list(await consumer.poll(_POLL_MS, 200))
            add_polls(self.stage, sender.process, COMMITTED, records)
            if records and not await self._transform(sender, consumer, records):
                return

    async def _transform(
        self, sender: _Sender, consumer: AsyncConsumer, records: Sequence[ConsumerRecord]
    ) -> bool:
        """One transaction; False if this life is over, so that the next one reads from the stored positions on."""
        self.transaction += 1
        number, stage = self.transaction, self.stage
        committing = False
        try:
            await sender.producer.begin_transaction()
            for record in records:
                output = output_of(text_of(record), f"{sender.process}:{number}")
                await sender.send(self.topic, record.partition, value=output, transaction=number)
            after: dict[TopicPartition | tuple[str, int], int] = {
                record.topic_partition: record.offset + 1 for record in records
            }
            await sender.producer.send_offsets_to_transaction(after, consumer.group_metadata())
            if self.dice.random() < 0.02:
                return False  # It crashes before it commits.
            committing = True
            stage.add(Deciding(stage.now(), sender.process, number))
            await sender.producer.commit_transaction()
            stage.add(Ended(stage.now(), sender.process, number, "committed"))
        except KafkaException as error:
            stage.trouble(error)
            await end_after(stage, sender, number, error, committing=committing)
            return False
        return True


@dataclass(slots=True)
class Reader:
    """Reads every partition of some topics from the beginning on."""

    stage: Stage
    name: str
    topics: Sequence[str]
    isolation: Isolation
    consumer: AsyncConsumer = field(init=False)

    def __post_init__(self) -> None:
        self.consumer = AsyncConsumer(
            {
                **self.stage.settings,
                "client.id": self.name,
                "auto.offset.reset": "earliest",
                "isolation.level": self.isolation,
                "enable.auto.commit": False,
                "max.poll.records": 2000,
            }
        )
        self.consumer.assign(self.places)

    @property
    def places(self) -> list[TopicPartition]:
        return [
            TopicPartition(topic, index) for topic in self.topics for index in range(self.stage.partitions)
        ]

    async def poll(self) -> int:
        """How many records came."""
        try:
            records = await self.consumer.poll(_POLL_MS)
        except KafkaException as error:
            self.stage.trouble(error)
            await asyncio.sleep(_POLL_MS / 1000)
            return 0
        add_polls(self.stage, self.name, self.isolation, records)
        return len(records)

    async def ends(self) -> dict[TopicPartition, int]:
        """As far as it may see now."""
        return await self.consumer.end_offsets(self.places)

    async def drain(self, deadline: float) -> list[TopicPartition]:
        """Read to the end; the partitions whose end was not reached in time."""
        ends: dict[TopicPartition, int] = {}
        late = self.places
        while late and self.stage.now() < deadline:
            await self.poll()
            try:
                ends = ends or await self.ends()
                late = [place for place in late if await self.consumer.position(place) < ends[place]]
            except KafkaException as error:
                self.stage.trouble(error)
        for place in set(self.places) - set(late):
            self.stage.add(
                Drained(
                    self.stage.now(), self.name, self.isolation, place.topic, place.partition, 0, ends[place]
                )
            )
        return late

    async def close(self) -> None:
        await _closed(self.stage, self.consumer)


async def _closed(stage: Stage, consumer: AsyncConsumer) -> None:
    try:
        await consumer.close(timeout_ms=int(_CLOSE_SECONDS * 1000))
    except KafkaException as error:
        stage.trouble(error)

"""The public producer through everything that can go wrong on the way to a broker: each record once, in order, or not at all.

Role.   `run(seed)` plays one story on the simulated runtime: the real broker, and `semel.aio.Producer` as an application uses
        it, with transactions or without; then what the application was told is held against the log.
Flow.   records are sent while connections break, links stall, broker and client are killed -> calm -> the producer must get its
        last words stored -> `_judge`.
Rules.  What is promised:
        * Once: no record lies at two offsets. One that was acknowledged lies where its future says.
        * Never silently: a record that failed and was never sent, or was refused for certain, lies nowhere.
        * In order: records of one producer lie in the order in which they were sent.
        * All or nothing: records of a transaction whose commit returned are committed, all of them; of one that was aborted,
          or that nobody ended, none is; where the end is not known, all or none.
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from semel.client.producer.future import SendFuture
from semel.client.producer.producer import AsyncProducer
from semel.exceptions import KafkaException
from semel.runtime.bundle import Runtime
from semel.runtime.memory_transport import Break
from semel.runtime.randomness import seeded_dice
from semel.types import UNKNOWN_OFFSET
from semel.verify.disturbances import (
    BadLinks,
    BreakConnections,
    CutOff,
    Disturbance,
    EndBroker,
    RestartActor,
    SlowDisk,
    play,
)
from semel.verify.history import StoredBatch
from semel.verify.promise import PromiseBroken
from semel.verify.world import BROKER, PORT, World, watched

SETTLE_SECONDS: Final = 150.0
_TOPIC: Final = "records"
_ID: Final = "application"
_CLIENT: Final = "client"
_MAYBE: Final = "may be stored"


@dataclass(slots=True)
class _Sent:
    """A record, and what the application knows of it."""

    process: int
    number: int
    transaction: int | None
    future: SendFuture

    @property
    def value(self) -> bytes:
        return b"%d:%d" % (self.process, self.number)


@dataclass(slots=True)
class _Application:
    """A program that sends, one process after the other."""

    world: World
    settings: dict[str, Any]
    transactional: bool
    is_older: bool
    """Whether it takes the broker for one that has transactions v1 only."""
    partitions: int
    records: int
    pause_seconds: float
    name: str = _CLIENT
    sent: list[_Sent] = field(default_factory=list)
    ends: dict[tuple[int, int], str] = field(default_factory=dict)
    """What the application was told about each transaction: committed, aborted, or unknown."""
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
        producer = AsyncProducer(dict(self.settings), runtime=runtime)
        if self.is_older:
            setattr(producer.cluster, "features", _no_features)  # noqa: B010 - as a broker says that is older
        return producer

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
            future = await producer.send(_TOPIC, value, partition=runtime.dice.randrange(self.partitions))
        except KafkaException as error:
            self.world.tell(f"{value!r} was not taken: {error}")
            return None
        self.sent.append(_Sent(process, number, transaction, future))
        return future

    async def _transact(self, producer: AsyncProducer, runtime: Runtime) -> AsyncProducer:
        """Transactions until there were enough; a producer that is done for is replaced, as one does."""
        process, number = self.processes, 0
        is_ready = False
        while number < self.records:
            if not is_ready:
                is_ready = await self._introduced(producer)
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
            is_ready = await self._introduced(producer)
        return producer

    async def _introduced(self, producer: AsyncProducer) -> bool:
        try:
            await producer.init_transactions()
        except KafkaException as error:
            self.world.tell(f"no producer: {error}")
            return False
        return True

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
        for _ in range(20):
            try:
                if self.transactional:
                    await producer.begin_transaction()
                future = await producer.send(_TOPIC, b"last words of %d" % self.processes, partition=0)
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
                    await self._introduced(producer)
        self.world.flaw("no last words were stored")


class Story:
    """One run."""

    def __init__(self, seed: int, *, traced: bool = False) -> None:
        dice = seeded_dice(seed, "public producer")
        self.seed = seed
        self.seconds = dice.uniform(3.0, 12.0)
        partitions = dice.randint(1, 3)
        self.world = World(seed, {"num.partitions": partitions}, traced=traced)
        transactional = dice.random() < 0.5
        records = dice.randint(3, 12) if transactional else dice.randint(20, 120)
        self.application = _Application(
            self.world,
            _settings(dice, transactional),
            transactional,
            dice.random() < 0.5,
            partitions,
            records,
            self.seconds / records,
        )
        self._dice = dice

    def run(self) -> None:
        """Play and judge; raises `PromiseBroken`."""
        with watched(self.world):
            self.world.simulation.run(self._main())
        broken = [*self.world.history.flaws, *self._judge()]
        if broken:
            shown = "\n".join(broken[:5])
            raise PromiseBroken(
                f"public producer seed {self.seed}: {shown}\n{self.world.history.story(None)}"
            )

    async def _main(self) -> None:
        world = self.world
        keeper = asyncio.create_task(world.broker.keep(), name="keeper of the broker")
        await world.broker.until_serving()
        world.add(self.application)
        world.start(self.application)
        await play(world, self._plan(), self.seconds)
        world.make_calm()
        await world.broker.until_serving()
        await world.settle([self.application], SETTLE_SECONDS)
        world.broker.read_logs(without=["__transaction_state", "__consumer_offsets"])
        world.is_over = True
        keeper.cancel()

    def _plan(self) -> list[tuple[float, Disturbance]]:
        dice = self._dice
        draws: list[Callable[[], Disturbance]] = [
            lambda: BreakConnections(_CLIENT, dice.choice(list(Break))),
            lambda: CutOff(
                _CLIENT,
                dice.choice(["black hole", "reset"]),
                dice.random() < 0.5,
                dice.random() < 0.5,
                dice.uniform(0.05, 4.0),
            ),
            lambda: BadLinks(
                dice.uniform(0.0, 0.2),
                dice.uniform(0.0, 0.15),
                dice.uniform(0.001, 0.2),
                dice.uniform(0.5, 4.0),
            ),
            lambda: EndBroker("kill", dice.uniform(0.01, 2.0)),
            lambda: RestartActor(_CLIENT),
            lambda: SlowDisk(dice.uniform(0.05, 2.0), dice.uniform(0.5, 3.0)),
        ]
        some = dice.sample(draws, dice.randint(1, 4))
        return sorted(
            ((dice.uniform(0.0, self.seconds), dice.choice(some)()) for _ in range(dice.randint(0, 10))),
            key=lambda one: one[0],
        )

    # Judgement

    def _judge(self) -> list[str]:
        broken: list[str] = []
        lies: dict[bytes, list[tuple[int, int]]] = {}
        committed: dict[bytes, bool] = {}
        for place, (_state, batches) in sorted(self.world.history.logs.items()):
            for batch, is_committed in _with_ends(batches):
                for index, value in enumerate(batch.values):
                    lies.setdefault(value, []).append((place.partition, batch.base_offset + index))
                    committed[value] = is_committed
        for value, places in lies.items():
            if len(places) > 1 and not value.startswith(b"last"):
                broken.append(f"{value!r} lies at {places}")
        broken += self._told_truly(lies)
        broken += self._in_order(lies)
        if self.application.transactional:
            broken += self._all_or_nothing(committed)
        return broken

    def _told_truly(self, lies: Mapping[bytes, list[tuple[int, int]]]) -> list[str]:
        broken = []
        for one in self.application.sent:
            if not one.future.done():
                continue  # Its process was killed, or its producer replaced, before it heard.
            error = one.future.exception()
            places = lies.get(one.value, [])
            if error is not None:
                if places and _MAYBE not in str(error) and not self.application.transactional:
                    broken.append(f"{one.value!r} failed for certain ({error}) and lies at {places}")
                continue
            told = one.future.result()
            if not places:
                broken.append(
                    f"{one.value!r} was told to lie at {told.partition}, {told.offset} and lies nowhere"
                )
            elif told.offset != UNKNOWN_OFFSET and (told.partition, told.offset) != places[0]:
                broken.append(f"{one.value!r} lies at {places[0]}, told was {told}")
        return broken

    def _in_order(self, lies: Mapping[bytes, list[tuple[int, int]]]) -> list[str]:
        broken = []
        last: dict[tuple[int, int], tuple[int, bytes]] = {}
        for one in self.application.sent:  # In the order in which they were sent.
            for partition, offset in lies.get(one.value, [])[:1]:
                before = last.get((one.process, partition))
                if before is not None and before[0] > offset:
                    broken.append(
                        f"{one.value!r} lies at {offset} of {partition}, behind it {before[1]!r} at {before[0]}"
                    )
                last[one.process, partition] = offset, one.value
        return broken

    def _all_or_nothing(self, committed: Mapping[bytes, bool]) -> list[str]:
        broken = []
        by_transaction: dict[tuple[int, int], list[_Sent]] = {key: [] for key in self.application.ends}
        for one in self.application.sent:
            if one.transaction is not None:
                by_transaction[one.process, one.transaction].append(one)
        for key, records in by_transaction.items():
            seen = sum(committed.get(one.value, False) for one in records)
            match self.application.ends[key]:
                case "committed" if seen != len(records):
                    broken.append(
                        f"transaction {key} was committed, {seen} of its {len(records)} records are"
                    )
                case "aborted" | "aborting" | "unended" if seen:
                    broken.append(f"transaction {key} was not committed, {seen} of its records are")
                case _ if seen not in (0, len(records)):
                    broken.append(f"transaction {key}: {seen} of {len(records)} records are committed")
        return broken


def _with_ends(batches: list[StoredBatch]) -> list[tuple[StoredBatch, bool]]:
    """Batches of records, each with whether it is committed."""
    found: list[tuple[StoredBatch, bool]] = []
    open_batches: dict[int, list[StoredBatch]] = {}
    for batch in batches:
        if batch.commits is not None:
            found += [(one, batch.commits) for one in open_batches.pop(batch.producer_id, [])]
        elif batch.is_transactional:
            open_batches.setdefault(batch.producer_id, []).append(batch)
        else:
            found.append((batch, True))
    return found + [(one, False) for many in open_batches.values() for one in many]


def _settings(dice: random.Random, transactional: bool) -> dict[str, Any]:
    request_timeout_ms = dice.choice([300, 1000, 4000])
    settings: dict[str, Any] = {
        "bootstrap.servers": f"{BROKER}:{PORT}",
        "client.id": _CLIENT,
        "max.in.flight.requests.per.connection": dice.choice([1, 2, 3, 4, 5, 5]),
        "linger.ms": dice.choice([0, 5, 50]),
        "batch.size": dice.choice([100, 400, 16384]),
        "request.timeout.ms": request_timeout_ms,
        "delivery.timeout.ms": request_timeout_ms + dice.choice([60, 2000, 60_000]),
        "max.block.ms": dice.choice([3000, 60_000]),
        "retry.backoff.ms": dice.choice([10, 100]),
        "buffer.memory": dice.choice([1000, 33554432]),
        "compression.type": dice.choice(["none", "none", "gzip", "lz4"]),
    }
    if transactional:
        settings["transactional.id"] = _ID
    return settings


async def _no_features(_node_id: int | None = None) -> dict[str, int]:
    return {}


def run(seed: int) -> None:
    """Play the story of a seed; raises `PromiseBroken` if a promise is."""
    Story(seed).run()

"""One proof, from the first topic to the judgement.

Role.   `prove` plays programs and faults on a cluster and judges what the programs saw. The command line shows it.
Flow.   a broker of our own unless there is a cluster -> the proxy -> topics -> programs, readers, samples and faults for so many
        seconds -> calm -> transformers come to the end of their inputs, the last stable offsets to the ends of the logs,
        readers read everything -> positions -> `judge`.
Rules.  * Nothing passes for lack of evidence: a partition that cannot be read to its end in time is an error of its own, and so
          is a program that stopped for a reason nobody expects.
        * Topics, groups and transactional ids carry the run's name; the topics are deleted at the end, on a cluster that is
          not ours, unless something was found.
"""

import asyncio
import contextlib
import random
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from semel.client.admin_client.client import AsyncAdmin
from semel.client.admin_client.values import NewTopic
from semel.client.consumer.consumer import AsyncConsumer
from semel.errors import SemelError
from semel.exceptions import KafkaException
from semel.types import TopicPartition
from semel.verify.demo.processes import BrokerProcess
from semel.verify.fault_proxy import FaultProxy
from semel.verify.proof.anomalies import Finding
from semel.verify.proof.disturber import Disturber
from semel.verify.proof.events import COMMITTED, UNCOMMITTED, Event, Position, Stable
from semel.verify.proof.judge import Limits, judge
from semel.verify.proof.programs import PlainWriter, Reader, Stage, TransactionalWriter, Transformer

_TRANSACTION_TIMEOUT_MS: Final = 10_000
_CALM_SECONDS: Final = 60.0
"""How long everything may take to come to an end once nothing is disturbed; above the transaction timeout."""
_SAMPLE_SECONDS: Final = 0.5
_PATIENCE: Final = {"request.timeout.ms": "5000"}
"""So that an answer that never comes is given up within a run of seconds; what the user sets comes before it."""
_BROKER_SETTINGS: Final = {"group.initial.rebalance.delay.ms": "0"}


IDEMPOTENCE: Final = "idempotence"
TRANSACTIONS: Final = "transactions"
TRANSFORM: Final = "transform"
WORKLOADS: Final = (IDEMPOTENCE, TRANSACTIONS, TRANSFORM)
"""Writers without transactions; writers with; programs that consume, transform and produce in a group."""


class ProofError(SemelError):
    """The proof could not be carried out, so nothing is proved."""


@dataclass(frozen=True, slots=True)
class Options:
    """What to play."""

    against: str | None = None
    """A cluster; without one, a broker of our own that may be killed."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """For clients."""
    producer_settings: Mapping[str, str] = field(default_factory=dict)
    """For the writers without transactions; to see what `enable.idempotence=false` does."""
    workloads: tuple[str, ...] = WORKLOADS
    seconds: float = 30.0
    seed: int = 1
    partitions: int = 6
    writers: int = 2
    """Of each kind."""
    fault_seconds: float = 2.0
    """The mean time between faults; 0: none."""
    limits: Limits = field(default_factory=Limits)


@dataclass(slots=True)
class Proof:
    """What was seen, and what is wrong with it."""

    options: Options
    history: list[Event]
    findings: list[Finding]
    faults: dict[str, int]
    """How often each was done."""
    harmed: int
    """Requests that were lost, late or repeated on the way."""
    troubles: dict[str, int]
    """Errors that applications met, by name."""
    seconds: float
    version: str
    """What was proved on."""


Progress = Callable[[Stage, str], None]


async def prove(options: Options, progress: Progress) -> Proof:
    """Play, and judge."""
    began = time.monotonic()
    async with _broker(options) as (bootstrap, broker):
        await _check(bootstrap, options)
        with FaultProxy(bootstrap, exchanges_max=0) as proxy:
            run = _Run(options, bootstrap, proxy, broker, progress, began)
            await run.play()
            harmed = sum(count for fate, count in proxy.tally.items() if fate.name != "PASS")
        findings = judge(run.stage.history, options.limits)
        if not findings and options.against is not None:
            await run.clean_up()
    return Proof(
        options,
        run.stage.history,
        findings,
        run.disturber.kinds,
        harmed,
        run.stage.troubles,
        time.monotonic() - began,
        options.against or "a broker of its own",
    )


@contextlib.asynccontextmanager
async def _broker(options: Options) -> AsyncIterator[tuple[str, BrokerProcess | None]]:
    if options.against is not None:
        yield options.against, None
        return
    with tempfile.TemporaryDirectory(prefix="semel-verify-") as scratch:
        broker = BrokerProcess(Path(scratch) / "data", _BROKER_SETTINGS)
        await asyncio.to_thread(broker.start)
        try:
            yield broker.bootstrap, broker
        finally:
            await asyncio.to_thread(broker.kill)


async def _check(bootstrap: str, options: Options) -> None:
    async with AsyncAdmin({**options.settings, "bootstrap.servers": bootstrap}) as admin:
        brokers = (await admin.describe_cluster()).nodes
    if len(brokers) > 1 and options.fault_seconds:
        raise ProofError(
            f"{bootstrap} has {len(brokers)} brokers, the proxy for faults on the way stands before one; "
            "run without faults (--fault-every 0), or disturb the cluster by other means meanwhile"
        )


class _Run:
    """The programs of one proof."""

    def __init__(
        self,
        options: Options,
        bootstrap: str,
        proxy: FaultProxy,
        broker: BrokerProcess | None,
        progress: Progress,
        began: float,
    ) -> None:
        self.options = options
        self._progress = progress
        self._direct = {**options.settings, "bootstrap.servers": bootstrap}
        way = proxy.bootstrap if options.fault_seconds else bootstrap
        self._name = f"semel-verify-{random.SystemRandom().randrange(16**6):06x}"
        self.stage = Stage(
            {**_PATIENCE, **options.settings, "bootstrap.servers": way},
            self._name,
            lambda: time.monotonic() - began,
            time.monotonic() - began + options.seconds,
            options.partitions,
            0.004,
            _TRANSACTION_TIMEOUT_MS,
        )
        self._dice = random.Random(options.seed)
        self._transform_until = float("inf")
        self.plain, self.transactions, self.inputs, self.outputs = (
            f"{self._name}-{kind}" for kind in ("plain", "transactions", "inputs", "outputs")
        )
        self._group = f"{self._name}-group"
        self.disturber = Disturber(
            self.stage, proxy, self._own_dice(), options.fault_seconds or float("inf"), broker
        )

    @property
    def topics(self) -> tuple[str, ...]:
        of = {
            IDEMPOTENCE: (self.plain,),
            TRANSACTIONS: (self.transactions,),
            TRANSFORM: (self.inputs, self.outputs),
        }
        return tuple(topic for workload in self.options.workloads for topic in of[workload])

    def _own_dice(self) -> random.Random:
        return random.Random(self._dice.getrandbits(32))

    async def play(self) -> None:
        """Everything up to the last event."""
        async with AsyncAdmin(self._direct) as admin:
            await admin.create_topics([NewTopic(topic, self.options.partitions) for topic in self.topics])
        self.stage.seconds = self.stage.now() + self.options.seconds
        readers = [
            Reader(self.stage, "reader of committed", self.topics, COMMITTED),
            Reader(self.stage, "reader of everything", self.topics, UNCOMMITTED),
        ]
        sampler = _Sampler(self.stage, self.topics)
        background = [
            asyncio.create_task(self._follow(readers), name="readers"),
            asyncio.create_task(sampler.run(), name="samples"),
        ]
        transformers = [asyncio.create_task(one.run(), name=one.name) for one in self._transformers()]
        try:
            await _together([*(one.run() for one in self._writers()), *self._disturbing()], transformers)
            self._progress(self.stage, "calm: everybody comes to an end")
            deadline = self.stage.now() + _CALM_SECONDS
            await self._until_transformed(deadline, transformers)
            self._transform_until = self.stage.now()
            await _together([], transformers, until_done=True)
            await sampler.until_stable(deadline + _CALM_SECONDS)
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
            await self._read_all(readers)
        finally:
            for task in (*background, *transformers):
                task.cancel()
            await asyncio.gather(*background, *transformers, return_exceptions=True)
            for reader in readers:
                await reader.close()
            await sampler.close()

    def _disturbing(self) -> list[Any]:
        return [self.disturber.run()] if self.options.fault_seconds else []

    def _writers(self) -> Iterable[PlainWriter | TransactionalWriter]:
        stage, chosen = self.stage, self.options.workloads
        for index in range(self.options.writers):
            if IDEMPOTENCE in chosen:
                settings = self.options.producer_settings
                yield PlainWriter(stage, f"writer-{index}", self.plain, self._own_dice(), settings)
            if TRANSFORM in chosen:
                yield PlainWriter(stage, f"filler-{index}", self.inputs, self._own_dice())
            if TRANSACTIONS in chosen:
                yield TransactionalWriter(
                    stage, f"transactional-{index}", self.transactions, self._own_dice()
                )

    def _transformers(self) -> list[Transformer]:
        return [
            Transformer(
                self.stage,
                f"transformer-{index}",
                self.inputs,
                self.outputs,
                self._group,
                self._own_dice(),
                lambda: self._transform_until,
            )
            for index in range(self.options.writers)
            if TRANSFORM in self.options.workloads
        ]

    async def _follow(self, readers: list[Reader]) -> None:
        while True:
            for reader in readers:
                await reader.poll()
            self._progress(self.stage, "")

    async def _until_transformed(self, deadline: float, transformers: list["asyncio.Task[None]"]) -> None:
        """Until the group's positions are the ends of its inputs."""
        if not transformers:
            return
        places = [TopicPartition(self.inputs, index) for index in range(self.options.partitions)]
        consumer = AsyncConsumer({**self.stage.settings, "group.id": self._group, "client.id": "positions"})
        try:
            while self.stage.now() < deadline and not any(task.done() for task in transformers):
                with contextlib.suppress(KafkaException):  # Asked again until the deadline.
                    ends = await consumer.end_offsets(places)
                    stored = await consumer.committed(places)
                    if all(ends[place] == _offset(stored.get(place)) for place in places):
                        return
                await asyncio.sleep(_SAMPLE_SECONDS)
        finally:
            await consumer.close(timeout_ms=1000)

    async def _read_all(self, readers: list[Reader]) -> None:
        deadline = self.stage.now() + _CALM_SECONDS
        for reader in readers:
            if late := await reader.drain(deadline):
                raise ProofError(
                    f"{reader.name} could not read {late[0]} to its end within {_CALM_SECONDS:.0f} s of calm: "
                    "nothing is proved"
                )
        if TRANSFORM not in self.options.workloads:
            return
        places = [TopicPartition(self.inputs, index) for index in range(self.options.partitions)]
        consumer = AsyncConsumer({**self.stage.settings, "group.id": self._group, "client.id": "positions"})
        try:
            for place, stored in (await consumer.committed(places)).items():
                self.stage.add(
                    Position(self.stage.now(), self._group, place.topic, place.partition, _offset(stored))
                )
        finally:
            await consumer.close(timeout_ms=1000)

    async def clean_up(self) -> None:
        """Delete what the proof made."""
        async with AsyncAdmin(self._direct) as admin:
            await admin.delete_topics(self.topics)


class _Sampler:
    """Looks again and again how far readers may see."""

    def __init__(self, stage: Stage, topics: Iterable[str]) -> None:
        self._stage = stage
        self._places = [TopicPartition(topic, index) for topic in topics for index in range(stage.partitions)]
        self._committed, self._all = (
            AsyncConsumer({**stage.settings, "client.id": "samples", "isolation.level": isolation})
            for isolation in (COMMITTED, UNCOMMITTED)
        )

    async def run(self) -> None:
        while True:
            await self._sample()
            await asyncio.sleep(_SAMPLE_SECONDS)

    async def until_stable(self, deadline: float) -> None:
        """Until every last stable offset is the end of its log; what stands still then is for the judge."""
        while not await self._sample() and self._stage.now() < deadline:
            await asyncio.sleep(_SAMPLE_SECONDS)

    async def _sample(self) -> bool:
        try:
            stable = await self._committed.end_offsets(self._places)
            ends = await self._all.end_offsets(self._places)
        except KafkaException as error:
            self._stage.trouble(error)
            return False
        for place in self._places:
            self._stage.add(
                Stable(self._stage.now(), place.topic, place.partition, stable[place], ends[place])
            )
        return stable == ends

    async def close(self) -> None:
        await self._committed.close(timeout_ms=1000)
        await self._all.close(timeout_ms=1000)


async def _together(work: list[Any], beside: list["asyncio.Task[None]"], *, until_done: bool = False) -> None:
    """Until all of `work` is done, or all of `beside` if that is asked; a failure of any of them ends it."""
    tasks = [asyncio.ensure_future(one) for one in work]
    waiting = {*tasks, *(beside if until_done else ())}
    try:
        while waiting:
            done, _ = await asyncio.wait(
                {*waiting, *beside}, return_when=asyncio.FIRST_COMPLETED, timeout=1.0
            )
            for task in done:
                if (error := task.exception()) is not None:
                    raise ProofError(f"a program of the proof failed: {error!r}") from error
            waiting -= done
            if done and done <= set(beside) and not until_done:
                raise ProofError(f"{next(iter(done)).get_name()} ended before its time")
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _offset(stored: Any) -> int:
    return 0 if stored is None else int(stored.offset)

"""One round of a proof: topics of its own, programs on them, faults, calm, and everything read to its end.

Role.   `Round.play` gives the history that `judge` judges. A long proof is many rounds on one broker, so that what was seen can be
        judged and let go.
Flow.   topics -> programs, readers, samples and faults for so many seconds -> calm -> groups come to the end of their inputs,
        the last stable offsets to the ends of the logs; the first readers read to the end, then others read everything from
        the beginning -> positions -> `clean_up`.
Rules.  * Nothing passes for lack of evidence. A partition that cannot be read to its end in time is an error of its own; so is
          a program that stopped unexpectedly. So are a workload with nothing acknowledged or committed, and a requested fault
          that cannot be done here. A group that does not come to its end is a finding.
        * Topics carry the round's number; groups and transactional ids are the same in all rounds, as a service's are.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from semel.client.admin.client import AsyncAdmin
from semel.client.consumer.consumer import AsyncConsumer
from semel.client.values.administration import NewTopic
from semel.exceptions import KafkaException
from semel.types import TopicPartition
from semel.verify.faults.disturber import FAULTS, NEEDS, Disturber, Proxy
from semel.verify.faults.harmed_process import HarmedBroker
from semel.verify.history.events import (
    COMMITTED,
    UNCOMMITTED,
    Began,
    ClientEvent,
    Position,
    Stable,
    Unfinished,
)
from semel.verify.proof.group_members import CLASSIC, GroupMember, in_thread, protocol_settings
from semel.verify.proof.index import Index
from semel.verify.proof.options import (
    GROUPS,
    IDEMPOTENCE,
    SPARK,
    TRANSACTIONS,
    TRANSFORM,
    Options,
    ProofError,
)
from semel.verify.proof.programs import (
    PlainWriter,
    Reader,
    Stage,
    TransactionalWriter,
    Transformer,
    write_last,
)
from semel.verify.proof.spark_work import SparkPipeline

_TRANSACTION_TIMEOUT_MS: Final = 10_000
_CALM_SECONDS: Final = 60.0
"""How long everything may take to come to an end once nothing is disturbed; above the transaction timeout."""
_CLUSTER_CALM_SECONDS: Final = 150.0
"""Where the cluster's session timeout holds (45 s by default): a member whose goodbye was lost is missed after that only."""
_SPARK_CALM_SECONDS: Final = 240.0
_SAMPLE_SECONDS: Final = 0.5
_LAST_SECONDS: Final = 30.0
_PAUSE_SECONDS: Final = 0.004
_PATIENCE: Final = {"request.timeout.ms": "5000"}
"""So that an answer that never comes is given up within a run of seconds; a setting of the user's comes before it."""
_TOPIC_CONFIGS: Final = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""Nothing is deleted, whatever the cluster's defaults: a record that is gone was lost."""
_TOPICS: Final = {
    IDEMPOTENCE: ("plain",),
    TRANSACTIONS: ("transactions",),
    TRANSFORM: ("inputs", "outputs"),
    GROUPS: ("grouped",),
    SPARK: ("spark-inputs", "spark-outputs"),
}

Progress = Callable[[Stage, str], None]


@dataclass(slots=True)
class Scene:
    """The state shared by the rounds of one proof."""

    options: Options
    name: str
    """The prefix of all names it makes on the cluster."""
    bootstrap: str
    """The cluster itself, past the proxy."""
    proxy: Proxy
    broker: HarmedBroker | None
    """One of our own."""
    protocols: tuple[str, ...]
    """That groups are held together by here."""
    scratch: Path
    progress: Progress
    now: Callable[[], float]
    dice: random.Random
    faults: dict[str, int] = field(default_factory=dict)
    played: dict[str, int] = field(default_factory=dict)
    """The faults by the names of their kinds."""
    impossible: list[str] = field(default_factory=list)
    """The kinds that cannot be played here."""
    troubles: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Group:
    """A group that is to come to the end of a topic."""

    name: str
    topic: str
    transforms: bool


class Round:
    """The programs of one round."""

    def __init__(self, scene: Scene, number: int, seconds: float) -> None:
        self._scene = scene
        self._options = scene.options
        self._number = number
        self._seconds = seconds
        way = scene.proxy.bootstrap if scene.options.fault_seconds else scene.bootstrap
        self.stage = Stage(
            {**_PATIENCE, **scene.options.settings, "bootstrap.servers": way},
            scene.name,
            scene.now,
            scene.now() + seconds,
            scene.options.partitions,
            _PAUSE_SECONDS,
            _TRANSACTION_TIMEOUT_MS,
            troubles=scene.troubles,
        )
        self._read_until = float("inf")
        self._prefix = f"{scene.name}-{number}"
        self._transform_group = f"{scene.name}-transform"
        self._spark = self._pipeline() if SPARK in scene.options.workloads else None
        self._disturber = Disturber(
            self.stage,
            scene.proxy,
            self._own_dice(),
            scene.options.fault_seconds or float("inf"),
            scene.broker,
            scene.options.faults,
            scene.options.life_seconds,
            None if self._spark is None else self._spark.kill,
            scene.faults,
            scene.played,
            scene.options.each_once,
        )

    @property
    def history(self) -> list[ClientEvent]:
        return self.stage.history

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(self._topic(kind) for workload in self._options.workloads for kind in _TOPICS[workload])

    def _topic(self, kind: str) -> str:
        return f"{self._prefix}-{kind}"

    def _own_dice(self) -> random.Random:
        return random.Random(self._scene.dice.getrandbits(32))

    async def play(self) -> None:
        """Everything from the first event to the last."""
        self.stage.add(Began(self.stage.now(), self._number))
        async with AsyncAdmin(self.stage.settings) as admin:
            await admin.create_topics(
                [NewTopic(topic, self._options.partitions, configs=_TOPIC_CONFIGS) for topic in self.topics]
            )
        self._check_faults()
        self.stage.seconds = self.stage.now() + self._seconds
        readers = self._readers("reader")
        sampler = _Sampler(self.stage, self.topics)
        reading = asyncio.create_task(self._follow(readers), name="readers")
        sampling = asyncio.create_task(sampler.run(), name="samples")
        spark = [asyncio.create_task(self._spark.run(), name="Spark")] if self._spark is not None else []
        workers: list[asyncio.Future[None]] = [
            *(asyncio.create_task(one.run(), name=one.name) for one in self._transformers()),
            *(in_thread(one.run, one.name) for one in self._members()),
        ]
        beside = [reading, sampling, *spark, *workers]
        try:
            await _together([*(one.run() for one in self._writers()), *self._disturbing()], beside)
            self._scene.progress(self.stage, "calm: everybody comes to an end")
            await write_last(self.stage, self._mixed)
            await self._until_read(beside)
            self._read_until = self.stage.now()
            await _together([], workers, until_done=True)
            _raise_failure(beside)
            await self._end(spark)
            sampler.stop()
            await _together([], [sampling], until_done=True)
            await sampler.until_stable(self.stage.now() + _CALM_SECONDS)
            _raise_failure([reading])
            await _ended([reading])
            await self._read_all(readers)
            self._check_evidence()
        finally:
            self._read_until = 0.0
            await self._end(spark)
            await _ended(beside)
            for reader in readers:
                await reader.close()
            await sampler.close()

    async def clean_up(self) -> None:
        """Delete what the round made."""
        async with AsyncAdmin(self.stage.settings) as admin:
            await admin.delete_topics(self.topics)

    @property
    def _mixed(self) -> list[str]:
        """Inputs that are written in transactions, too, some of them aborted: programs of groups must not be handed those."""
        kinds = {TRANSFORM: "inputs", GROUPS: "grouped"}
        return [self._topic(kind) for workload, kind in kinds.items() if workload in self._options.workloads]

    # Evidence

    def _check_faults(self) -> None:
        """Faults requested by name must be possible; the brokers of a cluster are known by now."""
        options = self._options
        self._scene.impossible[:] = self._disturber.impossible()
        never = self._scene.impossible if options.fault_seconds and options.faults != FAULTS else []
        if never:
            raise ProofError(
                f"{never[0]} cannot be done here: it needs {NEEDS[never[0]]}; choose other faults (--fault), or none (--fault-every 0)"
            )

    def _check_evidence(self) -> None:
        """Something of every workload was stored; of what nobody could write nothing is proved."""
        index = Index.of(self.history)
        written = {
            sent.topic
            for value in index.sent
            if (sent := index.sent_as(value)) is not None
            and (
                value in index.acked
                if sent.transaction is None
                else index.outcome((sent.process, sent.transaction)) == "committed"
            )
        }
        for workload in self._options.workloads:
            if self._topic(_TOPICS[workload][0]) not in written:
                what = (
                    "no transaction was committed"
                    if workload == TRANSACTIONS
                    else "no record was acknowledged"
                )
                met = ", ".join(f"{name} ({count})" for name, count in self.stage.troubles.items()) or "none"
                raise ProofError(f"{workload}: {what}, so nothing is proved; errors that were met: {met}")

    # Programs

    def _readers(self, name: str) -> list[Reader]:
        return [
            Reader(self.stage, f"{name} of committed", self.topics, COMMITTED),
            Reader(self.stage, f"{name} of everything", self.topics, UNCOMMITTED),
        ]

    def _disturbing(self) -> list[Any]:
        return [self._disturber.run()] if self._options.fault_seconds else []

    def _writers(self) -> Iterable[PlainWriter | TransactionalWriter]:
        stage, chosen = self.stage, self._options.workloads
        for index in range(self._options.writers):
            if IDEMPOTENCE in chosen:
                settings = self._options.producer_settings
                yield PlainWriter(stage, f"writer-{index}", self._topic("plain"), self._own_dice(), settings)
            for workload, who, kind in (
                (TRANSFORM, "filler", "inputs"),
                (GROUPS, "group-filler", "grouped"),
                (SPARK, "spark-filler", "spark-inputs"),
            ):
                if workload in chosen:
                    yield PlainWriter(stage, f"{who}-{index}", self._topic(kind), self._own_dice())
                if workload in chosen and self._topic(kind) in self._mixed and index == 0:
                    yield TransactionalWriter(
                        stage, f"{who}-transactional", self._topic(kind), self._own_dice()
                    )
            if TRANSACTIONS in chosen:
                topic = self._topic("transactions")
                yield TransactionalWriter(stage, f"transactional-{index}", topic, self._own_dice())

    def _transformers(self) -> list[Transformer]:
        return [
            Transformer(
                self.stage,
                f"transformer-{index}",
                self._topic("inputs"),
                self._topic("outputs"),
                self._transform_group,
                self._own_dice(),
                lambda: self._read_until,
            )
            for index in range(self._options.writers)
            if TRANSFORM in self._options.workloads
        ]

    def _members(self) -> list[GroupMember]:
        members = []
        for protocol in self._scene.protocols if GROUPS in self._options.workloads else ():
            settings = protocol_settings(protocol, self._own_dice())
            members += [
                GroupMember(
                    self.stage,
                    f"{protocol}-member-{index}",
                    self._topic("grouped"),
                    self._group_of(protocol),
                    self._own_dice(),
                    lambda: self._read_until,
                    settings,
                    may_vanish=protocol == CLASSIC or self._scene.broker is not None,
                )
                for index in range(self._options.writers)
            ]
        return members

    def _group_of(self, protocol: str) -> str:
        return f"{self._scene.name}-{protocol}"

    def _pipeline(self) -> SparkPipeline:
        return SparkPipeline(
            self.stage,
            self._scene.scratch / self._prefix,
            source=self._topic("spark-inputs"),
            target=self._topic("spark-outputs"),
            name=f"{self._prefix}-sink",
        )

    async def _follow(self, readers: list[Reader]) -> None:
        while True:
            for reader in readers:
                await reader.poll()
            self._scene.progress(self.stage, "")

    # The end

    def _groups(self) -> list[_Group]:
        chosen = self._options.workloads
        found = [_Group(self._transform_group, self._topic("inputs"), True)] if TRANSFORM in chosen else []
        if GROUPS in chosen:
            found += [
                _Group(self._group_of(protocol), self._topic("grouped"), False)
                for protocol in self._scene.protocols
            ]
        if SPARK in chosen:
            found.append(_Group(SPARK, self._topic("spark-inputs"), True))
        return found

    async def _until_read(self, beside: "list[asyncio.Future[None]]") -> None:
        """Until every group's positions are the ends of its input; groups that are not there in time are written down."""
        waiting = self._groups()
        ends: dict[TopicPartition, int] = {}
        deadline = self.stage.now() + self._calm_seconds
        while waiting:
            _raise_failure(beside)
            with contextlib.suppress(KafkaException):  # Asked again until the deadline.
                ends = ends or await self._ends(waiting)
                for group in list(waiting):
                    stored = await self._stored(group)
                    late = [place for place in self._places(group.topic) if stored[place] < ends[place]]
                    if not late:
                        waiting.remove(group)
                    elif self.stage.now() > deadline:
                        waiting.remove(group)
                        for place in late:
                            self.stage.add(
                                Unfinished(self.stage.now(), group.name, *place, stored[place], ends[place])
                            )
            if waiting and self.stage.now() > deadline + _LAST_SECONDS:
                raise ProofError(
                    f"the positions of {waiting[0].name} could not be asked for: nothing is proved"
                )
            await asyncio.sleep(_SAMPLE_SECONDS if waiting else 0)

    @property
    def _calm_seconds(self) -> float:
        """How long groups may take."""
        if self._spark is not None:
            return _SPARK_CALM_SECONDS
        return _CALM_SECONDS if self._scene.broker is not None else _CLUSTER_CALM_SECONDS

    def _places(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, index) for index in range(self._options.partitions)]

    async def _ends(self, groups: list[_Group]) -> dict[TopicPartition, int]:
        places = [place for group in groups for place in self._places(group.topic)]
        consumer = AsyncConsumer({**self.stage.settings, "client.id": "ends"})
        try:
            return await consumer.end_offsets(list(dict.fromkeys(places)))
        finally:
            await consumer.close(timeout_ms=1000)

    async def _stored(self, group: _Group) -> dict[TopicPartition, int]:
        places = self._places(group.topic)
        if group.name == SPARK and self._spark is not None:
            committed = self._spark.positions()
            return {place: committed.get(place.partition, 0) for place in places}
        consumer = AsyncConsumer({**self.stage.settings, "group.id": group.name, "client.id": "positions"})
        try:
            found = await consumer.committed(places)
        finally:
            await consumer.close(timeout_ms=1000)
        stored = {place: found.get(place) for place in places}
        return {place: 0 if one is None else int(one.offset) for place, one in stored.items()}

    async def _read_all(self, readers: list[Reader]) -> None:
        """Drain the first readers; then read everything once more, by readers that have seen nothing yet."""
        await self._drain(readers)
        last = self._readers("last reader")
        try:
            await self._drain(last)
        finally:
            for reader in last:
                await reader.close()
        for group in self._groups():
            for place, offset in (await self._stored(group)).items():
                now = self.stage.now()
                self.stage.add(Position(now, group.name, *place, offset, transforms=group.transforms))

    async def _drain(self, readers: list[Reader]) -> None:
        for reader in readers:
            if late := await reader.drain(self.stage.now() + _CALM_SECONDS):
                raise ProofError(
                    f"{reader.name} could not read {late[0]} to its end within {_CALM_SECONDS:.0f} s of calm: "
                    "nothing is proved"
                )

    async def _end(self, spark: "list[asyncio.Task[None]]") -> None:
        """Spark works no more."""
        await _ended(spark)
        if self._spark is not None:
            await self._spark.close()


class _Sampler:
    """Looks again and again how far readers may see."""

    def __init__(self, stage: Stage, topics: Iterable[str]) -> None:
        self._stage = stage
        self._places = [TopicPartition(topic, index) for topic in topics for index in range(stage.partitions)]
        self._committed, self._all = (
            AsyncConsumer({**stage.settings, "client.id": "samples", "isolation.level": isolation})
            for isolation in (COMMITTED, UNCOMMITTED)
        )
        self._goes_on = True

    async def run(self) -> None:
        while self._goes_on:
            await self._sample()
            await asyncio.sleep(_SAMPLE_SECONDS)

    def stop(self) -> None:
        """After the look that it has now: a late look must not be the last."""
        self._goes_on = False

    async def until_stable(self, deadline: float) -> None:
        """Until every last stable offset is the end of its log; an offset that stands still then is for the judge."""
        is_stable: bool | None = None
        while not is_stable and self._stage.now() < deadline:
            is_stable = await self._sample()
            await asyncio.sleep(0 if is_stable else _SAMPLE_SECONDS)
        if is_stable is None:
            raise ProofError(
                "the last stable offsets could not be asked for when all was over: nothing is proved"
            )

    async def _sample(self) -> bool | None:
        """Whether all is stable now; None if nobody says."""
        try:
            stable = await self._committed.end_offsets(self._places)
            ends = await self._all.end_offsets(self._places)
        except KafkaException as error:
            self._stage.trouble(error)
            return None
        for place in self._places:
            self._stage.add(
                Stable(self._stage.now(), place.topic, place.partition, stable[place], ends[place])
            )
        return stable == ends

    async def close(self) -> None:
        await self._committed.close(timeout_ms=1000)
        await self._all.close(timeout_ms=1000)


async def _together(
    work: list[Any], beside: "list[asyncio.Future[None]]", *, until_done: bool = False
) -> None:
    """Until all of `work` is done, or all of `beside` if that is asked; a failure of any of them ends it."""
    tasks = [asyncio.ensure_future(one) for one in work]
    waiting: set[asyncio.Future[None]] = {*tasks, *(beside if until_done else ())}
    try:
        while waiting:
            done, _ = await asyncio.wait(
                {*waiting, *beside}, return_when=asyncio.FIRST_COMPLETED, timeout=1.0
            )
            _raise_failure(done)
            waiting -= done
            if done & set(beside) and not until_done:
                raise ProofError("a program of the proof ended before its time")
    finally:
        await _ended(tasks)


def _raise_failure(programs: "Iterable[asyncio.Future[None]]") -> None:
    for program in programs:
        if program.done() and (error := program.exception()) is not None:
            raise ProofError(f"a program of the proof failed: {error!r}") from error


async def _ended(tasks: "Iterable[asyncio.Future[None]]") -> None:
    """Ended now, if they are not: a task is cancelled, a thread of its own is waited for."""
    for task in tasks:
        if isinstance(task, asyncio.Task):
            task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

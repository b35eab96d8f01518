"""A consumer group through everything that can go wrong: its members, the broker, its disk and the network.

Role.   `run(seed)` plays one story on the simulated runtime with the real broker and judges it.
Flow.   topics are made -> producers write, members join, read, commit, leave, freeze and die; the broker is killed, loses
        power, its disk fails -> calm: every partition is owned once, everything is read and committed within a bound
        -> the broker ends once more -> an auditor asks for the committed offsets -> both judgements.
Rules.  * The same seed gives the same run, to the byte.
        * Records are synced before they are answered, and never deleted: a member's duties are known. The topic of
          offsets is synced in most worlds; in the others a power cut may take commits, and the judgement allows it.
        * A broken promise raises `PromiseBroken` with the seed and the part of the history that matters.
"""

import asyncio
import random
from dataclasses import dataclass
from typing import Final

from semel.core.groups.member_words import NO_GENERATION
from semel.core.groups.rows import OFFSETS_TOPIC
from semel.core.records.codecs import Compression
from semel.errors import DisconnectedError, ErrorCode
from semel.runtime.bundle import Runtime
from semel.runtime.randomness import seeded_dice
from semel.types import TopicPartition
from semel.verify.faults.disturbances import (
    Disturbance,
    Freeze,
    RestartActor,
    clock_back_and_end,
    kinds_without,
    plan,
)
from semel.verify.history.events import CommitAnswered, CommitAsked, CommittedSeen
from semel.verify.simulation import group_invariants, invariants
from semel.verify.simulation.actors.admin import Admin, TopicPlan
from semel.verify.simulation.actors.client import Client
from semel.verify.simulation.actors.group_consumer import GroupConsumer
from semel.verify.simulation.actors.group_reading import Manners, Versions, commit_request, committed_offsets
from semel.verify.simulation.actors.producer import Habits, Producer
from semel.verify.simulation.invariants import Broken
from semel.verify.simulation.scenarios.broker_story import LAST_ENDINGS, TOPICS_SECONDS_MAX, BrokerStory
from semel.verify.simulation.world import World

GROUP: Final = "readers"
SETTLE_SECONDS: Final = 120.0
"""How long after the last disturbance everything must be settled."""
_AUDIT_SECONDS_MAX: Final = 60.0
_MEMBER_TROUBLES_MAX: Final = 6
_CLOCK_TROUBLE_PROBABILITY: Final = 0.3


@dataclass(frozen=True, slots=True)
class Leave:
    """A member leaves and comes back."""

    member: GroupConsumer
    seconds: float

    async def happen(self, world: World) -> None:
        del world
        self.member.leave(self.seconds)


class Whole:
    """The group seen as one: in the end every partition belongs to one member, in one generation."""

    name = "the group"

    def __init__(self, members: list[GroupConsumer], partitions: list[TopicPartition]) -> None:
        self._members = members
        self._partitions = partitions

    async def run(self, runtime: Runtime) -> None:
        """It has no process."""

    def finish(self) -> None:
        """It has nothing to do."""

    def owes(self) -> str | None:
        memberships = [one.membership for one in self._members]
        known = [one for one in memberships if one is not None]
        if len(known) < len(memberships):
            return "an end to its rebalance"
        if len({generation_id for generation_id, _owned in known}) > 1:
            return f"one generation instead of {[generation_id for generation_id, _owned in known]}"
        owned = sorted(partition for _generation, partitions in known for partition in partitions)
        return (
            None if owned == self._partitions else f"owners of {self._partitions}, there are some of {owned}"
        )


class Founder:
    """Commits the beginning of every partition before there are members: a group with offsets is not forgotten."""

    name = "founder"

    def __init__(self, world: World, partitions: list[TopicPartition]) -> None:
        self._world = world
        self._offsets = dict.fromkeys(partitions, 0)
        self._is_done = False

    async def run(self, runtime: Runtime) -> None:
        client = Client(runtime, self.name, 3000)
        history = self._world.history
        while not self._is_done:
            commit = len(history.events)
            history.add(CommitAsked(self._world.now(), commit, self.name, NO_GENERATION, self._offsets))
            try:
                response = await client.ask(commit_request(GROUP, self._offsets), 8)
            except DisconnectedError:
                continue
            codes = [one.error_code for topic in response.topics for one in topic.partitions]
            history.add(CommitAnswered(self._world.now(), commit, ErrorCode(max(codes)).name))
            self._is_done = not any(codes)
            await runtime.tasks.sleep(0.1)
        await asyncio.Event().wait()

    def finish(self) -> None:
        self._world.start(self)

    def owes(self) -> str | None:
        return None if self._is_done else "the first commit"


class Auditor:
    """Asks from outside what the group has committed."""

    name = "auditor"

    def __init__(self, world: World, partitions: list[TopicPartition]) -> None:
        self._world = world
        self._partitions = partitions
        self._is_done = False

    async def run(self, runtime: Runtime) -> None:
        client = Client(runtime, self.name, 3000)
        while not self._is_done:
            try:
                found = await committed_offsets(client, GROUP, self._partitions, 8)
            except DisconnectedError:
                found = None
            if found is not None:
                self._is_done = True
                now = self._world.now()
                self._world.history.add(CommittedSeen(now, found.since, self.name, found.offsets))
            await runtime.tasks.sleep(0.1)
        await asyncio.Event().wait()

    def finish(self) -> None:
        self._is_done = False
        self._world.restart(self)

    def owes(self) -> str | None:
        return None if self._is_done else "an answer to what is committed"


class Story(BrokerStory):
    """One run."""

    name = "groups"

    def __init__(self, seed: int, *, traced: bool = False) -> None:
        dice = seeded_dice(seed, self.name)
        super().__init__(seed, dice, World(seed, _broker_settings(dice), traced=traced))
        self.topics = [_topic(self.dice, f"topic{index}") for index in range(self.dice.randint(1, 2))]
        self.partitions = sorted(
            TopicPartition(topic.name, index) for topic in self.topics for index in range(topic.partitions)
        )
        self.admin = Admin(self.world, self.topics)
        self.seconds = self.dice.uniform(5.0, 15.0)
        self.members = _members(self.dice, self.world, [topic.name for topic in self.topics])
        self.clock_troubles = _clock_troubles(seeded_dice(seed, self.name, "clock"), self.seconds)

    def _judge(self) -> list[Broken]:
        return [
            *invariants.judge(self.world.history),
            *group_invariants.judge(
                self.world.history,
                {member.name for member in self.members},
                [member.name for member in self.members if not member.manners.assignors],
            ),
        ]

    async def _play(self) -> None:
        world = self.world
        await world.settle([Founder(world, self.partitions)], TOPICS_SECONDS_MAX)
        producers = self._producers()
        self._start([*producers, *self.members])
        kinds = kinds_without("client", "topic", "records")
        disturbances = plan(
            self.dice, self._reach(), count=self.dice.randint(0, 7), seconds=self.seconds, kinds=kinds
        )
        troubles = [*disturbances, *self._member_troubles(), *self.clock_troubles]
        await self._disturb(sorted(troubles, key=lambda one: one[0]))
        await world.settle(producers, SETTLE_SECONDS)
        await world.settle([*self.members, Whole(self.members, self.partitions)], SETTLE_SECONDS)
        await self._end_broker(LAST_ENDINGS)
        await world.settle([Auditor(world, self.partitions)], _AUDIT_SECONDS_MAX)
        # The coordinator's rows were given by no producer.
        world.broker.read_logs(without={OFFSETS_TOPIC})

    def _producers(self) -> list[Producer]:
        return [
            Producer(self.world, f"producer{index}", _habits(self.dice, self.seconds), self.partitions)
            for index in range(self.dice.randint(1, 2))
        ]

    def _member_troubles(self) -> list[tuple[float, Disturbance]]:
        """Members freeze, leave and die, whatever else happens."""
        dice = self.dice
        troubles: list[tuple[float, Disturbance]] = []
        for _ in range(dice.randint(0, _MEMBER_TROUBLES_MAX)):
            member = dice.choice(self.members)
            choices: list[Disturbance] = [
                Freeze(member, dice.uniform(0.2, 8.0)),
                Leave(member, dice.uniform(0.0, 5.0)),
                RestartActor(member.name),
            ]
            troubles.append((dice.uniform(0.0, self.seconds), dice.choice(choices)))
        return troubles


def _clock_troubles(dice: random.Random, seconds: float) -> list[tuple[float, Disturbance]]:
    """In some stories the broker's clock is set back and the broker ends; with dice of their own, the others stay as they were."""
    if dice.random() >= _CLOCK_TROUBLE_PROBABILITY:
        return []
    return [(dice.uniform(0.0, seconds), clock_back_and_end(dice))]


def _broker_settings(dice: random.Random) -> dict[str, str | int | bool]:
    return {
        "auto.create.topics.enable": False,
        "log.flush.interval.messages": dice.choice([1, 1, 1, 2**63 - 1]),
        "offsets.topic.num.partitions": dice.choice([1, 3]),
        "group.min.session.timeout.ms": 100,
        "group.initial.rebalance.delay.ms": dice.choice([0, 300, 3000]),
        "group.consumer.min.session.timeout.ms": 100,
        "group.consumer.session.timeout.ms": dice.choice([1000, 3000]),
        "group.consumer.min.heartbeat.interval.ms": 50,
        "group.consumer.heartbeat.interval.ms": 300,
        "group.consumer.assignment.interval.ms": dice.choice([0, 1000]),
        "log.flush.offset.checkpoint.interval.ms": dice.choice([400, 5000]),
    }


def _topic(dice: random.Random, name: str) -> TopicPlan:
    configs = {
        "flush.messages": "1",
        "internal.segment.bytes": dice.choice(["1200", "4000", "1000000"]),
        "retention.ms": "-1",
    }
    return TopicPlan(name, dice.randint(1, 5), configs)


def _habits(dice: random.Random, seconds: float) -> Habits:
    batches = dice.randint(10, 40)
    return Habits(
        version=dice.choice([9, 12, 13]),
        compression=Compression.NONE,
        in_flight_max=5,
        batches=batches,
        pause_seconds=seconds / batches,
        records_max=3,
        value_bytes_max=60,
        request_timeout_ms=dice.choice([1000, 4000]),
        delivery_timeout_ms=120_000,
    )


def _members(dice: random.Random, world: World, topics: list[str]) -> list[GroupConsumer]:
    """Of the classic protocol, of KIP-848, or some of each: a group on its way from one to the other."""
    kinds: list[tuple[str, ...]] = dice.choice(
        [
            [("range",)],
            [("roundrobin", "range")],
            [("sticky",)],
            [("cooperative-sticky",)],
            [("cooperative-sticky",)],
            [()],
            [()],
            [(), ("range",)],
        ]
    )
    return [
        GroupConsumer(world, f"member{index}", GROUP, _manners(dice, dice.choice(kinds)), topics)
        for index in range(dice.randint(1, 5))
    ]


def _manners(dice: random.Random, assignors: tuple[str, ...]) -> Manners:
    is_static = bool(assignors) and dice.random() < 0.25
    session_timeout_ms = dice.choice([800, 1500, 3000])
    return Manners(
        assignors=assignors,
        is_static=is_static,
        versions=Versions(
            join=dice.choice([5, 6, 7, 8, 9] if is_static else [1, 2, 3, 4, 5, 6, 7, 8, 9]),
            sync=dice.choice([3, 4, 5] if is_static else [0, 1, 2, 3, 4, 5]),
            heartbeat=dice.choice([3, 4] if is_static else [0, 1, 2, 3, 4]),
            leave=dice.choice([3, 4, 5]),
            commit=dice.choice(([7, 8, 9] if is_static else [2, 3, 5, 6, 7, 8, 9]) if assignors else [9]),
            offset_fetch=dice.choice([1, 3, 5, 6, 7, 8, 9]),
        ),
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=dice.choice([1500, 4000]),
        heartbeat_interval_ms=session_timeout_ms // 3,
        commit_probability=dice.choice([0.1, 0.5, 1.0]),
        max_wait_ms=dice.choice([50, 300]),
        max_bytes=dice.choice([300, 1 << 20]),
        request_timeout_ms=dice.choice([1000, 3000]),
    )


def run(seed: int) -> None:
    """Play the story of a seed; raises `PromiseBroken` if a promise is."""
    Story(seed).run()

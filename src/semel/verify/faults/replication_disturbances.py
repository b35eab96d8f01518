"""The disturbances of a replicated cluster: of its members, its controllers, its topics, and between any two hosts.

Role.   `kinds` beside `cluster_disturbances.CLUSTER_KINDS`: a story of replicas draws from them with `disturbances.drawn`.
Rules.  * Which endings members may have is the story's to say: a power cut takes what is not synced.
        * `LosePowerAtPeace` takes what is not synced from one member while all others have it: nothing that was acknowledged may go.
"""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from semel.types import TopicPartition
from semel.verify.faults.cluster_disturbances import CLUSTER_KINDS, ClusterReach, EndSession
from semel.verify.faults.disturbances import (
    CutOff,
    Disturbance,
    EndBroker,
    EndBrokerInside,
    FreezeHost,
    RestartActor,
)
from semel.verify.history.events import Ending
from semel.verify.simulation.actors.admin import TopicPlan
from semel.verify.simulation.actors.cluster_admin import ClusterAdmin
from semel.verify.simulation.world import World
from semel.verify.simulation.zookeeper_host import ZOOKEEPER

_PAUSE_SECONDS: Final = (0.01, 4.0)
_PEACE_SECONDS_MAX: Final = 30.0
_LOOK_SECONDS: Final = 0.1


class Peaceful(Protocol):
    """Something that says whether the cluster is at rest."""

    def owes(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class ReplicationReach:
    """The hosts, actors and topics that disturbances may touch."""

    brokers: Sequence[str]
    controllers: Sequence[str]
    clients: Sequence[str]
    admin: ClusterAdmin
    topics: Sequence[TopicPlan]
    rest: Peaceful

    @property
    def hosts(self) -> ClusterReach:
        """Everything that can be cut off."""
        return ClusterReach(self.brokers, [*self.controllers, *self.clients])

    def place(self, dice: random.Random) -> TopicPartition:
        topic = dice.choice(self.topics)
        return TopicPartition(topic.name, dice.randrange(topic.partitions))


@dataclass(frozen=True, slots=True)
class RemakeTopic:
    """A topic is deleted, and another made under its name."""

    admin: ClusterAdmin
    topic: TopicPlan
    absent_seconds: float

    async def happen(self, world: World) -> None:
        del world
        self.admin.make_again(self.topic, absent_seconds=self.absent_seconds)


@dataclass(frozen=True, slots=True)
class Reassign:
    """A partition is to have other replicas, or the same in another order."""

    admin: ClusterAdmin
    place: TopicPartition
    replicas: tuple[int, ...]

    async def happen(self, world: World) -> None:
        del world
        self.admin.reassign(self.place, self.replicas)


@dataclass(frozen=True, slots=True)
class PreferLeaders:
    """The preferred replicas are to lead."""

    admin: ClusterAdmin
    places: tuple[TopicPartition, ...]

    async def happen(self, world: World) -> None:
        del world
        self.admin.prefer(self.places)


@dataclass(frozen=True, slots=True)
class EndMember:
    """A member ends and comes back: before its session is over, or after."""

    how: Ending
    pause_seconds: float
    broker: str

    async def happen(self, world: World) -> None:
        world.brokers[self.broker].end(self.how, self.pause_seconds)


@dataclass(frozen=True, slots=True)
class EndTwoMembers:
    """Two members end, one right after the other."""

    one: EndMember
    other: EndMember
    between_seconds: float

    async def happen(self, world: World) -> None:
        await self.one.happen(world)
        await asyncio.sleep(self.between_seconds)
        await self.other.happen(world)


@dataclass(frozen=True, slots=True)
class LosePowerAtPeace:
    """Once all replicas are in sync a member loses its power, and whatever it had not synced."""

    broker: str
    pause_seconds: float
    rest: Peaceful

    async def happen(self, world: World) -> None:
        until = world.now() + _PEACE_SECONDS_MAX
        while self.rest.owes() is not None:
            if world.now() > until:
                world.tell(f"no peace to cut the power of {self.broker} in")
                return
            await asyncio.sleep(_LOOK_SECONDS)
        await EndBroker("power cut", self.pause_seconds, self.broker).happen(world)


@dataclass(frozen=True, slots=True)
class LagUnheard:
    """A member stands still, and no controller hears of it: wishes of leaders wait for their answers."""

    member: FreezeHost
    controllers: tuple[FreezeHost, ...]

    async def happen(self, world: World) -> None:
        async with asyncio.TaskGroup() as group:
            for one in (self.member, *self.controllers):
                group.create_task(one.happen(world))


Draw = Callable[[random.Random, ReplicationReach], Disturbance]


def _of_cluster(name: str) -> Draw:
    return lambda dice, reach: CLUSTER_KINDS[name](dice, reach.hosts)


def _two(endings: Sequence[Ending]) -> Draw:
    def draw(dice: random.Random, reach: ReplicationReach) -> Disturbance:
        one, other = (
            EndMember(dice.choice(endings), dice.uniform(*_PAUSE_SECONDS), broker)
            for broker in dice.sample(list(reach.brokers), 2)
        )
        return EndTwoMembers(one, other, dice.uniform(0.0, 0.5))

    return draw


def _reassign(dice: random.Random, reach: ReplicationReach) -> Disturbance:
    ids = list(range(1, len(reach.brokers) + 1))
    return Reassign(reach.admin, reach.place(dice), tuple(dice.sample(ids, dice.choice([2, 3, 3]))))


def _prefer(_dice: random.Random, reach: ReplicationReach) -> Disturbance:
    places = (TopicPartition(one.name, index) for one in reach.topics for index in range(one.partitions))
    return PreferLeaders(reach.admin, tuple(places))


def _depose(dice: random.Random, reach: ReplicationReach) -> Disturbance:
    controller, seconds = dice.choice(reach.controllers), dice.uniform(0.2, 10.0)
    choices: list[Disturbance] = [
        FreezeHost(seconds, controller),
        CutOff(controller, ZOOKEEPER, "black hole", dice.random() < 0.5, seconds),
        EndSession(dice.randrange(8)),
        RestartActor(controller),
    ]
    return dice.choice(choices)


def _cut_members_off(dice: random.Random, reach: ReplicationReach) -> Disturbance:
    """Members from each other, from ZooKeeper only, or from the controllers."""
    one = dice.choice(reach.brokers)
    others = [*[broker for broker in reach.brokers if broker != one], ZOOKEEPER, *reach.controllers]
    return CutOff(one, dice.choice(others), "black hole", dice.random() < 0.6, dice.uniform(0.2, 12.0))


def _lag_unheard(dice: random.Random, reach: ReplicationReach) -> Disturbance:
    seconds = dice.uniform(1.0, 6.0)
    member = FreezeHost(seconds, dice.choice(reach.brokers))
    return LagUnheard(
        member, tuple(FreezeHost(seconds + dice.uniform(-0.9, 2.0), one) for one in reach.controllers)
    )


def kinds(endings: Sequence[Ending]) -> Mapping[str, Draw]:
    """All kinds; members end in one of these ways."""
    deaths = [one for one in endings if one != "clean stop"]
    return {
        "end": lambda dice, reach: EndMember(
            dice.choice(endings), dice.uniform(*_PAUSE_SECONDS), dice.choice(reach.brokers)
        ),
        "end two": _two(endings),
        "end inside": lambda dice, reach: EndBrokerInside(
            dice.randrange(80),
            "power cut" if dice.choice(deaths) == "power cut" else "kill",
            dice.uniform(*_PAUSE_SECONDS),
            dice.choice(reach.brokers),
        ),
        "cut members off": _cut_members_off,
        "freeze": lambda dice, reach: FreezeHost(dice.uniform(0.2, 9.0), dice.choice(reach.brokers)),
        "lag unheard": _lag_unheard,
        "depose": _depose,
        "remake": lambda dice, reach: RemakeTopic(
            reach.admin, dice.choice(reach.topics), dice.choice([0.0, dice.uniform(0.0, 2.0)])
        ),
        "reassign": _reassign,
        "prefer": _prefer,
        **{
            name: _of_cluster(name)
            for name in (
                "end zookeeper",
                "lose answers",
                "end session",
                "cut off",
                "slow way",
                "break",
                "slow disk",
                "clock",
            )
        },
        "restart": lambda dice, reach: RestartActor(dice.choice([*reach.controllers, *reach.clients])),
    }


def peaceful_kinds() -> Mapping[str, Draw]:
    """Power cuts of single members at peace, beside what harms nobody's logs."""
    return {
        "lose power": lambda dice, reach: LosePowerAtPeace(
            dice.choice(reach.brokers), dice.uniform(*_PAUSE_SECONDS), reach.rest
        ),
        "prefer": _prefer,
        "slow way": _of_cluster("slow way"),
        "break": _of_cluster("break"),
    }

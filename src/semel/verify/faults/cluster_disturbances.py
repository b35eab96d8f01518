"""The disturbances of several brokers and a ZooKeeper: between any two hosts, on any of them, and with sessions.

Role.   `CLUSTER_KINDS` beside `disturbances.KINDS`: a story of a cluster draws from these with `disturbances.drawn`.
Rules.  * Any two hosts can be cut off from each other: broker and broker, broker and ZooKeeper, actor and either.
        * ZooKeeper dies, stands still, loses answers to writes that happened, and ends sessions of whoever it likes.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from semel.runtime.memory_faults import Death
from semel.runtime.memory_network import Blockade, Link
from semel.runtime.memory_transport import Break
from semel.verify.faults.disturbances import (
    ClockJump,
    CutOff,
    Disturbance,
    EndBroker,
    EndBrokerInside,
    FreezeHost,
    RestartActor,
    SlowDisk,
)
from semel.verify.history.events import Ending
from semel.verify.simulation.world import World
from semel.verify.simulation.zookeeper_host import ZOOKEEPER

_ENDINGS: Final[tuple[Ending, ...]] = ("kill", "power cut", "clean stop")
_DEATHS: Final[tuple[Death, ...]] = ("kill", "power cut")
_PAUSE_SECONDS: Final = (0.01, 3.0)
_CLOCK_JUMP_MS: Final = 15 * 60_000


@dataclass(frozen=True, slots=True)
class EndZooKeeper:
    """ZooKeeper's process dies and comes back, its tree and sessions as they were."""

    power: bool
    pause_seconds: float

    async def happen(self, world: World) -> None:
        if world.zookeeper is not None:
            world.zookeeper.end(self.pause_seconds, power=self.power)


@dataclass(frozen=True, slots=True)
class LoseAnswers:
    """ZooKeeper does what it is asked next, and its answers are lost with their connections."""

    count: int

    async def happen(self, world: World) -> None:
        if world.zookeeper is not None:
            world.zookeeper.lose_answers(self.count)


@dataclass(frozen=True, slots=True)
class EndSession:
    """A session is over, whatever its owner does: the oldest of them, the next one, and so on."""

    number: int

    async def happen(self, world: World) -> None:
        zookeeper = world.zookeeper
        if zookeeper is not None and (sessions := sorted(zookeeper.machine.sessions.by_id)):
            zookeeper.expire(sessions[self.number % len(sessions)])


@dataclass(frozen=True, slots=True)
class SlowWay:
    """Packets between two hosts take their time."""

    one: str
    other: str
    latency_seconds: float
    seconds: float

    async def happen(self, world: World) -> None:
        network = world.simulation.network
        world.tell(
            f"between {self.one} and {self.other} it takes up to {self.latency_seconds:.3f} s, "
            f"for {self.seconds:.3f} s"
        )
        network.set_link(Link(latency_seconds=(0.0001, self.latency_seconds)), between=(self.one, self.other))
        await asyncio.sleep(self.seconds)
        network.set_link(Link(), between=(self.one, self.other))


@dataclass(frozen=True, slots=True)
class BreakBetween:
    """Connections between two hosts break."""

    one: str
    other: str
    how: Break

    async def happen(self, world: World) -> None:
        count = world.simulation.network.break_connections(self.one, self.other, how=self.how)
        world.tell(f"{count} connections between {self.one} and {self.other} break: {self.how.name}")


@dataclass(frozen=True, slots=True)
class ClusterReach:
    """The hosts and actors that disturbances may touch."""

    brokers: Sequence[str]
    actors: Sequence[str]

    def two(self, dice: random.Random) -> tuple[str, str]:
        """Any two hosts, ZooKeeper often among them."""
        others = [*self.brokers, *self.actors]
        if dice.random() < 0.5:
            return dice.choice(others), ZOOKEEPER
        one, other = dice.sample(others, 2)
        return one, other


def _cut_off(dice: random.Random, reach: ClusterReach) -> Disturbance:
    one, other = reach.two(dice)
    if dice.random() < 0.5:
        one, other = other, one
    how: Blockade = dice.choice(["black hole", "black hole", "reset"])
    return CutOff(one, other, how, dice.random() < 0.5, dice.uniform(0.05, 10.0))


CLUSTER_KINDS: Final[dict[str, Callable[[random.Random, ClusterReach], Disturbance]]] = {
    "end": lambda dice, reach: EndBroker(
        dice.choice(_ENDINGS), dice.uniform(*_PAUSE_SECONDS), dice.choice(reach.brokers)
    ),
    "end inside": lambda dice, reach: EndBrokerInside(
        dice.randrange(60), dice.choice(_DEATHS), dice.uniform(*_PAUSE_SECONDS), dice.choice(reach.brokers)
    ),
    "end zookeeper": lambda dice, _: EndZooKeeper(dice.random() < 0.5, dice.uniform(*_PAUSE_SECONDS)),
    "lose answers": lambda dice, _: LoseAnswers(dice.randint(1, 3)),
    "end session": lambda dice, _: EndSession(dice.randrange(10)),
    "freeze": lambda dice, reach: FreezeHost(
        dice.uniform(0.2, 8.0), dice.choice([ZOOKEEPER, *reach.brokers, *reach.actors])
    ),
    "cut off": _cut_off,
    "slow way": lambda dice, reach: SlowWay(
        *reach.two(dice), dice.uniform(0.01, 1.5), dice.uniform(0.5, 6.0)
    ),
    "break": lambda dice, reach: BreakBetween(*reach.two(dice), dice.choice(list(Break))),
    "slow disk": lambda dice, reach: SlowDisk(
        dice.uniform(0.05, 4.0), dice.uniform(0.5, 5.0), dice.choice(reach.brokers)
    ),
    "clock": lambda dice, reach: ClockJump(
        dice.choice([*reach.brokers, *reach.actors]), dice.randint(-_CLOCK_JUMP_MS, _CLOCK_JUMP_MS)
    ),
    "restart": lambda dice, reach: RestartActor(dice.choice(reach.actors)),
}

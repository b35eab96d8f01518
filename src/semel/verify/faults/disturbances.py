"""The disturbances of a simulated world, and their times: a plan drawn from the seed.

Role.   `plan` draws disturbances; `play` lets them happen at their times. Each is a small object that does one thing to a
        world and, where it lasts, undoes it.
Rules.  * A seed uses some kinds and not others: one run with every kind at once shows less than many runs with a few.
        * A machine whose disk has failed is switched off before the broker starts again (`BrokerHost.distrust_disk`).
        * Clocks jump, but stay within what one topic's settings allow; producers stay known to the broker.
"""

import asyncio
import errno
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from semel.runtime.memory_faults import Death, Operation
from semel.runtime.memory_network import Blockade, Link
from semel.runtime.memory_transport import Break
from semel.verify.history.events import Ending
from semel.verify.simulation.actors.admin import Admin, TopicPlan
from semel.verify.simulation.world import BROKER, World, label

R = TypeVar("R")
_CLOCK_JUMP_MS: Final = 15 * 60_000
_PAUSE_SECONDS: Final = (0.01, 3.0)


class Disturbance(Protocol):
    """Something that goes wrong."""

    async def happen(self, world: World) -> None: ...


@dataclass(frozen=True, slots=True)
class EndBroker:
    """The broker is killed, loses its power or is stopped in order, between two of its steps."""

    how: Ending
    pause_seconds: float
    broker: str = BROKER

    async def happen(self, world: World) -> None:
        world.brokers[self.broker].end(self.how, self.pause_seconds)


@dataclass(frozen=True, slots=True)
class EndBrokerInside:
    """The broker dies inside a change of its disk."""

    operations: int
    death: Death
    pause_seconds: float
    broker: str = BROKER

    async def happen(self, world: World) -> None:
        world.brokers[self.broker].end_at_operation(self.operations, self.death, self.pause_seconds)


@dataclass(frozen=True, slots=True)
class EndBrokerInWrite:
    """The broker dies when it has written so many bytes more."""

    size: int
    death: Death
    pause_seconds: float
    broker: str = BROKER

    async def happen(self, world: World) -> None:
        world.brokers[self.broker].end_after_bytes(self.size, self.death, self.pause_seconds)


@dataclass(frozen=True, slots=True)
class FreezeHost:
    """A host's process stands still: connections stay, nothing is answered; then everything is."""

    seconds: float
    host: str = BROKER

    async def happen(self, world: World) -> None:
        world.tell(f"{label(self.host)} freezes for {self.seconds:.3f} s")
        world.host(self.host).freeze(self.seconds)
        await asyncio.sleep(self.seconds)


@dataclass(frozen=True, slots=True)
class BreakConnections:
    """Connections of one host to the broker break, in one of the ways they do."""

    host: str
    how: Break

    async def happen(self, world: World) -> None:
        count = world.simulation.network.break_connections(self.host, BROKER, how=self.how)
        world.tell(f"{count} connections of {self.host} break: {self.how.name}")


@dataclass(frozen=True, slots=True)
class CutOff:
    """Nothing passes from one host to another, and nothing back if it is both ways."""

    one: str
    other: str
    how: Blockade
    both_ways: bool
    seconds: float

    async def happen(self, world: World) -> None:
        network = world.simulation.network
        way = "both ways" if self.both_ways else "one way"
        world.tell(f"{self.one} is cut off from {self.other} ({self.how}, {way}) for {self.seconds:.3f} s")
        network.partition(self.one, self.other, how=self.how, both_ways=self.both_ways)
        await asyncio.sleep(self.seconds)
        asking, asked = (self.other, self.one) if self.one == BROKER else (self.one, self.other)
        network.heal(asking, asked)
        world.tell(f"{asking} reaches {label(asked)} again")


@dataclass(frozen=True, slots=True)
class BadLinks:
    """Every connection is slow, stalls and breaks for a while."""

    stall_probability: float
    break_probability: float
    latency_seconds: float
    seconds: float

    async def happen(self, world: World) -> None:
        world.tell(f"links are bad for {self.seconds:.3f} s")
        world.simulation.network.set_link(
            Link(
                latency_seconds=(0.0001, self.latency_seconds),
                stall_probability=self.stall_probability,
                break_probability=self.break_probability,
            )
        )
        await asyncio.sleep(self.seconds)
        world.simulation.network.set_link(Link())
        world.tell("links are good")


@dataclass(frozen=True, slots=True)
class SlowDisk:
    """Syncs take long for a while."""

    sync_seconds: float
    seconds: float
    broker: str = BROKER

    async def happen(self, world: World) -> None:
        disk = world.host(self.broker).disk
        world.tell(f"syncs take up to {self.sync_seconds:.3f} s for {self.seconds:.3f} s")
        disk.sync_delay_seconds = (0.0, self.sync_seconds)
        await asyncio.sleep(self.seconds)
        disk.sync_delay_seconds = (0.0, 0.0)


@dataclass(frozen=True, slots=True)
class FullDisk:
    """The disk is full for a while."""

    after_bytes: int
    seconds: float
    broker: str = BROKER

    async def happen(self, world: World) -> None:
        disk = world.host(self.broker).disk
        world.tell(f"the disk is full after {self.after_bytes} bytes, for {self.seconds:.3f} s")
        disk.fill_after(self.after_bytes)
        await asyncio.sleep(self.seconds)
        disk.clear_faults()
        world.tell("the disk has room")


@dataclass(frozen=True, slots=True)
class FailingDisk:
    """An operation of the disk fails some times; then the machine is switched off and on."""

    operation: Operation
    code: int
    skip: int
    times: int
    seconds: float
    broker: str = BROKER

    async def happen(self, world: World) -> None:
        disk = world.host(self.broker).disk
        world.tell(
            f"the disk's next {self.operation} but {self.skip} fails with {errno.errorcode[self.code]}"
        )
        world.brokers[self.broker].distrust_disk()
        disk.fail(self.operation, self.code, skip=self.skip, times=self.times)
        await asyncio.sleep(self.seconds)
        disk.clear_faults()
        world.brokers[self.broker].end("power cut", 0.1)


@dataclass(frozen=True, slots=True)
class ClockJump:
    """A host's wall clock jumps."""

    host: str
    milliseconds: int

    async def happen(self, world: World) -> None:
        world.tell(f"the clock of {self.host} jumps by {self.milliseconds} ms")
        world.host(self.host).clock.jump(self.milliseconds)


@dataclass(frozen=True, slots=True)
class ClockBackAndEnd:
    """The broker's wall clock is set back, and the broker ends at once: its records lie in the future of the next one."""

    milliseconds: int
    how: Ending
    pause_seconds: float

    async def happen(self, world: World) -> None:
        await ClockJump(BROKER, -self.milliseconds).happen(world)
        await EndBroker(self.how, self.pause_seconds).happen(world)


@dataclass(frozen=True, slots=True)
class RestartActor:
    """A client is killed and started again."""

    name: str

    async def happen(self, world: World) -> None:
        world.tell(f"{self.name} is killed")
        world.restart(world.actors[self.name])


class _CanFreeze(Protocol):
    name: str

    def freeze(self, seconds: float) -> None: ...


@dataclass(frozen=True, slots=True)
class Freeze:
    """A client stands still, often until its session or its transaction has timed out, or a successor has begun."""

    actor: _CanFreeze
    seconds: float

    async def happen(self, world: World) -> None:
        world.tell(f"{self.actor.name} freezes for {self.seconds:.3f} s")
        self.actor.freeze(self.seconds)


@dataclass(frozen=True, slots=True)
class MakeTopicAgain:
    """A topic is deleted, and another made under its name, at once or after a while."""

    admin: Admin
    topic: TopicPlan
    absent_seconds: float = 0.0

    async def happen(self, world: World) -> None:
        del world
        self.admin.make_again(self.topic, absent_seconds=self.absent_seconds)


@dataclass(frozen=True, slots=True)
class DeleteRecords:
    """The records of a partition are deleted."""

    admin: Admin
    topic: TopicPlan
    partition: int

    async def happen(self, world: World) -> None:
        world.tell(f"the admin deletes the records of {self.topic.name}-{self.partition}")
        self.admin.delete_records(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class Reach:
    """The clients and topics that disturbances may touch."""

    clients: Sequence[str]
    mortal: Sequence[str]
    """Clients that may be killed."""
    admin: Admin
    topics: Sequence[TopicPlan]


Draw = Callable[[random.Random, Reach], Disturbance]
_ENDINGS: Final[tuple[Ending, ...]] = ("kill", "power cut", "clean stop")
_DEATHS: Final[tuple[Death, ...]] = ("kill", "power cut")


def _topic_with_partition(dice: random.Random, reach: Reach) -> tuple[TopicPlan, int]:
    topic = dice.choice(reach.topics)
    return topic, dice.randrange(topic.partitions)


def cut_off(dice: random.Random, client: str, hows: Sequence[Blockade], seconds_max: float) -> CutOff:
    """A client and the broker, one of them from the other."""
    how = dice.choice(hows)
    both_ways, from_broker = dice.random() < 0.5, dice.random() < 0.5
    one, other = (BROKER, client) if from_broker else (client, BROKER)
    return CutOff(one, other, how, both_ways, dice.uniform(0.05, seconds_max))


KINDS: Final[dict[str, Draw]] = {
    "end": lambda dice, _: EndBroker(dice.choice(_ENDINGS), dice.uniform(*_PAUSE_SECONDS)),
    "end inside": lambda dice, _: EndBrokerInside(
        dice.randrange(60), dice.choice(_DEATHS), dice.uniform(*_PAUSE_SECONDS)
    ),
    "end in write": lambda dice, _: EndBrokerInWrite(
        dice.randrange(3000), dice.choice(_DEATHS), dice.uniform(*_PAUSE_SECONDS)
    ),
    "break": lambda dice, reach: BreakConnections(dice.choice(reach.clients), dice.choice(list(Break))),
    "cut off": lambda dice, reach: cut_off(
        dice, dice.choice(reach.clients), ["black hole", "black hole", "reset"], 6.0
    ),
    "bad links": lambda dice, _: BadLinks(
        dice.uniform(0.0, 0.2), dice.uniform(0.0, 0.15), dice.uniform(0.001, 0.3), dice.uniform(0.5, 6.0)
    ),
    "slow disk": lambda dice, _: SlowDisk(dice.uniform(0.05, 4.0), dice.uniform(0.5, 5.0)),
    "full disk": lambda dice, _: FullDisk(dice.randrange(3000), dice.uniform(0.2, 3.0)),
    "failing disk": lambda dice, _: FailingDisk(
        dice.choice(["write", "sync", "sync_directory", "create", "rename", "truncate", "open"]),
        dice.choice([errno.EIO, errno.ENOSPC]),
        dice.randrange(8),
        dice.randint(1, 3),
        dice.uniform(0.1, 2.0),
    ),
    "clock": lambda dice, reach: ClockJump(
        dice.choice([BROKER, *reach.clients]), dice.randint(-_CLOCK_JUMP_MS, _CLOCK_JUMP_MS)
    ),
    "client": lambda dice, reach: RestartActor(dice.choice(reach.mortal)),
    "topic": lambda dice, reach: MakeTopicAgain(reach.admin, dice.choice(reach.topics)),
    "records": lambda dice, reach: DeleteRecords(reach.admin, *_topic_with_partition(dice, reach)),
}


def clock_back_and_end(dice: random.Random) -> ClockBackAndEnd:
    """Not among `KINDS`: of its two halves, drawn each by itself, the second seldom follows the first."""
    return ClockBackAndEnd(
        dice.randint(1, _CLOCK_JUMP_MS), dice.choice(_ENDINGS), dice.uniform(*_PAUSE_SECONDS)
    )


def kinds_without(*names: str) -> dict[str, Draw]:
    """All kinds but these."""
    return {name: draw for name, draw in KINDS.items() if name not in names}


def plan(
    dice: random.Random, reach: Reach, *, count: int, seconds: float, kinds: Mapping[str, Draw] = KINDS
) -> list[tuple[float, Disturbance]]:
    """Some kinds, `count` disturbances of them, each with its time; clocks jump at most three times."""
    return drawn(dice, reach, count=count, seconds=seconds, kinds=kinds)


def drawn(
    dice: random.Random,
    reach: R,
    *,
    count: int,
    seconds: float,
    kinds: Mapping[str, Callable[[random.Random, R], Disturbance]],
) -> list[tuple[float, Disturbance]]:
    """As `plan` does, of kinds that touch anything."""
    some = dice.sample(list(kinds), min(len(kinds), dice.randint(2, 6)))
    chosen = [dice.choice(some) for _ in range(count)]
    while chosen.count("clock") > 3:
        chosen[chosen.index("clock")] = "break"
    return sorted(
        ((dice.uniform(0.0, seconds), kinds[kind](dice, reach)) for kind in chosen), key=lambda one: one[0]
    )


async def play(world: World, disturbances: Sequence[tuple[float, Disturbance]], seconds: float) -> None:
    """Let them happen; return when all are over, after `seconds` at the earliest."""
    begun = world.now()
    async with asyncio.TaskGroup() as group:
        for at, disturbance in disturbances:
            await asyncio.sleep(max(0.0, begun + at - world.now()))
            group.create_task(disturbance.happen(world))
        await asyncio.sleep(max(0.0, begun + seconds - world.now()))

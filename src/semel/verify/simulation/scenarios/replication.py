"""Three members under a model of Kafka's controller: what was acknowledged by all outlives whatever happens to some.

Role.   `run(seed)` plays one story on the simulated runtime: real brokers as members of a cluster, ZooKeeper's stand-in, two model
        controllers of which one is in office, idempotent producers and readers. Then it is judged.
Flow.   members register, topics are made -> producers and readers work while members end, freeze and are cut off, controllers are
        deposed and come back late, leaders move, replicas are exchanged, topics are made again -> calm: everything is led, in sync,
        and equal within a bound, of itself or after every member ended -> every member ends once more -> the judgements.
Rules.  * The same seed gives the same run, to the byte.
        * Where members lose power at any time, every answer waits for a sync (`flush.messages=1`). In other worlds nobody loses
          power, or only one member at a time while all replicas are in sync: a record that two members hold in memory only is lost
          when both lose it.
        * Leaders are elected from the ISR only.
        * A broken promise raises `PromiseBroken` with the seed and the part of the history that matters.
"""

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final

from semel.core.zookeeper.machine import Machine
from semel.runtime.randomness import seeded_dice
from semel.types import TopicPartition
from semel.verify.faults.disturbances import Disturbance, drawn, play
from semel.verify.faults.replication_disturbances import Draw, ReplicationReach, kinds, peaceful_kinds
from semel.verify.history.events import Ending, Place, Reopened
from semel.verify.simulation import invariants, replication_invariants
from semel.verify.simulation.actors.admin import TopicPlan
from semel.verify.simulation.actors.cluster_admin import ClusterAdmin
from semel.verify.simulation.actors.cluster_reader import ClusterReader, Tastes
from semel.verify.simulation.actors.controller import Controller, Temper
from semel.verify.simulation.actors.producer import Habits, Producer
from semel.verify.simulation.invariants import Broken, ClusterFacts
from semel.verify.simulation.replicas import AtRest, Witness
from semel.verify.simulation.scenarios.broker_story import BrokerStory
from semel.verify.simulation.scenarios.produce import habits
from semel.verify.simulation.world import Actor, World
from semel.verify.simulation.zookeeper_host import ZOOKEEPER, ZOOKEEPER_PORT

MEMBERS: Final = 3
CONTROLLERS: Final = 2
SETTLE_SECONDS: Final = 120.0
"""How long after the last disturbance everything must be settled."""
_TROUBLES_MAX: Final = 10
_CLOCKS_OFF_MS_MAX: Final = 60_000
_IN_POWER: Final[tuple[Ending, ...]] = ("kill", "kill", "clean stop")
_ALL_ENDINGS: Final[tuple[Ending, ...]] = ("kill", "power cut", "clean stop")
_VERSIONS_OF_PRODUCE: Final = (3, 7, 9, 11)


class Story(BrokerStory):
    """One run."""

    name = "replication"
    hears_orders: ClassVar[bool] = True
    """Whether the controllers are models, which say what they order."""

    def __init__(self, seed: int, *, traced: bool = False) -> None:
        dice = seeded_dice(seed, self.name)
        self.is_durable: Final = dice.random() < 0.4
        """Whether every answer waits for a sync, so that members may lose power at any time."""
        self.is_peaceful: Final = not self.is_durable and dice.random() < 0.25
        """Whether members lose power one at a time, and only while all replicas are in sync."""
        world = World(
            seed,
            self._settings(dice),
            brokers=MEMBERS,
            clocks_off_ms_max=_CLOCKS_OFF_MS_MAX,
            zookeeper=Machine(tick_ms=dice.choice([100, 500])),
            traced=traced,
        )
        super().__init__(seed, dice, world)
        self.witness = Witness(world, trusts_disks=not self.is_peaceful, hears_orders=self.hears_orders)
        self.seconds = dice.uniform(6.0, 25.0)
        self.topics = [
            _topic(dice, f"topic{index}", durable=self.is_durable) for index in range(dice.randint(1, 2))
        ]
        self.partitions = [
            TopicPartition(topic.name, index) for topic in self.topics for index in range(topic.partitions)
        ]
        self.cluster_admin = ClusterAdmin(world, self.topics, factor=MEMBERS)
        self.controllers = self._controllers()
        self.rest = AtRest(world, self.partitions)

    def _settings(self, dice: random.Random) -> dict[str, str | int | bool]:
        """Of every member."""
        return member_settings(dice)

    def _controllers(self) -> list[Controller]:
        """The controllers that are no members."""
        return [
            Controller(self.world, number, _temper(self.dice), self.witness.ordered)
            for number in range(CONTROLLERS)
        ]

    async def _main(self) -> None:
        world = self.world
        self.witness.attach()
        helpers = world.keepers()
        self._start([*self.controllers, self.cluster_admin])
        await world.until_serving()
        await world.settle([self.cluster_admin], SETTLE_SECONDS)
        await self._play()
        world.is_over = True
        for task in helpers:
            task.cancel()

    async def _play(self) -> None:
        world, dice = self.world, self.dice
        producers, readers = self._producers(), self._readers()
        watching = asyncio.create_task(self.witness.watch(), name="witness")
        self._start([*producers, *readers])
        await play(world, self._troubles([*producers, *readers]), self.seconds)
        world.make_calm()
        await self._recover()
        await self._end_members(_IN_POWER, at_once=dice.random() < 0.5)
        await world.settle([self.cluster_admin, *self.controllers, *producers, self.rest], SETTLE_SECONDS)
        await world.settle([*readers, self.rest], SETTLE_SECONDS)
        await self._end_members(_ALL_ENDINGS if self.is_durable else _IN_POWER, at_once=True)
        await world.settle([self.rest], SETTLE_SECONDS)
        watching.cancel()
        self._look_for_the_last_time()

    async def _recover(self) -> None:
        """All is calm: the cluster has its time."""
        # Of itself, in some worlds. In peaceful ones the last one in sync may else be the one that has lost its power.
        if self.is_peaceful or self.dice.random() < 0.6:
            producers = [one for one in self.world.actors.values() if isinstance(one, Producer)]
            await self.world.settle(
                [self.cluster_admin, *self.controllers, *producers, self.rest], SETTLE_SECONDS
            )

    def _look_for_the_last_time(self) -> None:
        for look in self.witness.look():
            state = self.witness.state(look.topic, look.place.partition)
            if state is not None and state.place == look.place and look.broker in state.replicas:
                self.witness.seen.last.append(look)
        for host in self.world.brokers.values():
            host.read_logs(led_only=True)

    async def _end_members(self, endings: Sequence[Ending], *, at_once: bool) -> None:
        """Every member ends in one of these ways, and is back."""
        for broker in self.world.brokers.values():
            broker.end(self.dice.choice(endings), 0.1)
            if not at_once:
                await self.world.until_serving()
        await self.world.until_serving()

    def _troubles(self, clients: Sequence[Actor]) -> list[tuple[float, Disturbance]]:
        dice = self.dice
        reach = ReplicationReach(
            brokers=list(self.world.brokers),
            controllers=[one.name for one in self.controllers],
            clients=[one.name for one in clients],
            admin=self.cluster_admin,
            topics=self.topics,
            rest=self.rest,
        )
        chosen = (
            peaceful_kinds()
            if self.is_peaceful
            else self._kinds(_ALL_ENDINGS if self.is_durable else _IN_POWER)
        )
        return drawn(dice, reach, count=dice.randint(0, _TROUBLES_MAX), seconds=self.seconds, kinds=chosen)

    def _kinds(self, endings: Sequence[Ending]) -> Mapping[str, Draw]:
        """The kinds of troubles where not all is peaceful."""
        return kinds(endings)

    def _producers(self) -> list[Producer]:
        return [
            Producer(
                self.world,
                f"producer{index}",
                _habits(self.dice, self.seconds),
                self.partitions,
                through=names[0],
                others=tuple(names[1:]),
            )
            for index in range(self.dice.randint(1, 2))
            if (names := self._shuffled())
        ]

    def _readers(self) -> list[ClusterReader]:
        names = [topic.name for topic in self.topics]
        return [
            ClusterReader(
                self.world, f"reader{index}", _tastes(self.dice), names, self._shuffled(), self.witness.seen
            )
            for index in range(self.dice.randint(1, 2))
        ]

    def _shuffled(self) -> list[str]:
        return self.dice.sample(list(self.world.brokers), MEMBERS)

    def _judge(self) -> list[Broken]:
        seen, history, brokers = self.witness.seen, self.world.history, self.world.brokers
        stay: dict[Place, list[tuple[float, set[int]]]] = {}
        for one in seen.states:
            stay.setdefault(one.place, []).append((one.at, set(one.replicas) - set(one.going)))

        def may_be_gone(place: Place, opened: Reopened) -> bool:
            """Whether its replica was to be elsewhere, at some time before it was opened again."""
            broker = brokers[opened.broker].broker_id
            return any(at <= opened.at and broker not in replicas for at, replicas in stay.get(place, ()))

        def led(name: str, where: TopicPartition, since: float, until: float) -> bool:
            return name in brokers and seen.led_all_the_time(brokers[name].broker_id, where, since, until)

        facts = ClusterFacts(may_be_gone, led)
        return [*replication_invariants.judge(history, seen), *invariants.judge_cluster(history, facts)]


def member_settings(dice: random.Random) -> dict[str, str | int | bool]:
    """The settings that worlds differ in."""
    return {
        "zookeeper.connect": f"{ZOOKEEPER}:{ZOOKEEPER_PORT}",
        "zookeeper.session.timeout.ms": dice.choice([1500, 3000, 6000]),
        "replica.lag.time.max.ms": dice.choice([1000, 3000, 10_000]),
        "replica.high.watermark.checkpoint.interval.ms": dice.choice([500, 5000]),
        "auto.create.topics.enable": False,
        "log.retention.check.interval.ms": 3000,
        "log.flush.offset.checkpoint.interval.ms": dice.choice([400, 5000]),
        "num.replica.fetchers": dice.choice([1, 1, 2]),
        "replica.fetch.max.bytes": dice.choice([100, 1 << 20]),  # One batch at a time, or all.
        "replica.fetch.response.max.bytes": dice.choice([300, 10 << 20, 10 << 20]),
    }


def _topic(dice: random.Random, name: str, *, durable: bool) -> TopicPlan:
    configs = {
        "min.insync.replicas": "2",
        "flush.messages": "1" if durable else "9223372036854775807",
        "internal.segment.bytes": dice.choice(["1200", "4000", "1000000"]),
        "index.interval.bytes": dice.choice(["1", "300", "4096"]),
        "file.delete.delay.ms": dice.choice(["0", "2000"]),
        "message.timestamp.type": dice.choice(["CreateTime", "CreateTime", "LogAppendTime"]),
    }
    return TopicPlan(name, dice.randint(1, 2), configs)


def _temper(dice: random.Random) -> Temper:
    return Temper(
        session_timeout_ms=dice.choice([1500, 3000, 6000]),
        request_timeout_ms=dice.choice([3000, 30_000]),
        whim_seconds=dice.choice([None, 0.7, 2.0, 5.0]),
        linger_seconds=dice.choice([0.0, 2.0, 6.0]),
        repeats=dice.choice([0.0, 0.2]),
    )


def _habits(dice: random.Random, seconds: float) -> Habits:
    return replace(
        habits(dice, seconds), version=dice.choice(_VERSIONS_OF_PRODUCE), delivery_timeout_ms=120_000
    )


def _tastes(dice: random.Random) -> Tastes:
    return Tastes(
        version=dice.choice([4, 11, 12, 13, 15, 17]),
        committed=dice.random() < 0.5,
        max_wait_ms=dice.choice([100, 400]),
        partition_max_bytes=dice.choice([400, 1 << 20]),
        checks_epoch=dice.random() < 0.5,
        request_timeout_ms=dice.choice([1000, 4000]),
    )


def run(seed: int) -> None:
    """Play the story of a seed; raises `PromiseBroken` if a promise is."""
    Story(seed).run()

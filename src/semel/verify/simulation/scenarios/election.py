"""Three brokers, a ZooKeeper and three that stand for leader: no two write with one epoch, whatever dies or is cut off.

Role.   `run(seed)` plays one story on the simulated runtime, with real brokers and with clients that speak ZooKeeper's bytes, and
        judges it.
Flow.   ZooKeeper's tree is made -> electors register, elect and write, producers and consumers use their brokers, under faults
        (two hosts cut off from each other, expired sessions, lost answers, clock jumps, deaths of everything)
        -> calm: all are registered, one leads and writes, every record is where it belongs
        -> the brokers end once more -> the judgements.
Rules.  * The same seed gives the same run, to the byte.
        * The brokers are no cluster: each has topics of its own. They share ZooKeeper, the network and its trouble.
        * ZooKeeper's tree is written down by itself, at each change: nobody's belief is asked.
        * A broken promise raises `PromiseBroken` with the seed and the part of the history that matters.
"""

import random
from typing import Final

from semel.core.zookeeper.machine import Machine
from semel.core.zookeeper.wire.messages import ConnectRequest, Create
from semel.runtime.bundle import Runtime
from semel.runtime.randomness import seeded_dice
from semel.types import TopicPartition
from semel.verify.faults.cluster_disturbances import CLUSTER_KINDS, ClusterReach, EndSession
from semel.verify.faults.disturbances import CutOff, Disturbance, FreezeHost, RestartActor, drawn
from semel.verify.history.events import Elected, Wrote
from semel.verify.simulation import election_invariants, invariants
from semel.verify.simulation.actors.admin import Admin, TopicPlan
from semel.verify.simulation.actors.consumer import Consumer, Tastes
from semel.verify.simulation.actors.elector import CONTROLLER, EPOCH, IDS, LEDGER, Elector
from semel.verify.simulation.actors.producer import Producer
from semel.verify.simulation.invariants import Broken
from semel.verify.simulation.scenarios.broker_story import LAST_ENDINGS, BrokerStory
from semel.verify.simulation.scenarios.produce import habits
from semel.verify.simulation.world import Actor, World
from semel.verify.simulation.zookeeper_host import ZOOKEEPER

BROKERS: Final = 3
ELECTORS: Final = 3
SETTLE_SECONDS: Final = 90.0
"""How long after the last disturbance everything must be settled."""
_CLOCKS_OFF_MS_MAX: Final = 60_000
_ELECTOR_TROUBLES_MAX: Final = 8
_FOUNDER: Final = 0
"""A connection no server gives: the one that makes the tree before anybody comes."""


class Ensemble:
    """The electors seen as one: in the end one of them leads, and its writes are done."""

    name = "the ensemble"

    def __init__(self, world: World) -> None:
        self._world = world
        self._since = 0.0

    async def run(self, runtime: Runtime) -> None:
        """It has no process."""

    def finish(self) -> None:
        self._since = self._world.now()

    def owes(self) -> str | None:
        elections = list(self._world.history.of(Elected))
        writes = list(self._world.history.of(Wrote))
        if not elections:
            return "a leader"
        if not writes or writes[-1].at < self._since or writes[-1].epoch != elections[-1].epoch:
            return f"a write of {elections[-1].elector} with epoch {elections[-1].epoch}"
        return None


class Story(BrokerStory):
    """One run."""

    name = "election"

    def __init__(self, seed: int, *, traced: bool = False) -> None:
        dice = seeded_dice(seed, self.name)
        machine = Machine(tick_ms=dice.choice([100, 500]))
        world = World(
            seed,
            {"auto.create.topics.enable": False, "log.flush.interval.messages": dice.choice([1, 2**63 - 1])},
            brokers=BROKERS,
            clocks_off_ms_max=_CLOCKS_OFF_MS_MAX,
            zookeeper=machine,
            traced=traced,
        )
        super().__init__(seed, dice, world)
        _found(machine)
        self._watch()
        self.seconds = dice.uniform(5.0, 25.0)
        self.plans = {name: TopicPlan(f"records-of-{name}", 2, {}) for name in world.brokers}
        self.topics = list(self.plans.values())
        self.admins = [Admin(world, [plan], through=name) for name, plan in self.plans.items()]
        self.electors = [
            Elector(world, f"elector{number}", dice.choice([1000, 2000, 4000])) for number in range(ELECTORS)
        ]

    def _watch(self) -> None:
        """Have ZooKeeper tell who was elected and who has written."""
        zookeeper, history, seen = self.world.zookeeper, self.world.history, {EPOCH: 0, LEDGER: 0}
        if zookeeper is None:
            raise TypeError("this story has a ZooKeeper")

        def changed(machine: Machine) -> None:
            for path, zxid in seen.items():
                node = machine.tree.get(path)
                if node is None or node.version == 0 or node.mzxid == zxid:
                    continue
                seen[path] = node.mzxid
                if path == EPOCH:
                    elector = machine.tree.node(CONTROLLER).data or b""
                    name, epoch = elector.decode().split()
                    history.add(Elected(self.world.now(), node.mzxid, name, int(epoch)))
                else:
                    name, epoch, number = (node.data or b"").decode().split()
                    history.add(Wrote(self.world.now(), node.mzxid, name, int(epoch), int(number)))

        zookeeper.on_change.append(changed)

    def _admins(self) -> list[Admin]:
        return self.admins

    def _judge(self) -> list[Broken]:
        history = self.world.history
        return [*invariants.judge(history), *election_invariants.judge(history)]

    async def _play(self) -> None:
        world, dice = self.world, self.dice
        producers, consumers = [], []
        for name, plan in self.plans.items():
            partitions = [TopicPartition(plan.name, index) for index in range(plan.partitions)]
            producers.append(
                Producer(world, f"producer-{name}", habits(dice, self.seconds), partitions, through=name)
            )
            consumers.append(Consumer(world, f"consumer-{name}", _tastes(dice), [plan.name], through=name))
        actors: list[Actor] = [*self.electors, *producers, *consumers]
        self._start(actors)
        reach = ClusterReach(list(world.brokers), [one.name for one in actors])
        troubles = drawn(dice, reach, count=dice.randint(0, 14), seconds=self.seconds, kinds=CLUSTER_KINDS)
        await self._disturb(sorted([*troubles, *self._elector_troubles()], key=lambda one: one[0]))
        await world.settle([*self.electors, *producers], SETTLE_SECONDS)
        await world.settle([Ensemble(world), *consumers], SETTLE_SECONDS)
        await self._end_broker(LAST_ENDINGS)
        for broker in world.brokers.values():
            broker.read_logs()

    def _elector_troubles(self) -> list[tuple[float, Disturbance]]:
        """Leaders are lost, whatever else happens: for longer than their session lasts, or for less."""
        dice = self.dice
        troubles: list[tuple[float, Disturbance]] = []
        for _ in range(dice.randint(0, _ELECTOR_TROUBLES_MAX)):
            elector = dice.choice(self.electors).name
            seconds = dice.uniform(0.2, 8.0)
            choices: list[Disturbance] = [
                FreezeHost(seconds, elector),
                CutOff(elector, ZOOKEEPER, "black hole", dice.random() < 0.5, seconds),
                EndSession(dice.randrange(10)),
                RestartActor(elector),
            ]
            troubles.append((dice.uniform(0.0, self.seconds), dice.choice(choices)))
        return troubles


def _found(machine: Machine) -> None:
    """Make what electors find: where they register, and where they write."""
    machine.connect(_FOUNDER, ConnectRequest(timeout_ms=0), 0)
    for xid, path in enumerate((IDS, LEDGER)):
        machine.handle(_FOUNDER, xid, Create(path, b""), 0, 0)
    machine.disconnect(_FOUNDER)


def _tastes(dice: random.Random) -> Tastes:
    return Tastes(
        version=13,
        committed=dice.random() < 0.5,
        sessions=dice.random() < 0.8,
        max_wait_ms=dice.choice([200, 1000]),
        min_bytes=1,
        max_bytes=1 << 20,
        partition_max_bytes=1 << 20,
        checks_epoch=False,
        request_timeout_ms=dice.choice([1000, 4000]),
    )


def run(seed: int) -> None:
    """Play the story of a seed; raises `PromiseBroken` if a promise is."""
    Story(seed).run()

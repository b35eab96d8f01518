"""Transactions through everything that can go wrong: writers, workers, zombies, a broker that dies, a bad network.

Role.   `run(seed)` plays one story on the simulated runtime with the real broker and judges it.
Flow.   topics are made -> writers of both protocols commit, abort, freeze and vanish; two instances of one transactional id
        fence each other; workers consume, transform and produce; readers read -> calm: everybody commits once more,
        everything is transformed, nothing is left open, within a bound -> the broker ends once more and must know the same
        as before -> the judgement.
Rules.  * The same seed gives the same run, to the byte.
        * An answer is a promise. In worlds where the power may fail, logs are synced before answers; in the others a
          broker is killed or stopped, and its disk may be full.
        * A broken promise raises `PromiseBroken` with the seed and the part of the history that matters.
"""

import asyncio
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from semel.core.transactions.transaction import Transaction
from semel.runtime.randomness import seeded_dice
from semel.types import TopicPartition
from semel.verify.faults.disturbances import (
    Disturbance,
    Draw,
    EndBroker,
    EndBrokerInside,
    EndBrokerInWrite,
    Freeze,
    Reach,
    kinds_without,
    plan,
)
from semel.verify.simulation import transaction_invariants
from semel.verify.simulation.actors.admin import Admin, TopicPlan
from semel.verify.simulation.actors.consumer import Consumer, Tastes
from semel.verify.simulation.actors.transactional import Manners, Versions
from semel.verify.simulation.actors.transactional_worker import Pipeline, TransactionalWorker
from semel.verify.simulation.actors.transactional_writer import TransactionalActor, TransactionalWriter
from semel.verify.simulation.invariants import Broken, judge_openings
from semel.verify.simulation.scenarios.broker_story import ENDINGS_IN_POWER, LAST_ENDINGS, BrokerStory
from semel.verify.simulation.transaction_audit import (
    INTERNAL_TOPICS,
    OffsetsAuditor,
    last_committed,
    open_partitions,
    stored_transactions,
    transactions_known,
)
from semel.verify.simulation.transaction_invariants import Aftermath
from semel.verify.simulation.world import Actor, World

GROUP: Final = "pipeline"
SETTLE_SECONDS: Final = 120.0
"""How long after the last disturbance everything must be settled."""
WORKERS_PROBABILITY = 0.7
GROUP_PROBABILITY = 0.5
"""Whether there are workers, and whether they share a group."""
_WITH_POWER: Final[Mapping[str, Draw]] = {
    "end": lambda dice, _: EndBroker(dice.choice(("kill", "kill", "clean stop")), dice.uniform(0.01, 3.0)),
    "end inside": lambda dice, _: EndBrokerInside(dice.randrange(60), "kill", dice.uniform(0.01, 3.0)),
    "end in write": lambda dice, _: EndBrokerInWrite(dice.randrange(3000), "kill", dice.uniform(0.01, 3.0)),
}


class Quiet:
    """The coordinator and all logs seen as one: in the end no transaction is open anywhere."""

    name = "the broker"

    def __init__(self, world: World) -> None:
        self._world = world

    async def run(self, runtime: object) -> None:
        """It has no process."""

    def finish(self) -> None:
        """It has nothing to do."""

    def owes(self) -> str | None:
        broker = self._world.broker.broker
        known = transactions_known(broker)
        if known is None:
            return "an answer of its coordinator"
        under_way = [f"that of {name}" for name, one in known.items() if not one.state.may_expire]
        blocked = [f"those on {one}" for one in open_partitions(broker)]
        return (
            f"an end to transactions: {', '.join([*under_way, *blocked])}" if under_way or blocked else None
        )


class Story(BrokerStory):
    """One run."""

    name = "transactions"

    def __init__(self, seed: int, *, traced: bool = False) -> None:
        dice = seeded_dice(seed, self.name)
        self.is_synced = dice.random() < 0.5
        super().__init__(seed, dice, World(seed, self._settings(dice), traced=traced))
        self.topics = self._topics()
        self.inputs, self.outputs = map(partitions_of, self.topics[:2])
        self.admin = Admin(self.world, self.topics)
        self.seconds = self.dice.uniform(2.0, 8.0)
        self.writers = self._writers()
        self.workers = self._workers() if self.dice.random() < WORKERS_PROBABILITY else []
        self.readers = {
            f"reader{index}": Consumer(
                self.world,
                f"reader{index}",
                self._tastes(committed=index == 0),
                [topic.name for topic in self.topics],
            )
            for index in range(2)
        }
        self.aftermath = Aftermath({}, readers={"reader0": True, "reader1": False})

    def _judge(self) -> list[Broken]:
        history = self.world.history
        return [*judge_openings(history), *transaction_invariants.judge(history, self.aftermath)]

    async def _play(self) -> None:
        world = self.world
        actors: list[Actor] = [*self.writers, *self.workers, *self.readers.values()]
        await self._set_up()
        self._start(actors)
        await self._disturb(self._plan())
        await world.settle([self.admin], SETTLE_SECONDS)
        await world.settle(self.writers, SETTLE_SECONDS)
        await self._wind_up()
        if self.workers:
            await self._settle_workers()
        await world.settle([Quiet(world)], SETTLE_SECONDS)
        await world.settle(self.readers.values(), SETTLE_SECONDS)
        for actor in actors:
            world.host(actor.name).kill()
        await self._end_once_more()

    def _plan(self) -> list[tuple[float, Disturbance]]:
        """The disturbances, and their times."""
        return plan(
            self.dice,
            self._reach(),
            count=self.dice.randint(0, 9),
            seconds=self.seconds,
            kinds=self._kinds(),
        )

    async def _set_up(self) -> None:
        """Prepare what must be there before anybody comes: nothing but the topics."""

    async def _wind_up(self) -> None:
        """Called when all writers are done: nothing to do."""

    async def _settle_workers(self) -> None:
        """Until the offsets of their group say that every input was transformed."""
        for worker in self.workers:
            worker.finish()
        auditor = OffsetsAuditor(
            self.world, GROUP, list(self.inputs), last_committed(self.world, self.inputs)
        )
        await self.world.settle([auditor], SETTLE_SECONDS)

    async def _end_once_more(self) -> None:
        """The broker ends and comes back: it knows what it knew, and what its logs say."""
        world, broker = self.world, self.world.broker
        before = await self._known()
        await self._end_broker(LAST_ENDINGS if self.is_synced else ENDINGS_IN_POWER)
        after = await self._known()
        self.aftermath.rows = stored_transactions(broker.broker)
        replayed = {row.transactional_id: row for row in self.aftermath.rows}
        for name, known in (("before it ended", before), ("after it came back", after)):
            for transactional_id in sorted({*known, *replayed}):
                if known.get(transactional_id) != replayed.get(transactional_id):
                    world.flaw(
                        f"{transactional_id}: {name} the coordinator knew {known.get(transactional_id)}, its log says "
                        f"{replayed.get(transactional_id)}"
                    )
        if self.workers:
            auditor = OffsetsAuditor(world, GROUP, list(self.inputs), {})
            await world.settle([auditor], SETTLE_SECONDS)
            self.aftermath.offsets = auditor.offsets
        broker.read_logs(without=INTERNAL_TOPICS)

    async def _known(self) -> dict[str, Transaction]:
        """The transactions the coordinator knows, once it has loaded its rows."""
        deadline = self.world.now() + SETTLE_SECONDS
        while (known := transactions_known(self.world.broker.broker)) is None:
            if self.world.now() > deadline:
                self.world.flaw(f"the coordinator has not loaded its rows after {SETTLE_SECONDS} s")
                return {}
            await asyncio.sleep(0.05)
        return known

    # The actors, and their topics

    def _settings(self, dice: random.Random) -> dict[str, str | int | bool]:
        return {
            "auto.create.topics.enable": False,
            "log.flush.interval.messages": 1 if self.is_synced else 2**63 - 1,
            "offsets.topic.num.partitions": dice.choice([1, 2]),
            "transaction.state.log.num.partitions": dice.choice([1, 2]),
            "group.min.session.timeout.ms": 100,
            "group.initial.rebalance.delay.ms": dice.choice([0, 300]),
            "log.flush.offset.checkpoint.interval.ms": dice.choice([400, 5000]),
        }

    def _topics(self) -> list[TopicPlan]:
        """Inputs, outputs, and whatever else there is."""
        return [self._topic("inputs"), self._topic("outputs")]

    def _topic(self, name: str) -> TopicPlan:
        configs = {
            "flush.messages": "1" if self.is_synced else "9223372036854775807",
            "internal.segment.bytes": self.dice.choice(["1200", "4000", "1000000"]),
            "index.interval.bytes": self.dice.choice(["1", "4096"]),
            "retention.ms": "-1",
        }
        return TopicPlan(name, self.dice.randint(1, 3), configs)

    def _written(self) -> list[TopicPartition]:
        """Where writers write."""
        return [*self.inputs, *self.outputs]

    def _tastes(self, *, committed: bool) -> Tastes:
        dice = self.dice
        return Tastes(
            version=dice.choice([4, 7, 11, 12, 13, 17]),
            committed=committed,
            sessions=dice.random() < 0.5,
            max_wait_ms=dice.choice([200, 1000]),
            min_bytes=1,
            max_bytes=dice.choice([700, 1 << 20]),
            partition_max_bytes=dice.choice([400, 1 << 20]),
            checks_epoch=dice.random() < 0.5,
            request_timeout_ms=dice.choice([1000, 4000]),
        )

    def _writers(self) -> list[TransactionalActor]:
        partitions = self._written()
        writers: list[TransactionalActor] = []
        for index in range(self.dice.randint(1, 3)):
            some = sorted(self.dice.sample(partitions, self.dice.randint(1, len(partitions))))
            for instance in range(self.dice.choice([1, 1, 2])):
                name = f"writer{index}{'ab'[instance]}"
                manners = draw_manners(self.dice)
                writers.append(TransactionalWriter(self.world, name, f"writer{index}", manners, some))
        if self.dice.random() < 0.3:
            manners = replace(draw_manners(self.dice), vanish_probability=0.5)
            ghost = TransactionalWriter(self.world, "ghost", "ghost", manners, partitions, returns=False)
            writers.append(ghost)
        return writers

    def _workers(self) -> list[TransactionalWorker]:
        in_group = self.dice.random() < GROUP_PROBABILITY
        pipeline = Pipeline(
            inputs=self.inputs,
            outputs=self.outputs,
            group_id=GROUP,
            in_group=in_group,
            session_timeout_ms=self.dice.choice([1000, 3000]),
            abort_probability=self.dice.choice([0.0, 0.2]),
        )
        return [
            TransactionalWorker(
                self.world,
                f"worker{index}",
                f"worker{index}" if in_group else "worker",
                draw_manners(self.dice, with_member=in_group),
                pipeline,
            )
            for index in range(self.dice.randint(1, 2))
        ]

    def _kinds(self) -> Mapping[str, Draw]:
        actors: list[TransactionalActor] = [*self.writers, *self.workers]

        def freeze(dice: random.Random, _reach: Reach) -> Disturbance:
            return Freeze(dice.choice(actors), dice.uniform(0.2, 8.0))

        kinds = kinds_without("topic", "records")
        if not self.is_synced:
            kinds |= _WITH_POWER
            del kinds["failing disk"]
        return {**kinds, "freeze": freeze}


def partitions_of(topic: TopicPlan) -> tuple[TopicPartition, ...]:
    """All of a topic's."""
    return tuple(TopicPartition(topic.name, index) for index in range(topic.partitions))


def draw_manners(dice: random.Random, *, with_member: bool = False, v2_only: bool = False) -> Manners:
    """How a client works, in one of the two protocols."""
    return Manners(
        versions=_v2(dice) if v2_only or dice.random() < 0.5 else _v1(dice, with_member),
        transaction_timeout_ms=dice.choice([500, 1500, 4000, 20_000]),
        request_timeout_ms=dice.choice([300, 1000, 4000]),
        in_flight_max=dice.choice([1, 5]),
        pause_seconds=dice.choice([0.15, 0.4, 1.0]),
        abort_probability=dice.choice([0.1, 0.4]),
        vanish_probability=dice.choice([0.0, 0.05, 0.1]),
    )


def _v1(dice: random.Random, with_member: bool) -> Versions:
    return Versions(
        produce=dice.choice([3, 7, 9, 11]),
        init_producer_id=dice.choice([3, 4]),
        add_partitions=dice.choice([0, 1, 2, 3]),
        add_offsets=dice.choice([0, 2, 3, 4]),
        txn_offset_commit=dice.choice([3, 4] if with_member else [0, 1, 2, 3, 4]),
        end_txn=dice.choice([0, 1, 2, 3, 4]),
    )


def _v2(dice: random.Random) -> Versions:
    return Versions(
        produce=dice.choice([12, 13]),
        init_producer_id=dice.choice([4, 5]),
        add_partitions=3,
        add_offsets=4,
        txn_offset_commit=5,
        end_txn=5,
    )


def run(seed: int) -> None:
    """Play the story of a seed; raises `PromiseBroken` if a promise is."""
    Story(seed).run()

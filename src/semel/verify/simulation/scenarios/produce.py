"""A broker, idempotent producers and consumers through everything that can go wrong on one machine and its network.

Role.   `run(seed)` plays one story on the simulated runtime with the real broker and judges it.
Flow.   topics are made -> producers and consumers work while disturbances happen -> calm: everything unsettled settles
        within a bound -> the broker ends once more and is opened again -> `invariants.judge`.
Rules.  * The same seed gives the same run, to the byte.
        * A broken promise raises `PromiseBroken` with the seed and the part of the history that matters.
"""

import random
from dataclasses import replace
from typing import Final

from semel.core.records.codecs import Compression
from semel.runtime.randomness import seeded_dice
from semel.types import TopicPartition
from semel.verify.faults.disturbances import Reach, plan
from semel.verify.simulation.actors.admin import Admin, TopicPlan
from semel.verify.simulation.actors.consumer import Consumer, Tastes
from semel.verify.simulation.actors.producer import Habits, Producer
from semel.verify.simulation.invariants import Broken, judge
from semel.verify.simulation.scenarios.broker_story import LAST_ENDINGS, BrokerStory
from semel.verify.simulation.world import World

SETTLE_SECONDS: Final = 90.0
"""How long after the last disturbance everything must be settled."""


class Story(BrokerStory):
    """One run."""

    name = "produce"

    def __init__(self, seed: int, *, traced: bool = False) -> None:
        dice = seeded_dice(seed, self.name)
        super().__init__(seed, dice, World(seed, _broker_settings(dice), traced=traced))
        self.topics = [_topic(dice, f"topic{index}") for index in range(dice.randint(1, 3))]
        self.admin = Admin(self.world, self.topics)
        self.seconds = dice.uniform(4.0, 16.0)

    def _judge(self) -> list[Broken]:
        return judge(self.world.history)

    async def _play(self) -> None:
        world = self.world
        producers, consumers = self._producers(), self._consumers()
        self._start([*producers, *consumers])
        await self._disturb(
            plan(self.dice, self._reach(), count=self.dice.randint(0, 9), seconds=self.seconds)
        )
        await world.settle([self.admin, *producers], SETTLE_SECONDS)
        await world.settle(consumers, SETTLE_SECONDS)
        await self._end_broker(LAST_ENDINGS)
        world.broker.read_logs()

    def _producers(self) -> list[Producer]:
        partitions = [
            TopicPartition(topic.name, index) for topic in self.topics for index in range(topic.partitions)
        ]
        return [
            Producer(self.world, f"producer{index}", habits(self.dice, self.seconds), partitions)
            for index in range(self.dice.randint(1, 3))
        ]

    def _consumers(self) -> list[Consumer]:
        names = [topic.name for topic in self.topics]
        return [
            Consumer(self.world, f"consumer{index}", _tastes(self.dice), names)
            for index in range(self.dice.randint(1, 2))
        ]

    def _reach(self) -> Reach:
        """The administrator may be cut off too, but never dies."""
        reach = super()._reach()
        return replace(reach, clients=[*reach.clients, Admin.name])


def _broker_settings(dice: random.Random) -> dict[str, str | int | bool]:
    return {
        "auto.create.topics.enable": False,
        "log.retention.check.interval.ms": dice.choice([500, 3000]),
        "log.flush.offset.checkpoint.interval.ms": dice.choice([400, 5000]),
        "max.incremental.fetch.session.cache.slots": dice.choice([0, 1, 1000]),
    }


def _topic(dice: random.Random, name: str) -> TopicPlan:
    configs = {
        "flush.messages": dice.choice(
            ["1", "1", "1", "3", "20", "9223372036854775807", "9223372036854775807"]
        ),
        "internal.segment.bytes": dice.choice(["1200", "4000", "1000000"]),
        "index.interval.bytes": dice.choice(["1", "300", "4096"]),
        "retention.bytes": dice.choice(["-1", "-1", "3000"]),
        "retention.ms": dice.choice(["-1", "-1", "1000"]),
        "file.delete.delay.ms": dice.choice(["0", "2000"]),
        "message.timestamp.type": dice.choice(["CreateTime", "CreateTime", "LogAppendTime"]),
        "flush.ms": dice.choice(["9223372036854775807", "500"]),
    }
    return TopicPlan(name, dice.randint(1, 2), configs)


def habits(dice: random.Random, seconds: float) -> Habits:
    batches = dice.randint(5, 40)
    return Habits(
        version=dice.choice([3, 5, 7, 8, 9, 10, 11, 12, 13, 13]),
        compression=dice.choice([Compression.NONE, Compression.NONE, Compression.GZIP, Compression.LZ4]),
        in_flight_max=dice.choice([1, 2, 5, 5, 5]),
        batches=batches,
        pause_seconds=seconds / batches,
        records_max=dice.choice([1, 3]),
        value_bytes_max=dice.choice([1, 60, 200]),
        request_timeout_ms=dice.choice([300, 1000, 4000]),
        delivery_timeout_ms=dice.choice([1500, 10_000, 120_000]),
    )


def _tastes(dice: random.Random) -> Tastes:
    return Tastes(
        version=dice.choice([4, 6, 7, 10, 11, 12, 13, 15, 18]),
        committed=dice.random() < 0.5,
        sessions=dice.random() < 0.8,
        max_wait_ms=dice.choice([200, 1000, 3000]),
        min_bytes=dice.choice([1, 1, 1, 500]),
        max_bytes=dice.choice([1, 700, 1 << 20]),
        partition_max_bytes=dice.choice([1, 400, 1 << 20]),
        checks_epoch=dice.random() < 0.5,
        request_timeout_ms=dice.choice([1000, 4000]),
    )


def run(seed: int) -> None:
    """Play the story of a seed; raises `PromiseBroken` if a promise is."""
    Story(seed).run()

"""Five requests in flight, and what comes late: idempotent producers behind a link that loses answers and repeats requests.

Role.   `run(seed)` plays the story of `produce` with producers that give several batches at once, through a link that knows
        requests (`actors.faulty_link`). Answers never come or come late; connections are cut. Requests arrive twice, or late,
        or behind their own retry, when their producer has given up and begun a new epoch.
Rules.  * The promises are those of `produce`. Here a batch is sent again when four others are stored behind it: a broker that
          remembers four refuses it. And batches of an older epoch arrive: a broker that takes them stores them twice.
        * The broker dies as well, but topics and what they hold stay: a refusal must have its reason.
"""

import random
from dataclasses import replace
from typing import Final

from semel.runtime.randomness import seeded_dice
from semel.types import TopicPartition
from semel.verify.faults.disturbances import Reach, kinds_without, plan
from semel.verify.faults.link import Fate, at_random
from semel.verify.simulation.actors.admin import TopicPlan
from semel.verify.simulation.actors.faulty_link import LINK, FaultyLink
from semel.verify.simulation.actors.producer import Habits, Producer
from semel.verify.simulation.scenarios import produce
from semel.verify.simulation.scenarios.broker_story import ENDINGS_IN_POWER
from semel.verify.simulation.scenarios.produce import SETTLE_SECONDS

_FATES: Final = (
    Fate.CUT_BEFORE,
    Fate.CUT_AFTER,
    Fate.SWALLOW,
    Fate.SILENCE,
    Fate.LATE,
    Fate.DELAY,
    Fate.REPEAT,
    Fate.ECHO,
    Fate.LATE_COPY,
    Fate.OVERTAKEN,
)
_KINDS: Final = kinds_without(
    "topic", "records", "client", "full disk", "failing disk", "end inside", "end in write", "clock"
)


class Story(produce.Story):
    """One run."""

    name = "bursts"

    def __init__(self, seed: int, *, traced: bool = False) -> None:
        super().__init__(seed, traced=traced)
        dice = seeded_dice(seed, self.name, "link")
        fates = dice.sample(_FATES, dice.randint(1, 4))
        share = dice.uniform(0.05, 0.35) / len(fates)
        self.link = FaultyLink(
            at_random(
                dice.getrandbits(32),
                dict.fromkeys(fates, share),
                delay_max_seconds=dice.choice([0.05, 0.5, 3.0, 8.0]),
            )
        )
        self.topics = [_lasting(dice, topic) for topic in self.topics[:1]]
        self.admin = type(self.admin)(self.world, self.topics)

    async def _play(self) -> None:
        world = self.world
        self._start([self.link])
        producers, consumers = self._producers(), self._consumers()
        self._start([*producers, *consumers])
        await self._disturb(
            plan(self.dice, self._reach(), count=self.dice.randint(0, 3), seconds=self.seconds, kinds=_KINDS)
        )
        await world.settle([self.link, self.admin, *producers], SETTLE_SECONDS)
        await world.settle(consumers, SETTLE_SECONDS)
        for failure in self.link.failures:
            world.flaw(f"the link failed: {failure!r}")
        await self._end_broker(ENDINGS_IN_POWER)
        world.broker.read_logs()

    def _producers(self) -> list[Producer]:
        partitions = [
            TopicPartition(topic.name, index) for topic in self.topics for index in range(topic.partitions)
        ]
        return [
            Producer(
                self.world, f"producer{index}", _habits(self.dice, self.seconds), partitions, through=LINK
            )
            for index in range(self.dice.randint(1, 2))
        ]

    def _reach(self) -> Reach:
        reach = super()._reach()
        return replace(reach, clients=[name for name in reach.clients if name != LINK])


def _lasting(dice: random.Random, topic: TopicPlan) -> TopicPlan:
    """Of one or two partitions, whose records are not deleted while the story lasts."""
    configs = {**topic.configs, "retention.bytes": "-1", "retention.ms": "-1"}
    return TopicPlan(topic.name, dice.randint(1, 2), configs)


def _habits(dice: random.Random, seconds: float) -> Habits:
    bursts = dice.randint(4, 14)
    return replace(
        produce.habits(dice, seconds),
        in_flight_max=5,
        batches=bursts,
        burst=dice.choice([5, 5, 8, 12]),
        pause_seconds=seconds / bursts,
        records_max=1,
        value_bytes_max=20,
        request_timeout_ms=dice.choice([300, 1000]),
        delivery_timeout_ms=dice.choice([1500, 4000, 120_000]),
    )


def run(seed: int) -> None:
    """Play the story of a seed; raises `PromiseBroken` if a promise is."""
    Story(seed).run()

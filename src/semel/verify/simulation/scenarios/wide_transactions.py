"""Transactions over three topics of four partitions and a group's offsets, on a broker that dies again and again.

Role.   `run(seed)` plays a story of `transactions` in which every transaction of a writer writes to all twelve partitions, and
        workers commit positions with their outputs. Tens of times in a story the broker is killed or loses its power. The
        moment is random: inside a change of its disk, inside a write, or between its steps.
Rules.  * The same seed gives the same run, to the byte.
        * The same promises: readers of committed records see all of a transaction or nothing, whenever the broker died.
        * A power cut takes nothing that was answered: where there are any, logs are synced before answers.
"""

import random
from typing import Final

from semel.runtime.memory_faults import Death
from semel.types import TopicPartition
from semel.verify.faults.disturbances import Disturbance, EndBroker, EndBrokerInside, EndBrokerInWrite
from semel.verify.history.events import Reopened
from semel.verify.simulation.actors.admin import TopicPlan
from semel.verify.simulation.actors.transactional import Session
from semel.verify.simulation.actors.transactional_writer import (
    Batches,
    TransactionalActor,
    TransactionalWriter,
)
from semel.verify.simulation.scenarios import transactions
from semel.verify.simulation.scenarios.transactions import draw_manners, partitions_of

PARTITIONS: Final = 4
DEATHS: Final = 40
_SECONDS_BETWEEN: Final = 0.4
_OPERATIONS_MAX: Final = 80
_BYTES_MAX: Final = 8000
_PAUSE_SECONDS: Final = (0.01, 0.1)


class WideWriter(TransactionalWriter):
    """Every transaction writes to every partition."""

    def batches(self, session: Session, dice: random.Random) -> Batches:
        batches = self.last_batches(session)
        dice.shuffle(batches)
        return batches


class Story(transactions.Story):
    """One run."""

    name = "wide_transactions"

    def __init__(self, seed: int, *, traced: bool = False) -> None:
        super().__init__(seed, traced=traced)
        self.seconds = DEATHS * _SECONDS_BETWEEN
        if not self.workers:
            self.workers = self._workers()

    @property
    def deaths(self) -> int:
        """How often the broker died and came back."""
        return sum("clean stop" not in one.endings for one in self.world.history.of(Reopened) if one.endings)

    def _topics(self) -> list[TopicPlan]:
        names = ("inputs", "outputs", "others")
        return [TopicPlan(name, PARTITIONS, self._topic(name).configs) for name in names]

    def _written(self) -> list[TopicPartition]:
        return [one for topic in self.topics for one in partitions_of(topic)]

    def _writers(self) -> list[TransactionalActor]:
        return [
            WideWriter(
                self.world, f"writer{index}", f"writer{index}", draw_manners(self.dice), self._written()
            )
            for index in range(2)
        ]

    def _plan(self) -> list[tuple[float, Disturbance]]:
        return [((index + self.dice.random()) * _SECONDS_BETWEEN, self._death()) for index in range(DEATHS)]

    def _death(self) -> Disturbance:
        dice = self.dice
        how: Death = dice.choice(("kill", "power cut")) if self.is_synced else "kill"
        pause_seconds = dice.uniform(*_PAUSE_SECONDS)
        match dice.randrange(5):
            case 0:
                return EndBroker(how, pause_seconds)
            case 1 | 2:
                return EndBrokerInWrite(dice.randrange(_BYTES_MAX), how, pause_seconds)
            case _:
                return EndBrokerInside(dice.randrange(_OPERATIONS_MAX), how, pause_seconds)


def run(seed: int) -> None:
    """Play the story of a seed; raises `PromiseBroken` if a promise is."""
    deaths_in(seed)


def deaths_in(seed: int) -> int:
    """Play the story of a seed, as `run` does; how often the broker died."""
    story = Story(seed)
    story.run()
    return story.deaths

"""A story of a broker and its clients on the simulated runtime: the base of scenarios with a whole broker.

Role.   `BrokerStory` starts a broker and makes the topics, has the scenario play, and judges. A broken promise is told with
        the seed and the part of the history that matters.
Flow.   `produce`, `groups` and `transactions` say who is there (`_play`) and what must hold (`_judge`).
Rules.  * The same seed gives the same run, to the byte: `Story(seed, traced=True)` gives its digest.
        * A run that raises is a broken promise too.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar, Final

from semel.verify.faults.disturbances import Disturbance, Reach, play
from semel.verify.history.events import Ending
from semel.verify.simulation.actors.admin import Admin, TopicPlan
from semel.verify.simulation.invariants import Broken
from semel.verify.simulation.promise import PromiseBroken
from semel.verify.simulation.world import Actor, World, watched

TOPICS_SECONDS_MAX: Final = 60.0
"""How long it may take until the topics are there."""
LAST_ENDINGS: Final[tuple[Ending, ...]] = ("kill", "power cut", "clean stop")
ENDINGS_IN_POWER: Final[tuple[Ending, ...]] = ("kill", "clean stop")
_BROKEN_SHOWN_MAX: Final = 5
_AFTERMATH_SECONDS: Final = 0.5


class BrokerStory(ABC):
    """One run."""

    name: ClassVar[str]
    topics: list[TopicPlan]
    admin: Admin
    seconds: float
    """How long disturbances happen."""

    def __init__(self, seed: int, dice: random.Random, world: World) -> None:
        self.seed = seed
        self.dice = dice
        self.world = world

    def run(self) -> None:
        """Play and judge; raises `PromiseBroken`."""
        try:
            with watched(self.world):
                self.world.simulation.run(self._main())
        except Exception as error:
            failed = Broken(f"the run failed: {type(error).__name__}: {error}")
            raise self._broken([failed]) from error
        broken = self._judge()
        if broken:
            raise self._broken(broken)

    def digest(self) -> str:
        """Of everything that ran and was noted, if the story is traced."""
        return self.world.simulation.loop.trace_digest()

    @abstractmethod
    async def _play(self) -> None:
        """Everything from when the topics are there."""

    @abstractmethod
    def _judge(self) -> list[Broken]:
        """The broken promises in the history."""

    async def _main(self) -> None:
        world = self.world
        keepers = world.keepers()
        await world.until_serving()
        admins = self._admins()
        self._start(admins)
        await world.settle(admins, TOPICS_SECONDS_MAX)
        await self._play()
        world.is_over = True
        for keeper in keepers:
            keeper.cancel()

    def _admins(self) -> list[Admin]:
        """The admins that make the topics."""
        return [self.admin]

    def _start(self, actors: Iterable[Actor]) -> None:
        for actor in actors:
            self.world.add(actor)
            self.world.start(actor)

    async def _disturb(self, disturbances: Sequence[tuple[float, Disturbance]]) -> None:
        """Let them happen, and make the world calm; the broker ends once more."""
        await play(self.world, disturbances, self.seconds)
        self.world.make_calm()
        await self._end_broker(ENDINGS_IN_POWER)  # Logs that went offline are loaded again.

    async def _end_broker(self, endings: Sequence[Ending]) -> None:
        """Every broker ends in one of these ways, and is back."""
        for broker in self.world.brokers.values():
            broker.end(self.dice.choice(endings), 0.1)
        await self.world.until_serving()

    def _reach(self) -> Reach:
        """The reach of disturbances: every client that was started, but not the administrator."""
        clients = [name for name in self.world.actors if name != Admin.name]
        return Reach(clients=clients, mortal=clients, admin=self.admin, topics=self.topics)

    def _broken(self, broken: list[Broken]) -> PromiseBroken:
        """With the first one's part of the history."""
        shown = "\n".join(one.why for one in broken[:_BROKEN_SHOWN_MAX])
        more = f"\nand {len(broken) - _BROKEN_SHOWN_MAX} more" if len(broken) > _BROKEN_SHOWN_MAX else ""
        story = self.world.history.story(broken[0].topic, until=broken[0].at + _AFTERMATH_SECONDS)
        return PromiseBroken(f"{self.name} seed {self.seed}: {shown}{more}\n{story}")

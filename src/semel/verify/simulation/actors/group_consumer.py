"""A member of a group as an actor of the simulated world, of either protocol.

Role.   Starts the process its manners ask for, freezes it, lets it leave, and tells the scenario how it stands.
"""

import asyncio

from semel.runtime.bundle import Runtime
from semel.types import TopicPartition
from semel.verify.simulation.actors.group_member import ClassicConsumer
from semel.verify.simulation.actors.group_member_kip848 import Kip848Consumer
from semel.verify.simulation.actors.group_reading import GroupReading, Manners
from semel.verify.simulation.world import World


class GroupConsumer:
    """The actor."""

    def __init__(self, world: World, name: str, group_id: str, manners: Manners, topics: list[str]) -> None:
        self.name = name
        self.world = world
        self.group_id = group_id
        self.manners = manners
        self.topics = topics
        self.finishing = False
        self.frozen_until = 0.0
        self.turns = 0
        self._processes = 0
        self._consumer: GroupReading | None = None

    async def run(self, runtime: Runtime) -> None:
        self._processes += 1
        self.frozen_until = 0.0
        async with asyncio.TaskGroup() as tasks:
            kind = ClassicConsumer if self.manners.assignors else Kip848Consumer
            self._consumer = kind(self, f"{self.name}.{self._processes}", runtime, tasks)
            tasks.create_task(self._consumer.keep_membership(), name=f"{self.name} membership")
            tasks.create_task(self._consumer.read_for_ever(), name=f"{self.name} reading")

    def freeze(self, seconds: float) -> None:
        """Do nothing for a while, without knowing it."""
        self.frozen_until = self.world.now() + seconds

    def leave(self, seconds: float) -> None:
        """Leave the group in order and join it again after a while."""
        if self._consumer is not None:
            self._consumer.leaves_for = seconds

    def finish(self) -> None:
        self.finishing = True
        if self._consumer is not None:
            self._consumer.look_again()

    def owes(self) -> str | None:
        return "a process" if self._consumer is None else self._consumer.owes()

    @property
    def membership(self) -> tuple[int, tuple[TopicPartition, ...]] | None:
        """Its generation and what it owns, while nothing is to change."""
        consumer = self._consumer
        if consumer is None or not consumer.is_settled:
            return None
        return consumer.identity.generation_id, consumer.owned

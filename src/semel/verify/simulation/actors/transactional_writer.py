"""A program that writes transactions: commits, aborts, freezes, vanishes, and shares its transactional id with another.

Role.   `TransactionalActor` is what writers and workers share: instances one after the other, pauses, freezes.
        `TransactionalWriter` writes to random partitions, `HeldWriter` once to all of them.
Rules.  * An instance that was fenced, or that vanished, is followed by a new one, after a while.
        * Told to finish, a writer owes one committed transaction that writes to all its partitions. A writer that vanished for
          good owes nothing: only time ends the transaction it left open.
"""

import asyncio
import random
from abc import ABC, abstractmethod
from typing import Final, TypeAlias

from semel.runtime.bundle import Runtime
from semel.types import TopicPartition
from semel.verify.simulation.actors.transactional import Manners, Session
from semel.verify.simulation.world import World

Batches: TypeAlias = list[tuple[TopicPartition, tuple[bytes, ...]]]
_REST_SECONDS: Final = (0.05, 2.0)
VANISHED_SECONDS: Final = (0.5, 9.0)
_BATCHES_MAX: Final = 5
_RECORDS_MAX: Final = 3
_STEPS_MAX: Final = 4


class TransactionalActor(ABC):
    """Instances of one transactional id, one after the other, in one place."""

    def __init__(self, world: World, name: str, transactional_id: str, manners: Manners) -> None:
        self.name = name
        self.transactional_id = transactional_id
        self.world = world
        self.manners = manners
        self.finishing = False
        self._instances = 0
        self._frozen_until = 0.0

    async def run(self, runtime: Runtime) -> None:
        while True:
            self._instances += 1
            name = f"{self.name}.{self._instances}"
            session = self.new_session(name, runtime)
            if await session.introduce():
                await self.work(session, runtime)
            session.leave()
            await runtime.tasks.sleep(runtime.dice.uniform(*_REST_SECONDS))

    def new_session(self, name: str, runtime: Runtime) -> Session:
        """The next instance."""
        return Session(self.world, name, self.transactional_id, self.manners, runtime, self.pause)

    @abstractmethod
    async def work(self, session: Session, runtime: Runtime) -> None:
        """Until the instance is lost or vanishes."""

    def freeze(self, seconds: float) -> None:
        """Stand still."""
        self._frozen_until = self.world.now() + seconds

    async def pause(self) -> None:
        """Pass a place where it may stand still."""
        while (left := self._frozen_until - self.world.now()) > 0:
            await asyncio.sleep(left)

    def finish(self) -> None:
        self.finishing = True

    @abstractmethod
    def owes(self) -> str | None:
        """Its unfinished work once it was told to finish."""


class TransactionalWriter(TransactionalActor):
    """The actor."""

    def __init__(
        self,
        world: World,
        name: str,
        transactional_id: str,
        manners: Manners,
        partitions: list[TopicPartition],
        *,
        returns: bool = True,
    ) -> None:
        super().__init__(world, name, transactional_id, manners)
        self._returns = returns
        self._partitions = partitions
        self._values = 0
        self.is_done = False

    async def work(self, session: Session, runtime: Runtime) -> None:
        dice, manners = runtime.dice, self.manners
        while not session.is_lost:
            if self.is_done:
                await asyncio.Event().wait()
            if self.finishing:
                self.is_done = await session.run(self.last_batches(session), commit=True) == "committed"
                continue
            batches = self.batches(session, dice)
            roll = dice.random()
            if roll < manners.vanish_probability:
                fate = await session.run(batches, commit=True, steps=dice.randrange(_STEPS_MAX))
                if fate == "open":
                    self.world.tell(f"{session.name} vanishes")
                    session.leave()
                    if not self._returns:
                        self.is_done = True
                        await asyncio.Event().wait()
                    await runtime.tasks.sleep(dice.uniform(*VANISHED_SECONDS))
                    return
            elif roll < manners.vanish_probability + manners.abort_probability:
                await session.run(batches, commit=False, steps=dice.randrange(_STEPS_MAX))
            else:
                await session.run(batches, commit=True)
            await self.pause()
            if not self.finishing:
                await runtime.tasks.sleep(dice.expovariate(1 / manners.pause_seconds))

    def batches(self, session: Session, dice: random.Random) -> Batches:
        """A transaction's."""
        return [
            (one, self._new_values(session, dice.randint(1, _RECORDS_MAX)))
            for one in dice.choices(self._partitions, k=dice.randint(1, _BATCHES_MAX))
        ]

    def last_batches(self, session: Session) -> Batches:
        """The batches of the last transaction: one for every partition."""
        return [(one, self._new_values(session, 1)) for one in self._partitions]

    def _new_values(self, session: Session, count: int) -> tuple[bytes, ...]:
        first = self._values
        self._values += count
        return tuple(f"{session.name}:{first + index}".encode() for index in range(count))

    def owes(self) -> str | None:
        return None if self.is_done else "a committed transaction"


class HeldWriter(TransactionalWriter):
    """One transaction on all partitions that stays open until it is let go."""

    def __init__(
        self,
        world: World,
        name: str,
        manners: Manners,
        partitions: list[TopicPartition],
    ) -> None:
        super().__init__(world, name, name, manners, partitions)
        self._is_open = False
        self._let_go = asyncio.Event()

    def let_go(self) -> None:
        """From now on it owes the end of its transaction, before that its beginning."""
        self._let_go.set()

    async def work(self, session: Session, runtime: Runtime) -> None:
        del runtime
        while not session.is_lost and not self.is_done:
            self.is_done = await session.run_held(self.last_batches(session), self._hold) != "aborted"
        if self.is_done:
            await asyncio.Event().wait()

    async def _hold(self) -> None:
        self._is_open = True
        await self._let_go.wait()

    def owes(self) -> str | None:
        if self._let_go.is_set():
            return super().owes()
        return None if self._is_open else "an open transaction"

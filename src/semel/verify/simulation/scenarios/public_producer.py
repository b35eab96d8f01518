"""The public producer through everything that can go wrong on the way to a broker: each record once, in order, or not at all.

Role.   `run(seed)` plays one story on the simulated runtime: the real broker, and `semel.aio.Producer` as an application uses
        it, with transactions or without. Then the answers the application got are held against the log.
Flow.   records are sent while connections break, links stall, broker and client are killed -> calm -> the producer must get its
        last words stored -> `public_invariants.judge_writer`, which names the promises.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Any, Final

from semel.runtime.memory_transport import Break
from semel.runtime.randomness import seeded_dice
from semel.verify.faults.disturbances import (
    BadLinks,
    BreakConnections,
    Disturbance,
    EndBroker,
    RestartActor,
    SlowDisk,
    cut_off,
    play,
)
from semel.verify.simulation.actors.public_writer import CLIENT, TOPIC, PublicWriter, producer_settings
from semel.verify.simulation.promise import PromiseBroken
from semel.verify.simulation.public_invariants import content, judge_writer
from semel.verify.simulation.world import BROKER, PORT, World, watched

SETTLE_SECONDS: Final = 150.0
_ID: Final = "application"


class Story:
    """One run."""

    def __init__(self, seed: int, *, traced: bool = False) -> None:
        dice = seeded_dice(seed, "public producer")
        self.seed = seed
        self.seconds = dice.uniform(3.0, 12.0)
        partitions = dice.randint(1, 3)
        self.world = World(seed, {"num.partitions": partitions}, traced=traced)
        transactional = dice.random() < 0.5
        records = dice.randint(3, 12) if transactional else dice.randint(20, 120)
        self.application = PublicWriter(
            self.world,
            _settings(dice, transactional),
            transactional,
            dice.random() < 0.5,
            partitions,
            records,
            self.seconds / records,
        )
        self._dice = dice

    def run(self) -> None:
        """Play and judge; raises `PromiseBroken`."""
        with watched(self.world):
            self.world.simulation.run(self._main())
        held = content(self.world.history, TOPIC)
        broken = [*self.world.history.flaws, *judge_writer(self.application, held)]
        if broken:
            shown = "\n".join(broken[:5])
            raise PromiseBroken(
                f"public producer seed {self.seed}: {shown}\n{self.world.history.story(None)}"
            )

    async def _main(self) -> None:
        world = self.world
        keeper = asyncio.create_task(world.broker.keep(), name="keeper of the broker")
        await world.broker.until_serving()
        world.add(self.application)
        world.start(self.application)
        await play(world, self._plan(), self.seconds)
        world.make_calm()
        await world.broker.until_serving()
        await world.settle([self.application], SETTLE_SECONDS)
        world.broker.read_logs(without=["__transaction_state", "__consumer_offsets"])
        world.is_over = True
        keeper.cancel()

    def _plan(self) -> list[tuple[float, Disturbance]]:
        dice = self._dice
        draws: list[Callable[[], Disturbance]] = [
            lambda: BreakConnections(CLIENT, dice.choice(list(Break))),
            lambda: cut_off(dice, CLIENT, ["black hole", "reset"], 4.0),
            lambda: BadLinks(
                dice.uniform(0.0, 0.2),
                dice.uniform(0.0, 0.15),
                dice.uniform(0.001, 0.2),
                dice.uniform(0.5, 4.0),
            ),
            lambda: EndBroker("kill", dice.uniform(0.01, 2.0)),
            lambda: RestartActor(CLIENT),
            lambda: SlowDisk(dice.uniform(0.05, 2.0), dice.uniform(0.5, 3.0)),
        ]
        some = dice.sample(draws, dice.randint(1, 4))
        return sorted(
            ((dice.uniform(0.0, self.seconds), dice.choice(some)()) for _ in range(dice.randint(0, 10))),
            key=lambda one: one[0],
        )


def _settings(dice: random.Random, transactional: bool) -> dict[str, Any]:
    settings = producer_settings(dice, f"{BROKER}:{PORT}")
    settings["buffer.memory"] = dice.choice([1000, 33554432])
    if transactional:
        settings["transactional.id"] = _ID
    return settings


def run(seed: int) -> None:
    """Play the story of a seed; raises `PromiseBroken` if a promise is."""
    Story(seed).run()

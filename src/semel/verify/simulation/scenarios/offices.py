"""Three members that direct their cluster themselves: the promises hold while the office of controller goes from one to the next.

Role.   `run(seed)` plays the story of `replication` without model controllers: every member stands for election. It is judged by the
        same promises, by I7 (`offices`), and by the time in which the cluster recovers (I8).
Flow.   As in `replication`; the troubles befall the controller often, whoever it is: dead, frozen for longer than its session, cut
        off from ZooKeeper in either direction, out of its session, without the answers to its writes.
Rules.  * I8 Once all is calm, all members serve and the admin wants nothing more, everything is led, in sync and known to all within a
          session, the lag of a replica and five seconds.
        * The same seed gives the same run, to the byte.
"""

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Final

from semel.verify.faults import office_disturbances
from semel.verify.faults.disturbances import Disturbance
from semel.verify.faults.replication_disturbances import Draw
from semel.verify.history.events import Ending
from semel.verify.simulation import offices
from semel.verify.simulation.actors.controller import Controller
from semel.verify.simulation.invariants import Broken
from semel.verify.simulation.offices import OfficeWatch
from semel.verify.simulation.scenarios import replication
from semel.verify.simulation.world import Actor

_DEPOSED_MAX: Final = 5
_GRACE_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.1
_SOCKET_MS: Final = 3000


class Story(replication.Story):
    """One run."""

    name = "offices"
    hears_orders = False

    def __init__(self, seed: int, *, traced: bool = False) -> None:
        super().__init__(seed, traced=traced)
        self.watch = OfficeWatch(self.world)

    def _settings(self, dice: random.Random) -> dict[str, str | int | bool]:
        settings = replication.member_settings(dice)
        session_ms, lag_ms = (
            int(settings[name]) for name in ("zookeeper.session.timeout.ms", "replica.lag.time.max.ms")
        )
        self.recovery_seconds = (session_ms + lag_ms + _SOCKET_MS) / 1000 + _GRACE_SECONDS
        return {
            **settings,
            "replica.socket.timeout.ms": _SOCKET_MS,
            "controller.socket.timeout.ms": _SOCKET_MS,
            "semel.controller.eligible": True,
            "auto.leader.rebalance.enable": dice.random() < 0.5,
            "leader.imbalance.check.interval.seconds": dice.choice([1, 5]),
        }

    def _controllers(self) -> list[Controller]:
        return []

    def _kinds(self, endings: Sequence[Ending]) -> Mapping[str, Draw]:
        return office_disturbances.kinds(endings)

    async def _main(self) -> None:
        self.watch.attach()
        await super()._main()

    async def _recover(self) -> None:
        world = self.world
        await world.until_serving()
        deadline = world.now() + replication.SETTLE_SECONDS
        while self.cluster_admin.owes() is not None and world.now() < deadline:
            await asyncio.sleep(_LOOK_SECONDS)
        calm_at = world.now()
        while (owed := self.rest.owes_besides(equal_logs=False)) is not None:
            if world.now() > calm_at + self.recovery_seconds:
                world.flaw(f"I8: {self.recovery_seconds:.1f} s after all was calm the cluster owes {owed}")
                break
            await asyncio.sleep(_LOOK_SECONDS)
        await super()._recover()

    def _troubles(self, clients: Sequence[Actor]) -> list[tuple[float, Disturbance]]:
        troubles = super()._troubles(clients)
        if not self.is_peaceful:
            deposed = range(self.dice.randint(0, _DEPOSED_MAX))
            troubles += [
                (self.dice.uniform(0.0, self.seconds), office_disturbances.depose(self.dice)) for _ in deposed
            ]
        return sorted(troubles, key=lambda one: one[0])

    def _judge(self) -> list[Broken]:
        return [*offices.judge(self.watch.seen), *super()._judge()]


def run(seed: int) -> None:
    """Play the story of a seed; raises `PromiseBroken` if a promise is."""
    Story(seed).run()

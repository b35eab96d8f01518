"""The disturbances of whoever is the controller at that moment: it dies, stands still, is cut off, or loses its session.

Role.   `kinds` beside `replication_disturbances.kinds`: for a cluster whose members are its controllers.
Rules.  * A controller that stands still for longer than its session is deposed, and does not know it when it goes on.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from semel.core.cluster import paths
from semel.verify.faults import replication_disturbances
from semel.verify.faults.disturbances import CutOff, FreezeHost, RestartActor
from semel.verify.faults.replication_disturbances import Draw
from semel.verify.history.events import Ending
from semel.verify.simulation.offices import holder_of
from semel.verify.simulation.world import World
from semel.verify.simulation.zookeeper_host import ZOOKEEPER

Blow: TypeAlias = Literal[
    "kill", "freeze", "cut off", "no answers of ZooKeeper", "end session", "lose answers"
]
_BLOWS: Sequence[Blow] = (
    "kill",
    "freeze",
    "cut off",
    "no answers of ZooKeeper",
    "end session",
    "lose answers",
)


@dataclass(frozen=True, slots=True)
class Depose:
    """Something befalls the controller."""

    how: Blow
    seconds: float

    async def happen(self, world: World) -> None:
        zookeeper = world.zookeeper
        holder = None if zookeeper is None else holder_of(zookeeper.machine)
        name = next((name for name, host in world.brokers.items() if host.broker_id == holder), None)
        if zookeeper is None or name is None:
            world.tell("there is no controller to depose")
            return
        world.tell(f"the controller {name} is befallen: {self.how}")
        match self.how:
            case "kill":
                world.brokers[name].end("kill", self.seconds)
            case "freeze":
                await FreezeHost(self.seconds, name).happen(world)
            case "cut off":
                await CutOff(name, ZOOKEEPER, "black hole", True, self.seconds).happen(world)
            case "no answers of ZooKeeper":
                await CutOff(ZOOKEEPER, name, "black hole", False, self.seconds).happen(world)
            case "end session":
                node = zookeeper.machine.tree.get(paths.CONTROLLER)
                if node is not None:
                    zookeeper.expire(node.ephemeral_owner)
            case "lose answers":
                zookeeper.lose_answers(3)


def kinds(endings: Sequence[Ending]) -> Mapping[str, Draw]:
    """All kinds; members end in one of these ways."""
    return {
        **replication_disturbances.kinds(endings),
        "depose": lambda dice, _reach: depose(dice),
        "restart": lambda dice, reach: RestartActor(dice.choice(reach.clients)),
    }


def depose(dice: random.Random) -> Depose:
    """Any of them."""
    return Depose(dice.choice(_BLOWS), dice.uniform(0.1, 10.0))

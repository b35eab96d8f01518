"""The office of controller as ZooKeeper holds it, and what is written in its name: seen from outside, and judged (I7).

Role.   `OfficeWatch` writes down every epoch with its holder, and every state of a partition with the epoch it names. `judge` says
        what is broken.
Rules.  * I7 Every epoch is the next number and has one holder. A state is written in the epoch that ZooKeeper holds at that moment: of
          two brokers that take themselves for the controller only one can write.
        * ZooKeeper's own word counts, after each of its steps; brokers are not asked.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from semel.core.cluster import documents, paths
from semel.core.zookeeper.machine import Machine
from semel.verify.simulation.invariants import Broken
from semel.verify.simulation.world import World


@dataclass(frozen=True, slots=True)
class EpochSeen:
    """Somebody was elected."""

    at: float
    epoch: int
    holder: int | None


@dataclass(frozen=True, slots=True)
class StateWritten:
    """A partition's state names an epoch, and which one it was then."""

    at: float
    topic: str
    partition: int
    epoch: int
    present: int


@dataclass(slots=True)
class OfficesSeen:
    """Everything that was seen, in order."""

    epochs: list[EpochSeen] = field(default_factory=list)
    writes: list[StateWritten] = field(default_factory=list)


class OfficeWatch:
    """Looks at one world's ZooKeeper."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._known: dict[tuple[str, int], int] = {}
        self.seen: Final = OfficesSeen()

    def attach(self) -> None:
        """Hear of ZooKeeper's changes from now on."""
        zookeeper = self._world.zookeeper
        if zookeeper is None:
            raise TypeError("there is no ZooKeeper in this world")
        zookeeper.on_change.append(self._changed)

    def _changed(self, machine: Machine) -> None:
        node = machine.tree.get(paths.CONTROLLER_EPOCH)
        present = 0 if node is None else documents.decode_number(paths.CONTROLLER_EPOCH, node.data)
        if present and (not self.seen.epochs or self.seen.epochs[-1].epoch != present):
            holder = holder_of(machine)
            self._world.tell(f"ZooKeeper: broker {holder} is the controller of epoch {present}")
            self.seen.epochs.append(EpochSeen(self._world.now(), present, holder))
        for topic in sorted(_children(machine, paths.TOPICS)):
            for index in sorted(int(one) for one in _children(machine, paths.partitions(topic))):
                state = machine.tree.get(paths.state(topic, index))
                if state is None or self._known.get((topic, index)) == state.mzxid:
                    continue
                self._known[topic, index] = state.mzxid
                epoch = documents.decode_state(topic, index, state.data).controller_epoch
                self.seen.writes.append(StateWritten(self._world.now(), topic, index, epoch, present))


def holder_of(machine: Machine) -> int | None:
    """The broker that is the controller."""
    node = machine.tree.get(paths.CONTROLLER)
    return None if node is None else documents.decode_controller(node.data)


def _children(machine: Machine, path: str) -> list[str]:
    node = machine.tree.get(path)
    return [] if node is None else list(node.children)


def judge(seen: OfficesSeen) -> list[Broken]:
    """Everything that is broken."""
    return [*_epochs(seen), *_writes(seen)]


def _epochs(seen: OfficesSeen) -> Iterator[Broken]:
    before = 0
    for one in seen.epochs:
        if one.epoch != before + 1:
            yield Broken(f"I7: epoch {one.epoch} of broker {one.holder} follows epoch {before}", at=one.at)
        if one.holder is None:
            yield Broken(f"I7: epoch {one.epoch} began without a controller", at=one.at)
        before = one.epoch


def _writes(seen: OfficesSeen) -> Iterator[Broken]:
    for one in seen.writes:
        if one.epoch != one.present:
            yield Broken(
                f"I7: {one.topic}-{one.partition} was written by the controller of epoch {one.epoch} in epoch {one.present}",
                one.topic,
                one.at,
            )

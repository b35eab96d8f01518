"""A partition as the metadata knows it: its replicas, its leader, and the epochs that fence.

Rules.  * The leader epoch rises with every new leader and never falls: of two epochs the higher one is newer.
        * The partition epoch rises with every change of the state, the leader's own included.
        * Partitions in the same state share one object, so that a topic of ten thousand costs little.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

NO_LEADER: Final = -1
"""The leader of a partition without one: it is offline, or not made yet."""


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One partition of a topic."""

    replicas: tuple[int, ...]
    """Broker ids; the first is the preferred leader."""
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    offline: tuple[int, ...] = ()
    """Replicas on disks that failed, as a controller tells of them: their brokers may be alive."""

    @property
    def is_known(self) -> bool:
        """Whether anything was told of it: see `NOT_TOLD`."""
        return bool(self.replicas)

    def led_from(self, leader_epoch: int) -> "PartitionState":
        """The same partition, led in a later epoch."""
        return replace(
            self, leader_epoch=leader_epoch, partition_epoch=max(self.partition_epoch, leader_epoch)
        )


NOT_TOLD: Final = PartitionState((), (), NO_LEADER, leader_epoch=-1, partition_epoch=-1)
"""A partition whose topic has a later one that a controller told of first."""


def new_state(replicas: tuple[int, ...]) -> PartitionState:
    """A partition that is made on these brokers: the first leads, and all are in sync."""
    return PartitionState(replicas, replicas, replicas[0])


def alone(broker_id: int, partitions: int) -> tuple[PartitionState, ...]:
    """New partitions, each with its only replica on this broker."""
    return (new_state((broker_id,)),) * partitions


def not_below(states: Sequence[PartitionState], leader_epoch: int) -> tuple[PartitionState, ...]:
    """The states with every leader epoch raised to at least this one."""
    raised: dict[int, PartitionState] = {}
    for state in states:
        if id(state) not in raised:
            raised[id(state)] = state if state.leader_epoch >= leader_epoch else state.led_from(leader_epoch)
    return tuple(raised[id(state)] for state in states)

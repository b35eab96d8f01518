"""The states of a classic group, and every move between them.

Role.   `ClassicGroup.move_to` refuses any move not listed here.

    Empty                 no members; offsets may exist
    PreparingRebalance    members must rejoin; JoinGroup requests wait
    CompletingRebalance   a generation has begun; its leader must send the assignments
    Stable                every member has its assignment, or can get it by SyncGroup
    Dead                  deleted; any holder of the object must drop it
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class ClassicGroupState(StrEnum):
    """A state, by the name Kafka's tools print."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


MOVES: Final[Mapping[ClassicGroupState, frozenset[ClassicGroupState]]] = {
    ClassicGroupState.EMPTY: frozenset({ClassicGroupState.PREPARING_REBALANCE, ClassicGroupState.DEAD}),
    ClassicGroupState.PREPARING_REBALANCE: frozenset(
        {ClassicGroupState.EMPTY, ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.DEAD}
    ),
    ClassicGroupState.COMPLETING_REBALANCE: frozenset(
        {ClassicGroupState.PREPARING_REBALANCE, ClassicGroupState.STABLE, ClassicGroupState.DEAD}
    ),
    ClassicGroupState.STABLE: frozenset({ClassicGroupState.PREPARING_REBALANCE, ClassicGroupState.DEAD}),
    ClassicGroupState.DEAD: frozenset(),
}

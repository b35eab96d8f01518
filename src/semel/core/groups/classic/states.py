"""The states of a classic group, and every move between them.

Role.   `ClassicGroup.move_to` asks here. What is not listed cannot happen.

    Empty                 nobody is in it; offsets may be
    PreparingRebalance    members are expected to join; requests to join wait
    CompletingRebalance   a generation has begun; its leader is expected to say who gets what
    Stable                every member has its part, or can have it by asking
    Dead                  deleted; what still holds the object must let go of it
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

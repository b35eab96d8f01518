"""Where a KIP-848 group and its members stand, in Kafka's words and numbers.

Rules.  * A member is STABLE once it has what the target of its epoch gives it. It moves on to the next target by way of
          UNREVOKED_PARTITIONS (it has been told to give up partitions and has not confirmed), and
          UNRELEASED_PARTITIONS (what it shall get is still in other hands). It may go from each of them to any.
        * Its epoch changes to the target's only once it has nothing to give up.
"""

from enum import IntEnum, StrEnum
from typing import Final


class MemberState(IntEnum):
    """As member rows carry it."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127
    """Written by a newer broker: the member has to begin again."""

    @classmethod
    def of(cls, value: int) -> "MemberState":
        """The state a row names."""
        return cls(value) if value in _KNOWN else cls.UNKNOWN


_KNOWN: Final = frozenset((0, 1, 2))


class GroupState(StrEnum):
    """As ListGroups and ConsumerGroupDescribe tell it."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    """Its epoch is ahead of its target's."""
    RECONCILING = "Reconciling"
    """Members are on their way to the target."""
    STABLE = "Stable"
    DEAD = "Dead"


JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2
"""A static member that will be back: its partitions stay its own until its session ends."""

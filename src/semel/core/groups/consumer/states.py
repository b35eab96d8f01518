"""The states of a KIP-848 group and its members, with Kafka's names and numbers.

Rules.  * A member is STABLE once it owns its target of its epoch. On the way to the next target it is in
          UNREVOKED_PARTITIONS (it has not confirmed a revocation) or UNRELEASED_PARTITIONS (other members still hold
          its new partitions). Every move between these states is legal.
        * Its epoch becomes the target's only once it has nothing to revoke.
"""

from enum import IntEnum, StrEnum
from typing import Final


class MemberState(IntEnum):
    """The state in member rows."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127
    """Written by a newer broker: the member must rejoin."""

    @classmethod
    def of(cls, value: int) -> "MemberState":
        """The state of a row."""
        return cls(value) if value in _KNOWN else cls.UNKNOWN


_KNOWN: Final = frozenset((0, 1, 2))


class GroupState(StrEnum):
    """The state in ListGroups and ConsumerGroupDescribe."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    """The group's epoch is ahead of its target's."""
    RECONCILING = "Reconciling"
    """Some members have not reached the target."""
    STABLE = "Stable"
    DEAD = "Dead"


JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2
"""The epoch of a static member that left temporarily: it keeps its partitions until its session ends."""

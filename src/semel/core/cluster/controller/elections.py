"""Elections: who leads a partition, and who is in sync with the new leader. Pure functions of what is known.

Role.   One function per occasion, as Kafka's PartitionLeaderElectionAlgorithms and Election together.
Rules.  * The first replica of the assignment that fits is the leader: the order of the assignment is a preference.
        * Only a member of the ISR leads, but for an unclean election: its leader is alone in sync, and is to recover.
        * None: nobody can lead, and the state stays as it is.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple


class Elected(NamedTuple):
    """The new leader and its ISR."""

    leader: int
    isr: tuple[int, ...]
    is_recovering: bool = False
    """Whether the election was unclean: the leader may lack records."""


def offline(
    assignment: Sequence[int], isr: Sequence[int], online: Collection[int], *, is_unclean_allowed: bool
) -> Elected | None:
    """The leader is gone, or there was none."""
    leader = _first(assignment, isr, online)
    if leader is not None:
        return Elected(leader, tuple(one for one in isr if one in online))
    if not is_unclean_allowed:
        return None
    leader = next((one for one in assignment if one in online), None)
    return None if leader is None else Elected(leader, (leader,), is_recovering=True)


def reassignment(target: Sequence[int], isr: Sequence[int], online: Collection[int]) -> Elected | None:
    """The leader does not belong to the replicas that the partition moves to."""
    leader = _first(target, isr, online)
    return None if leader is None else Elected(leader, tuple(isr))


def preferred(assignment: Sequence[int], isr: Sequence[int], online: Collection[int]) -> Elected | None:
    """The first replica is to lead again."""
    leader = _first(assignment[:1], isr, online)
    return None if leader is None else Elected(leader, tuple(isr))


def controlled_shutdown(
    assignment: Sequence[int], isr: Sequence[int], up: Collection[int], stopping: Collection[int]
) -> Elected | None:
    """The leader is about to stop. `up` are the replicas that are online, those that are stopping among them."""
    leader = next((one for one in assignment if one in up and one in isr and one not in stopping), None)
    return None if leader is None else Elected(leader, tuple(one for one in isr if one not in stopping))


def _first(candidates: Sequence[int], isr: Sequence[int], online: Collection[int]) -> int | None:
    return next((one for one in candidates if one in online and one in isr), None)

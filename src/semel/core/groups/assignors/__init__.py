"""Who owns which partition: the leader of a classic group decides, by one of these.

Role.   `ASSIGNORS` by the names that stand in JoinGroup. Each is a pure function of topics and members, and equal to
        what Kafka's Java client computes, so that it does not matter in which language the leader was written.
Rules.  * In an eager group everybody lets everything go before joining. In a cooperative one members keep what they have
          while they join.
        * Each partition of a topic somebody wants gets exactly one owner; in a cooperative group it may have to wait one
          assignment for it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from semel.core.groups.assignors import cooperative_sticky, range, round_robin, sticky  # noqa: A004 - Kafka's name.
from semel.core.groups.assignors.members import Assignment, Member, Topics
from semel.types import TopicPartition


class Assignor(NamedTuple):
    """One way to divide partitions, and what its members tell the leader about themselves."""

    name: str
    assign: Callable[[Topics, Sequence[Member]], Assignment]
    is_cooperative: bool
    user_data: Callable[[Sequence[TopicPartition], int], bytes | None]
    """From a member's partitions and its generation; that is -1 before the first assignment."""


def _none(_partitions: Sequence[TopicPartition], _generation: int) -> None:
    return None


def _remembered(partitions: Sequence[TopicPartition], generation: int) -> bytes | None:
    return None if generation < 0 else sticky.user_data(partitions, generation)


ASSIGNORS: Final[Mapping[str, Assignor]] = {
    one.name: one
    for one in (
        Assignor(range.NAME, range.assign, is_cooperative=False, user_data=_none),
        Assignor(round_robin.NAME, round_robin.assign, is_cooperative=False, user_data=_none),
        Assignor(sticky.NAME, sticky.assign, is_cooperative=False, user_data=_remembered),
        Assignor(
            cooperative_sticky.NAME,
            cooperative_sticky.assign,
            is_cooperative=True,
            user_data=lambda _partitions, generation: cooperative_sticky.user_data(generation),
        ),
    )
}

"""The client-side assignors, by which the leader of a classic group assigns partitions.

Role.   `ASSIGNORS` holds them by their names in JoinGroup. Each is a pure function of topics and members. The result
        equals that of Kafka's Java client, so the leader's language does not matter.
Rules.  * In an eager group members give up all partitions before joining. In a cooperative one they keep them while
          they join.
        * Each partition of a subscribed topic gets exactly one owner; in a cooperative group possibly one assignment
          later.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from semel.core.groups.assignors import cooperative_sticky, range, round_robin, sticky  # noqa: A004 - Kafka's name.
from semel.core.groups.assignors.members import Assignment, Member, Topics
from semel.types import TopicPartition


class Assignor(NamedTuple):
    """An assignor: its function, and the user data its members send to the leader."""

    name: str
    assign: Callable[[Topics, Sequence[Member]], Assignment]
    is_cooperative: bool
    user_data: Callable[[Sequence[TopicPartition], int], bytes | None]
    """Computed from a member's partitions and its generation (-1 before the first assignment)."""


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

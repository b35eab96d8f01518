"""The range assignor: each topic's partitions in consecutive ranges, the first members one longer.

Role.   Topics with the same number of partitions and the same members are divided alike, so that co-partitioned joins
        stay local.
Rules.  * Where racks differ, a first round gives members only partitions of their own rack, up to the length of their
          range; topics that are divided alike get the same indexes even then. A second round assigns the remaining
          partitions as usual.
        * A member without a rack matches every rack.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from semel.core.groups.assignors.java_order import sort_key
from semel.core.groups.assignors.members import (
    Assignment,
    Member,
    Racks,
    Topics,
    in_order,
    is_rack_aware,
    subscribed,
)
from semel.types import TopicPartition

NAME: Final = "range"


def assign(topics: Topics, members: Sequence[Member]) -> Assignment:
    """Each partition to one member that wants its topic."""
    assignment: Assignment = {member.member_id: [] for member in members}
    ordered = in_order(members)
    divisions = [
        _Division(topic, racks, [member for member in ordered if topic in member.topics], assignment)
        for topic, racks in subscribed(topics, members).items()
    ]
    by_rack = any(division.is_rack_aware for division in divisions)
    if by_rack:
        _give_by_rack(divisions)
    for division in divisions:
        division.give_ranges()
    if by_rack:
        for partitions in assignment.values():
            partitions.sort(key=lambda one: (sort_key(one.topic), one.partition))
    return assignment


class _Division:
    """The assignment of one topic in progress."""

    def __init__(
        self, topic: str, racks: Sequence[Racks], members: Sequence[Member], assignment: Assignment
    ) -> None:
        self._topic = topic
        self._assignment = assignment
        self.members = {member.member_id: member.rack_id or None for member in members}
        member_racks = {rack for rack in self.members.values() if rack is not None}
        self.racks = racks if member_racks else ()
        self.is_rack_aware = bool(member_racks) and is_rack_aware(member_racks, racks)
        self._left = dict.fromkeys(range(len(racks)))
        self._given = dict.fromkeys(self.members, 0)
        self._share, self._longer_left = divmod(len(racks), len(self.members))

    def room(self, member_id: str) -> int:
        """How many more partitions the member may get now."""
        return max(0, self._share + (self._longer_left > 0) - self._given[member_id])

    def matches(self, member_id: str, index: int) -> bool:
        """Whether the partition has a replica in the member's rack."""
        rack = self.members[member_id]
        return rack is None or rack in self.racks[index]

    def give(self, member_id: str, indexes: Iterable[int]) -> None:
        """Assign these partitions to the member."""
        for index in indexes:
            del self._left[index]
            self._given[member_id] += 1
            self._assignment[member_id].append(TopicPartition(self._topic, index))
        if self._given[member_id] > self._share:
            self._longer_left -= 1

    def give_ranges(self, may_have: Callable[[str, int], bool] = lambda _member, _index: True) -> None:
        """Give each member in turn the allowed unassigned partitions, up to its room."""
        for member_id in self.members:
            chosen = [index for index in self._left if may_have(member_id, index)][: self.room(member_id)]
            if chosen:
                self.give(member_id, chosen)


def _give_by_rack(divisions: Sequence[_Division]) -> None:
    alike: dict[tuple[tuple[str, ...], int], list[_Division]] = {}
    for division in divisions:
        alike.setdefault((tuple(division.members), len(division.racks)), []).append(division)
    for (member_ids, count), group in alike.items():
        if len(group) > 1:
            _give_alike(member_ids, count, group)
        elif group[0].is_rack_aware:
            group[0].give_ranges(group[0].matches)


def _give_alike(member_ids: Sequence[str], count: int, divisions: Sequence[_Division]) -> None:
    """Give the same index of every topic to the first member whose rack has all of them."""
    for index in range(count):
        for member_id in member_ids:
            if all(one.matches(member_id, index) and one.room(member_id) > 0 for one in divisions):
                for one in divisions:
                    one.give(member_id, [index])
                break

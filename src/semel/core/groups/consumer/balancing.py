"""The uniform assignor where members subscribe to different topics: spread each topic over its own subscribers.

Role.   `assign_mixed` keeps partitions that are still subscribed, gives free ones to the member with the fewest, then
        moves partitions from members with the most to members with the fewest.
Rules.  * Topics are ordered by partitions per subscriber, most first; then by fewer subscribers; then by id.
        * Members are numbered in table order; among equal counts the lower number comes first.
        * A round visits all topics. Balancing ends when a whole round moved nothing, or after `ROUNDS_MAX` rounds:
          overlapping subscriptions may converge very slowly, and nearly balanced is good enough.
"""

from typing import Final

from semel.core.groups.assignors.java_order import string_hash
from semel.core.groups.consumer.assignor_spec import Assigned, GroupSpec
from semel.core.groups.consumer.java_order import in_table_order, uuid_sort_key

ROUNDS_MAX: Final = 16
_NOBODY: Final = -1


def assign_mixed(spec: GroupSpec) -> dict[str, Assigned]:
    """The next target of a group whose members subscribe to different topics."""
    return _Balancing(spec).run()


class _Balancing:
    def __init__(self, spec: GroupSpec) -> None:
        self._spec = spec
        self._members = in_table_order(spec.members, string_hash)
        self._counts = [0] * len(self._members)
        self._subscribers: dict[bytes, list[int]] = {}
        for index, member_id in enumerate(self._members):
            for topic_id in spec.members[member_id].topic_ids:
                self._subscribers.setdefault(topic_id, []).append(index)
        self._owners = {
            topic_id: [_NOBODY] * spec.partition_counts[topic_id] for topic_id in self._subscribers
        }

    def run(self) -> dict[str, Assigned]:
        if not self._subscribers:
            return {}
        self._keep()
        topics = sorted(self._subscribers, key=self._rank)
        for topic_id in topics:
            owners = self._owners[topic_id]
            unassigned = [partition for partition, owner in enumerate(owners) if owner == _NOBODY]
            if unassigned:
                ladder = _Ladder(self._subscribers[topic_id], self._counts)
                for partition in unassigned:
                    self._give(topic_id, partition, ladder.next_least())
        self._balance([topic_id for topic_id in topics if len(self._subscribers[topic_id]) > 1])
        assigned: dict[str, dict[bytes, list[int]]] = {member_id: {} for member_id in self._members}
        for topic_id, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                assigned[self._members[owner]].setdefault(topic_id, []).append(partition)
        return {
            member_id: {topic_id: tuple(partitions) for topic_id, partitions in of_member.items()}
            for member_id, of_member in assigned.items()
        }

    def _rank(self, topic_id: bytes) -> tuple[float, int, tuple[int, int]]:
        subscribers = len(self._subscribers[topic_id])
        return -(self._spec.partition_counts[topic_id] / subscribers), subscribers, uuid_sort_key(topic_id)

    def _keep(self) -> None:
        for index, member_id in enumerate(self._members):
            member = self._spec.members[member_id]
            subscribed = frozenset(member.topic_ids)
            for topic_id, partitions in member.assigned.items():
                if topic_id in subscribed:
                    self._counts[index] += len(partitions)
                    for partition in partitions:
                        self._owners[topic_id][partition] = index

    def _give(self, topic_id: bytes, partition: int, index: int) -> None:
        owners = self._owners[topic_id]
        if owners[partition] != _NOBODY:
            self._counts[owners[partition]] -= 1
        owners[partition] = index
        self._counts[index] += 1

    def _balance(self, topics: list[bytes]) -> None:
        last_moved = -1
        for _ in range(ROUNDS_MAX):
            for number, topic_id in enumerate(topics):
                if number == last_moved:
                    return  # A whole round without a move.
                if self._balance_topic(topic_id) or last_moved == -1:
                    last_moved = number

    def _balance_topic(self, topic_id: bytes) -> int:
        ladder = _Ladder(self._subscribers[topic_id], self._counts)
        if ladder.imbalance <= 1:
            return 0
        given: dict[int, list[int]] = {}
        for partition, owner in enumerate(self._owners[topic_id]):
            given.setdefault(owner, []).append(partition)
        moved = 0
        while not ladder.is_balanced():
            while (most := ladder.next_most()) is not None and not given.get(most):
                ladder.exclude_most()
            if most is None:
                break
            partition = given[most].pop()
            least = ladder.next_least()
            if ladder.is_balanced():
                break
            self._give(topic_id, partition, least)
            moved += 1
        return moved


class _Ladder:
    """Members by their counts: the lowest receive in turn, the highest give in turn, level by level.

    Counts are read when a level is left. They must be the counts before this topic's moves, or result from moves this
    ladder returned.
    """

    __slots__ = (
        "_counts",
        "_high",
        "_high_end",
        "_high_level",
        "_low",
        "_low_end",
        "_low_level",
        "_order",
        "_top",
    )

    def __init__(self, members: list[int], counts: list[int]) -> None:
        self._counts = counts
        self._order = sorted(members, key=lambda index: (counts[index], index))
        self._low = self._low_end = 0
        self._low_level = counts[self._order[0]] - 1
        self._high_end = self._top = len(self._order)
        self._high = len(self._order) - 1
        self._high_level = counts[self._order[-1]] + 1

    @property
    def imbalance(self) -> int:
        """Difference between the most and the least loaded member."""
        return self._high_level - self._low_level - 2

    def is_balanced(self) -> bool:
        """Whether the current levels differ by at most one."""
        return self._high_level - self._low_level <= 1

    def next_least(self) -> int:
        """The next member to receive."""
        if self._low >= self._low_end:
            self._low_level += 1
            while self._low_end < len(self._order) and self._count(self._low_end) == self._low_level:
                self._low_end += 1
            self._low = 0
        self._low += 1
        return self._order[self._low - 1]

    def next_most(self) -> int | None:
        """The next member to give; None if all candidates are excluded."""
        if self._high < self._top:
            if self._high_end <= self._top and self._top > 0:
                self._high_level = self._count(self._top - 1)  # All of the level were excluded.
            else:
                self._high_level -= 1
            while self._top > 0 and self._count(self._top - 1) == self._high_level:
                self._top -= 1
            self._high = self._high_end - 1
        if self._high < 0:
            return None
        self._high -= 1
        return self._order[self._high + 1]

    def exclude_most(self) -> None:
        """The member returned last has no partition of this topic."""
        order, at, end = self._order, self._high + 1, self._high_end - 1
        order[at], order[end] = order[end], order[at]
        self._high_end = end

    def _count(self, position: int) -> int:
        return self._counts[self._order[position]]

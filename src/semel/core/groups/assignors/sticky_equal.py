"""The sticky assignment for members with equal subscriptions.

Role.   Every member gets the same number of partitions, or one more, and keeps as many of its own as possible.
Rules.  * Members keep owned partitions up to their share. The number of members that may keep one more is fixed from
          the start.
        * Where racks differ, members give up partitions of other racks, and free partitions go to members of their rack
          first.
        * The remaining partitions are dealt out in turn: first to members below the share, then to members that have
          exactly the share.
        * `moving` reports partitions that change owners: a cooperative group hands them over one rebalance later.
"""

from collections import deque
from collections.abc import Mapping, Sequence

from semel.core.groups.assignors.java_order import sort_key
from semel.core.groups.assignors.members import Assignment, Racks, partitions_of
from semel.core.groups.assignors.sticky_state import Owned, RackMap
from semel.errors import InvariantError
from semel.types import TopicPartition


class EqualAssignment:
    """An assignment in progress; `build` completes it."""

    def __init__(self, topics: Mapping[str, Sequence[Racks]], owned: Owned, racks: RackMap) -> None:
        self._topics = topics
        self._owned = owned
        self._racks = racks
        total = sum(len(partitions) for partitions in topics.values())
        self._share, self._larger_max = divmod(total, len(owned.by_member))
        self._share_max = self._share + (self._larger_max > 0)
        self._larger = 0
        self._assignment: Assignment = {member_id: [] for member_id in owned.by_member}
        self._below: list[str] = []
        self._exact: deque[str] = deque()
        self._given_up: dict[TopicPartition, str] = {}
        self.moving: dict[TopicPartition, str] = {}

    def build(self) -> Assignment:
        """Assign each partition to one member; `moving` then holds the partitions another member must revoke first."""
        for member_id, partitions in self._owned.by_member.items():
            self._keep(member_id, self._keepable(member_id, partitions))
        kept = {partition for partitions in self._assignment.values() for partition in partitions}
        free = [
            partition
            for topic in sorted(self._topics, key=sort_key)
            for partition in partitions_of(topic, len(self._topics[topic]))
            if partition not in kept
        ]
        self._below.sort(key=sort_key)
        self._exact = deque(sorted(self._exact, key=sort_key))
        free = self._racks.fewest_near_first(free)
        if self._racks.of_members:
            free = self._give_near(free)
        self._give(free)
        if any(len(partitions) < self._share for partitions in self._assignment.values()):
            raise InvariantError(f"a member has less than its share of {self._share}: {self._assignment}")
        return self._assignment

    def _keepable(self, member_id: str, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        keepable = []
        for partition in sorted(partitions, key=lambda one: (one.partition, sort_key(one.topic))):
            if self._racks.mismatch(member_id, partition):
                self._given_up[partition] = member_id
            elif partition not in self._owned.disputed:
                keepable.append(partition)
        return keepable

    def _keep(self, member_id: str, partitions: Sequence[TopicPartition]) -> None:
        """Let a member keep its share of its owned partitions, or one more."""
        count = len(partitions)
        if count < self._share:
            self._below.append(member_id)
            keep = count
        elif count >= self._share_max and self._larger < self._larger_max:
            self._larger += 1
            if self._larger == self._larger_max:
                self._exact.clear()
            keep = self._share_max
        else:
            if self._larger < self._larger_max:
                self._exact.append(member_id)
            keep = self._share
        self._assignment[member_id] += partitions[:keep]
        self._given_up |= dict.fromkeys(partitions[keep:], member_id)

    def _give_near(self, free: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Assign free partitions to members in their racks with room; return the unassigned ones."""
        left = []
        start = 0
        for partition in free:
            at = self._racks.next_near(partition, self._below, start)
            if at is not None:
                member_id = self._below[at]
                if self._put(partition, member_id) >= self._share:
                    del self._below[at]
                    if self._larger < self._larger_max:
                        self._exact.append(member_id)
                else:
                    at += 1
                start = at % len(self._below) if self._below else 0
                continue
            at = self._racks.next_near(partition, self._exact, 0) if self._exact else None
            if at is None:
                left.append(partition)
                continue
            self._put(partition, self._exact[at])
            del self._exact[at]
            self._larger += 1
            if self._larger == self._larger_max:
                self._exact.clear()
        return left

    def _give(self, free: Sequence[TopicPartition]) -> None:
        """Assign free partitions in turn, first to members below their share."""
        at = 0
        for partition in free:
            if self._below:
                at %= len(self._below)
                member_id = self._below[at]
                if self._put(partition, member_id) == self._share:
                    del self._below[at]
                    self._exact.append(member_id)
                    if at == len(self._below):
                        at = 0
                else:
                    at += 1
            elif self._exact:
                self._put(partition, self._exact.popleft())
            else:
                raise InvariantError(f"no member has room for {partition}: {self._assignment}")

    def _put(self, partition: TopicPartition, member_id: str) -> int:
        mine = self._assignment[member_id]
        mine.append(partition)
        if self._given_up.get(partition, member_id) != member_id or partition in self._owned.disputed:
            self.moving[partition] = member_id
        return len(mine)

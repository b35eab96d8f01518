"""The sticky assignment for members with different subscriptions.

Role.   As balanced as the subscriptions allow, with as few moves as possible.
Flow.   Keep owned partitions that are still subscribed; give free ones to the member with the fewest; then move
        partitions from members with many to members with few until the balance stops improving.
Rules.  * Partitions of topics with few subscribers are placed first.
        * Partitions that were free are moved before owned ones, unless an owner must give up a partition anyway.
        * A partition goes back to the owner of an earlier generation if that member has fewer and still subscribes to
          the topic.
        * Two members never exchange partitions of one topic: the first moves back instead of a second one moving over.
        * If the moves did not improve the balance, all of them are undone.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence

from semel.core.groups.assignors.java_order import PartitionSet, sort_key
from semel.core.groups.assignors.members import Assignment, Member, Racks, partitions_of
from semel.core.groups.assignors.sticky_state import NO_GENERATION, Claim, Owned, RackMap
from semel.types import TopicPartition


class GeneralAssignment:
    """An assignment in progress; `build` completes it."""

    def __init__(
        self,
        topics: Mapping[str, Sequence[Racks]],
        members: Mapping[str, Member],
        claims: Mapping[str, Claim],
        owned: Owned,
        racks: RackMap,
    ) -> None:
        self._topics = topics
        self._racks = racks
        self._wanted = {
            member_id: [topic for topic in member.topics if topic in topics]
            for member_id, member in members.items()
        }
        self._wanted_sets = {member_id: frozenset(wanted) for member_id, wanted in self._wanted.items()}
        self._takers: dict[str, list[str]] = {topic: [] for topic in topics}
        for member_id, wanted in self._wanted.items():
            for topic in wanted:
                self._takers[topic].append(member_id)
        self._former = _former_owners(claims)
        self._assignment: Assignment = {member_id: [] for member_id in members}
        self._owner: dict[TopicPartition, str] = {}
        self._must_revoke = False
        self._movements = _Movements()
        for member_id, partitions in owned.by_member.items():
            self._keep(member_id, partitions)
        self._by_load = _ByLoad(self._assignment)

    def build(self) -> Assignment:
        """Assign each partition to one subscriber."""
        every = [
            partition
            for topic in sorted(self._topics, key=lambda topic: (len(self._takers[topic]), sort_key(topic)))
            for partition in partitions_of(topic, len(self._topics[topic]))
        ]
        free = [partition for partition in every if partition not in self._owner]
        began_empty = not self._owner
        self._place(free)

        movable = [partition for partition in every if self._is_contested(partition.topic)]
        movable_free = [partition for partition in free if self._is_contested(partition.topic)]
        fixed = {
            member_id: self._assignment.pop(member_id)
            for member_id in [one for one in self._wanted if not self._may_change(one)]
        }
        self._by_load.leave(fixed)
        before = {member_id: list(partitions) for member_id, partitions in self._assignment.items()}
        if not self._must_revoke:
            self._balance(movable_free)
        moved = self._balance(movable)
        if moved and not began_empty and _imbalance(self._assignment) >= _imbalance(before):
            self._assignment = before
        return self._assignment | fixed

    def _keep(self, member_id: str, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            is_wanted = partition.topic in self._wanted_sets[member_id]
            if not is_wanted or self._racks.mismatch(member_id, partition):
                self._must_revoke = True
            else:
                self._assignment[member_id].append(partition)
                self._owner[partition] = member_id

    def _place(self, free: Sequence[TopicPartition]) -> None:
        """Assign free partitions to the member with the fewest, in the partition's rack if there is one."""
        left = free
        if self._racks.of_members:
            left = [partition for partition in free if not self._place_one(partition, near=True)]
        for partition in left:
            self._place_one(partition, near=False)

    def _place_one(self, partition: TopicPartition, *, near: bool) -> bool:
        for member_id in self._by_load:
            if partition.topic not in self._wanted_sets[member_id]:
                continue
            if near and self._racks.mismatch(member_id, partition):
                continue
            self._by_load.remove(member_id)
            self._assignment[member_id].append(partition)
            self._owner[partition] = member_id
            self._by_load.add(member_id)
            return True
        return False

    def _is_contested(self, topic: str) -> bool:
        return len(self._takers[topic]) > 1

    def _may_change(self, member_id: str) -> bool:
        mine = self._assignment[member_id]
        return len(mine) < self._attainable(member_id) or any(self._is_contested(one.topic) for one in mine)

    def _attainable(self, member_id: str) -> int:
        return sum(len(self._topics[topic]) for topic in self._wanted[member_id])

    def _balance(self, partitions: Sequence[TopicPartition]) -> bool:
        """Move partitions from members with many to members with few until the balance stops improving; whether any
        moved."""
        any_moved = False
        moved = True
        while moved:
            moved = False
            for partition in partitions:
                if self._is_balanced():
                    break
                moved |= self._improve(partition)
            any_moved |= moved
        return any_moved

    def _is_balanced(self) -> bool:
        """Whether no partition can go to a member that has at least two fewer than its owner."""
        least, most = self._by_load.bounds()
        if least >= most - 1:
            return True
        for member_id in self._by_load:
            count = len(self._assignment[member_id])
            if count + 1 >= most:
                return True  # The following members have as many or more: no member has two more than they.
            for topic in self._wanted[member_id]:
                for partition in partitions_of(topic, len(self._topics[topic])):
                    owner = self._owner[partition]
                    if owner != member_id and count + 1 < self._load(owner):
                        return False
        return True

    def _load(self, member_id: str) -> int:
        return len(self._assignment[member_id])

    def _improve(self, partition: TopicPartition) -> bool:
        owner = self._owner[partition]
        load = self._load(owner)
        former = self._former.get(partition)
        is_taker = former is not None and partition.topic in self._wanted_sets[former]
        if former is not None and is_taker and load > self._load(former) + 1:
            self._move(partition, former)
            return True
        if all(load <= self._load(other) + 1 for other in self._takers[partition.topic]):
            return False
        self._move(partition, next(one for one in self._by_load if partition.topic in self._wanted_sets[one]))
        return True

    def _move(self, partition: TopicPartition, to: str) -> None:
        moving = self._movements.instead_of(partition, self._owner[partition], to)
        owner = self._owner[moving]
        self._by_load.remove(owner)
        self._by_load.remove(to)
        self._movements.note(moving, owner, to)
        self._assignment[owner].remove(moving)
        self._assignment[to].append(moving)
        self._owner[moving] = to
        self._by_load.add(to)
        self._by_load.add(owner)


def _former_owners(claims: Mapping[str, Claim]) -> dict[TopicPartition, str]:
    """Owners of partitions in earlier generations than the newest claim; the latest of each."""
    last = max((claim.generation for claim in claims.values() if claim.generation is not None), default=-1)
    last = max(last, NO_GENERATION)
    former: dict[TopicPartition, tuple[int, str]] = {}
    for member_id, claim in claims.items():
        generation = NO_GENERATION if claim.generation is None else claim.generation
        if generation < last:
            for partition in claim.partitions:
                if partition not in former or generation > former[partition][0]:
                    former[partition] = generation, member_id
    return {partition: member_id for partition, (_generation, member_id) in former.items()}


def _imbalance(assignment: Assignment) -> int:
    """The sum of the differences between any two members."""
    sizes = sorted(len(partitions) for partitions in assignment.values())
    return sum(size * (2 * rank - len(sizes) + 1) for rank, size in enumerate(sizes))


class _ByLoad:
    """Members, those with the fewest partitions first, then by id."""

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._keys = {member_id: sort_key(member_id) for member_id in assignment}
        self._sorted = sorted(self._entry(member_id) for member_id in assignment)

    def __iter__(self) -> Iterator[str]:
        return (member_id for _load, _key, member_id in self._sorted)

    def bounds(self) -> tuple[int, int]:
        """The fewest and the most partitions of a member."""
        return (self._sorted[0][0], self._sorted[-1][0]) if self._sorted else (0, 0)

    def remove(self, member_id: str) -> None:
        """Called before the member's partitions change; a missing member is ignored."""
        entry = self._entry(member_id)
        at = bisect_left(self._sorted, entry)
        if at < len(self._sorted) and self._sorted[at] == entry:
            del self._sorted[at]

    def add(self, member_id: str) -> None:
        """Called after the member's partitions have changed."""
        insort(self._sorted, self._entry(member_id))

    def leave(self, member_ids: Iterable[str]) -> None:
        """Take these out for good."""
        gone = frozenset(member_ids)
        self._sorted = [entry for entry in self._sorted if entry[2] not in gone]

    def _entry(self, member_id: str) -> tuple[int, bytes, str]:
        return len(self._assignment[member_id]), self._keys[member_id], member_id


class _Movements:
    """The moves of partitions between members since balancing began."""

    def __init__(self) -> None:
        self._of_partition: dict[TopicPartition, tuple[str, str]] = {}
        self._of_topic: dict[str, dict[tuple[str, str], PartitionSet]] = {}

    def instead_of(self, partition: TopicPartition, owner: str, to: str) -> TopicPartition:
        """The partition to move: one of the same topic that had moved the other way, if there is one."""
        source = self._of_partition[partition][0] if partition in self._of_partition else owner
        back = self._of_topic.get(partition.topic, {}).get((to, source))
        return partition if back is None else back.first()

    def note(self, partition: TopicPartition, owner: str, to: str) -> None:
        """Record a move; a move back to the first owner erases the record."""
        source = owner
        if partition in self._of_partition:
            pair = self._of_partition.pop(partition)
            source = pair[0]
            pairs = self._of_topic[partition.topic]
            pairs[pair].remove(partition)
            if not pairs[pair]:
                del pairs[pair]
            if source == to:
                return
        self._of_partition[partition] = source, to
        self._of_topic.setdefault(partition.topic, {}).setdefault((source, to), PartitionSet()).add(partition)

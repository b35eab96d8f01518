"""The input of both sticky algorithms: claimed partitions and matching racks.

Role.   `settle` decides which claimed partitions each member may keep; `RackMap` answers questions about racks.
Flow.   `sticky` reads the members' claims, calls `settle`, and hands both to `sticky_equal` or `sticky_general`.
Rules.  * Of two claims to a partition the later generation wins. In the same generation both lose: one is wrong, and
          the leader cannot tell which.
        * A claim to a partition that does not exist is dropped. (Java's client fails on it: a topic recreated with
          fewer partitions.)
        * Members are visited in Java's order, because the order decides ties.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from semel.core.groups.assignors.members import Member, Racks, is_rack_aware
from semel.types import TopicPartition

NO_GENERATION: Final = -1


class Claim(NamedTuple):
    """The partitions a member claims to own, and the generation of the claim."""

    partitions: Sequence[TopicPartition]
    generation: int | None


@dataclass(slots=True)
class Owned:
    """Partitions each member keeps, and partitions more than one claimed."""

    by_member: dict[str, list[TopicPartition]] = field(default_factory=dict)
    disputed: set[TopicPartition] = field(default_factory=set)


def settle(
    topics: Mapping[str, Sequence[Racks]], members: Mapping[str, Member], claims: Mapping[str, Claim]
) -> Owned:
    """Give each claimed partition to one member at most."""
    owned = Owned()
    owners: dict[TopicPartition, str] = {}
    for member_id, claim in claims.items():
        generation = NO_GENERATION if claim.generation is None else claim.generation
        mine = owned.by_member[member_id] = []
        for partition in claim.partitions:
            if not 0 <= partition.partition < len(topics.get(partition.topic, ())):
                continue
            other = owners.get(partition)
            if other is None:
                mine.append(partition)
                owners[partition] = member_id
                continue
            # As in Java: the other member's generation comes from its subscription, not from its user data.
            stated = members[other].generation_id
            others_generation = NO_GENERATION if stated is None else stated
            if generation < others_generation:
                continue
            if partition in owned.by_member[other]:
                owned.by_member[other].remove(partition)
            owners[partition] = member_id
            if generation == others_generation:
                owned.disputed.add(partition)
            else:
                mine.append(partition)
    return owned


class RackMap:
    """Which member's rack holds a replica of which partition. Empty where racks make no difference."""

    def __init__(self, topics: Mapping[str, Sequence[Racks]], members: Sequence[Member]) -> None:
        racks_of_members = {member.member_id: member.rack_id for member in members if member.rack_id}
        counts: dict[str, int] = {}
        for rack in racks_of_members.values():
            counts[rack] = counts.get(rack, 0) + 1
        racks_of_partitions = (
            {
                TopicPartition(topic, index): racks
                for topic, partitions in topics.items()
                for index, racks in enumerate(partitions)
            }
            if racks_of_members
            else {}
        )
        is_useful = is_rack_aware(set(counts), list(racks_of_partitions.values()))
        self.of_members = racks_of_members if is_useful else {}
        self.of_partitions = racks_of_partitions if is_useful else {}
        self._near = {
            partition: sum(counts.get(rack, 0) for rack in racks)
            for partition, racks in racks_of_partitions.items()
        }

    def mismatch(self, member_id: str, partition: TopicPartition) -> bool:
        """Whether the member has a rack without a replica of the partition."""
        rack = self.of_members.get(member_id)
        return rack is not None and rack not in self.of_partitions[partition]

    def next_near(self, partition: TopicPartition, member_ids: Sequence[str], start: int) -> int | None:
        """Index of the next member in a rack of the partition, searching cyclically from `start`."""
        racks = self.of_partitions.get(partition)
        if not racks:
            return None
        count = len(member_ids)
        for step in range(count):
            index = (start + step) % count
            if self.of_members.get(member_ids[index]) in racks:
                return index
        return None

    def fewest_near_first(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Partitions with few members in their racks come first, so that other partitions do not take these members."""
        return sorted(partitions, key=lambda partition: self._near.get(partition, 0))

"""The input of an assignor: members with their subscriptions and owned partitions, and topics.

Role.   Plain values, the same for every assignor. `core.groups.assignors.protocol` makes them from a member's bytes.
Rules.  * Members come in the order of the JoinGroup response; each once.
        * A topic's partitions are numbered from 0; each has the racks of its replicas, if known.
        * Members with a group instance id come first, in the order of those ids; the others in the order of member ids.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from semel.core.groups.assignors.java_order import sort_key
from semel.types import TopicPartition

Racks: TypeAlias = frozenset[str]
Topics: TypeAlias = Mapping[str, Sequence[Racks]]
"""The partitions of every topic: for each, the racks that hold a replica."""
Assignment: TypeAlias = dict[str, list[TopicPartition]]
"""The partitions of every member."""


class Member(NamedTuple):
    """One member as the leader sees it."""

    member_id: str
    topics: Sequence[str]
    group_instance_id: str | None = None
    owned_partitions: Sequence[TopicPartition] = ()
    generation_id: int | None = None
    rack_id: str | None = None
    user_data: bytes | None = None


def without_racks(counts: Mapping[str, int]) -> dict[str, list[Racks]]:
    """Topics by partition count alone, without racks."""
    return {topic: [frozenset()] * count for topic, count in counts.items()}


def subscribed(topics: Topics, members: Sequence[Member]) -> dict[str, Sequence[Racks]]:
    """Existing topics that a member subscribes to, by name."""
    wanted = {topic for member in members for topic in member.topics}
    return {topic: topics[topic] for topic in sorted(wanted, key=sort_key) if topics.get(topic)}


def in_order(members: Sequence[Member]) -> list[Member]:
    """Static members by instance id, then the others by member id."""
    return sorted(
        members,
        key=lambda one: (
            (1, sort_key(one.member_id))
            if one.group_instance_id is None
            else (0, sort_key(one.group_instance_id))
        ),
    )


def partitions_of(topic: str, count: int) -> list[TopicPartition]:
    """Every partition of a topic."""
    return [TopicPartition(topic, index) for index in range(count)]


def is_rack_aware(member_racks: set[str], partition_racks: Sequence[Racks]) -> bool:
    """Whether racks matter: members and partitions share some, and not every partition is in all of them."""
    everywhere: set[str] = set().union(*partition_racks)
    return not member_racks.isdisjoint(everywhere) and any(racks != everywhere for racks in partition_racks)

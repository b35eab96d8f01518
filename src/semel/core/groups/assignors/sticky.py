"""The sticky assignor: balanced first, then as close as possible to the previous assignment.

Role.   For eager groups. Members remember their partitions in the user data of their subscription, because they own
        nothing when they join an eager rebalance.
Flow.   `assign` reads the claims -> `sticky_state.settle` -> `sticky_equal` or `sticky_general`.
Rules.  * User data are Kafka's: version 1 holds the partitions by topic and the generation, version 0 lacks the
          generation. Unreadable user data claim nothing.
        * The result is equal to what Kafka's Java client computes, ties included, except in two cases where the Java
          client assigns an unsubscribed topic, or fails. Here a former owner that has unsubscribed from the topic gets
          nothing back, and a member without subscriptions gets nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from semel.core.groups.assignors.java_order import computed_map_order, map_order
from semel.core.groups.assignors.members import Assignment, Member, Topics, subscribed
from semel.core.groups.assignors.sticky_equal import EqualAssignment
from semel.core.groups.assignors.sticky_general import GeneralAssignment
from semel.core.groups.assignors.sticky_state import NO_GENERATION, Claim, RackMap, settle
from semel.core.groups.assignors.sticky_user_data import StickyTopicAssignment, StickyUserData
from semel.core.wire import plain
from semel.errors import WireError
from semel.types import TopicPartition

NAME: Final = "sticky"
_WITHOUT_GENERATION: Final = 0
_WITH_GENERATION: Final = 1


class Sticky(NamedTuple):
    """An assignment, and its partitions that another member must revoke first (None: compare to find them)."""

    assignment: Assignment
    moving: Mapping[TopicPartition, str] | None


def assign(topics: Topics, members: Sequence[Member]) -> Assignment:
    """Assign each partition to one subscriber."""
    return assign_sticky(topics, members, claim_of).assignment


def assign_sticky(topics: Topics, members: Sequence[Member], claim_of: Callable[[Member], Claim]) -> Sticky:
    """Both sticky assignors; `claim_of` reads a member's claim."""
    if not members:
        return Sticky({}, {})
    by_id = {member.member_id: member for member in members}
    ordered = {member_id: by_id[member_id] for member_id in map_order(by_id)}
    wanted = subscribed(topics, members)
    claims = {member_id: claim_of(member) for member_id, member in ordered.items()}
    owned = settle(wanted, ordered, claims)
    racks = RackMap(wanted, list(ordered.values()))
    if _want_the_same(list(ordered.values())):
        equal = EqualAssignment(wanted, owned, racks)
        return Sticky(equal.build(), equal.moving)
    return Sticky(GeneralAssignment(wanted, ordered, claims, owned, racks).build(), None)


def claim_of(member: Member) -> Claim:
    """The member's claim in its user data."""
    if not member.user_data:
        return Claim((), None)
    for version in (_WITH_GENERATION, _WITHOUT_GENERATION):
        try:
            data = plain.read(
                StickyUserData, member.user_data, 0, version=version, flexible=False, open_end=True
            )
        except WireError:
            continue
        partitions = [
            TopicPartition(one.topic, index) for one in data.previous_assignment for index in one.partitions
        ]
        return Claim(partitions, data.generation if version == _WITH_GENERATION else None)
    return Claim((), NO_GENERATION)


def user_data(partitions: Sequence[TopicPartition], generation: int) -> bytes:
    """The user data of a subscription after these partitions were assigned."""
    by_topic: dict[str, list[int]] = {}
    for one in partitions:
        by_topic.setdefault(one.topic, []).append(one.partition)
    return StickyUserData(
        previous_assignment=[
            StickyTopicAssignment(topic=topic, partitions=by_topic[topic])
            for topic in computed_map_order(by_topic)
        ],
        generation=generation,
    ).encode(_WITH_GENERATION)


def _want_the_same(members: Sequence[Member]) -> bool:
    wanted = frozenset(members[0].topics)
    return all(len(one.topics) == len(wanted) and wanted.issuperset(one.topics) for one in members)

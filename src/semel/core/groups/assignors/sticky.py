"""The sticky assignor: balanced first, then as close as possible to what was.

Role.   For eager groups. Members remember their partitions in the user data of their subscription, because in an eager
        rebalance they own nothing any more when they join.
Flow.   `assign` reads the claims -> `sticky_state.settle` -> `sticky_equal` or `sticky_general`.
Rules.  * User data are Kafka's: version 1 is the partitions by topic and the generation, version 0 lacks the generation.
          What cannot be read claims nothing.
        * The result is equal to what Kafka's Java client computes, ties included, but for two cases in which that one
          gives a member what it did not ask for, or fails: a former owner that has unsubscribed from the topic gets
          nothing back here, and a member that wants nothing gets nothing.
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
    """An assignment, and what of it must leave another member first (None: to be found by comparison)."""

    assignment: Assignment
    moving: Mapping[TopicPartition, str] | None


def assign(topics: Topics, members: Sequence[Member]) -> Assignment:
    """Each partition to one member that wants its topic."""
    return assign_sticky(topics, members, claim_of).assignment


def assign_sticky(topics: Topics, members: Sequence[Member], claim_of: Callable[[Member], Claim]) -> Sticky:
    """Both sticky assignors; they differ in where members keep their claims."""
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
    """What the member's user data say it owned."""
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
    """What a member puts into its subscription after it was assigned these."""
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

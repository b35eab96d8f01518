"""The cooperative sticky assignor: nobody stops but for what moves, and what moves takes two steps.

Role.   The sticky assignment, less what another member still owns: that one lets it go, joins again, and the next
        assignment gives it to the new owner.
Rules.  * Members say what they own in their subscription itself; their generation is there from version 2 on, in the
          user data before.
        * No partition goes from one member to another in one assignment.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Final

from semel.core.groups.assignors.members import Assignment, Member, Topics
from semel.core.groups.assignors.sticky import assign_sticky
from semel.core.groups.assignors.sticky_state import NO_GENERATION, Claim
from semel.types import TopicPartition

NAME: Final = "cooperative-sticky"
_GENERATION: Final = struct.Struct(">i")


def assign(topics: Topics, members: Sequence[Member]) -> Assignment:
    """Each partition to one member that wants its topic, but for those that must be let go first."""
    assignment, moving = assign_sticky(topics, members, claim_of)
    if moving is None:
        moving = _moving(assignment, members)
    for partition, member_id in moving.items():
        assignment[member_id].remove(partition)
    return assignment


def claim_of(member: Member) -> Claim:
    """What the member owns, and since when."""
    generation = member.generation_id
    if generation is None and member.user_data is not None:
        is_there = len(member.user_data) >= _GENERATION.size
        generation = _GENERATION.unpack_from(member.user_data)[0] if is_there else NO_GENERATION
    return Claim(member.owned_partitions, generation)


def user_data(generation: int) -> bytes:
    """What a member puts into its subscription, for leaders that know no version 2."""
    return _GENERATION.pack(generation)


def _moving(assignment: Assignment, members: Sequence[Member]) -> Mapping[TopicPartition, str]:
    """What is new for one member and gone from another."""
    added: dict[TopicPartition, str] = {}
    gone: set[TopicPartition] = set()
    for member in members:
        mine = frozenset(assignment[member.member_id])
        owned = frozenset(member.owned_partitions)
        added |= {one: member.member_id for one in assignment[member.member_id] if one not in owned}
        gone |= owned - mine
    return {partition: member_id for partition, member_id in added.items() if partition in gone}

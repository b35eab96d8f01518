"""The cooperative sticky assignor: only moved partitions stop, and a move takes two rebalances.

Role.   The sticky assignment, without partitions another member still owns. That member revokes them and rejoins, and
        the next assignment gives them to the new owner.
Rules.  * A member's subscription names its owned partitions. It carries the generation from version 2 on; before, the
          user data do.
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
    """Assign each partition to one subscriber, except partitions that must be revoked first."""
    assignment, moving = assign_sticky(topics, members, claim_of)
    if moving is None:
        moving = _moving(assignment, members)
    for partition, member_id in moving.items():
        assignment[member_id].remove(partition)
    return assignment


def claim_of(member: Member) -> Claim:
    """The partitions the member owns, and its generation."""
    generation = member.generation_id
    if generation is None and member.user_data is not None:
        is_there = len(member.user_data) >= _GENERATION.size
        generation = _GENERATION.unpack_from(member.user_data)[0] if is_there else NO_GENERATION
    return Claim(member.owned_partitions, generation)


def user_data(generation: int) -> bytes:
    """The user data of a subscription, for leaders that do not know version 2."""
    return _GENERATION.pack(generation)


def _moving(assignment: Assignment, members: Sequence[Member]) -> Mapping[TopicPartition, str]:
    """Partitions that move from one member to another."""
    added: dict[TopicPartition, str] = {}
    gone: set[TopicPartition] = set()
    for member in members:
        mine = frozenset(assignment[member.member_id])
        owned = frozenset(member.owned_partitions)
        added |= {one: member.member_id for one in assignment[member.member_id] if one not in owned}
        gone |= owned - mine
    return {partition: member_id for partition, member_id in added.items() if partition in gone}

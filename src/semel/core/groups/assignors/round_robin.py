"""The round robin assignor: partitions dealt out like cards, one topic after the other.

Rules.  A member that does not subscribe to a topic is skipped and stays next in turn for the following topic.
"""

from collections.abc import Sequence
from typing import Final

from semel.core.groups.assignors.members import (
    Assignment,
    Member,
    Topics,
    in_order,
    partitions_of,
    subscribed,
)

NAME: Final = "roundrobin"


def assign(topics: Topics, members: Sequence[Member]) -> Assignment:
    """Assign each partition to one subscriber."""
    assignment: Assignment = {member.member_id: [] for member in members}
    turn = in_order(members)
    wanted = [frozenset(member.topics) for member in turn]
    at = 0
    for topic, racks in subscribed(topics, members).items():
        for partition in partitions_of(topic, len(racks)):
            while topic not in wanted[at]:
                at = (at + 1) % len(turn)
            assignment[turn[at].member_id].append(partition)
            at = (at + 1) % len(turn)
    return assignment

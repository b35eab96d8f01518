"""The coordinator's assignors for KIP-848 groups: `uniform` and `range`.

Role.   Pure functions from a group's subscriptions and current target to the next target.
Flow.   `target_assignment` calls the assignor most members prefer. The results equal those of Kafka's classes of the
        same names, so a group has the same target on either broker.
Rules.  * Every partition of a subscribed topic goes to exactly one of its subscribers.
        * `uniform` keeps the current target as far as balance allows. With equal subscriptions, counts differ by at
          most one; for different subscriptions see `balancing`.
        * `range` gives every subscriber a range of the topic, in the order of instance and member ids, so topics with
          the same number of partitions are divided alike. It ignores the current target.
"""

from collections.abc import Callable, Mapping
from typing import Final

from semel.core.groups.assignors.java_order import sort_key, string_hash
from semel.core.groups.consumer.assignor_names import RANGE, UNIFORM
from semel.core.groups.consumer.assignor_spec import Assigned, GroupSpec, MemberSpec
from semel.core.groups.consumer.balancing import assign_mixed
from semel.core.groups.consumer.java_order import copied_capacity, in_table_order, int_hash, uuid_hash

Assignor = Callable[[GroupSpec], dict[str, Assigned]]


def assign_uniform(spec: GroupSpec) -> dict[str, Assigned]:
    """Equal counts for all members, with as few moves as possible."""
    if not spec.members:
        return {}
    return _assign_alike(spec) if spec.homogeneous else assign_mixed(spec)


def _assign_alike(spec: GroupSpec) -> dict[str, Assigned]:
    members = in_table_order(spec.members, string_hash)
    subscribed = spec.members[members[0]].topic_ids
    topic_ids = in_table_order(subscribed, uuid_hash, copied_capacity(len(subscribed)))
    if not topic_ids:
        return {}
    unassigned = [
        (topic_id, partition)
        for topic_id in topic_ids
        for partition in range(spec.partition_counts[topic_id])
        if not spec.is_assigned(topic_id, partition)
    ]
    total = sum(spec.partition_counts[topic_id] for topic_id in topic_ids)
    quota, extras = divmod(total, len(members))
    kept: dict[str, dict[bytes, set[int]]] = {}
    unfilled: list[tuple[str, int]] = []
    for index, member_id in enumerate(members):
        own, revoked, room = _keep(spec.members[member_id], frozenset(topic_ids), quota + (extras > 0))
        kept[member_id] = own
        unassigned += revoked
        takes_extra = extras > 0
        # A member with room gets no extra partition while enough later members could keep theirs.
        if room > 0 and takes_extra and len(members) - index > extras:
            room -= 1
            takes_extra = False
        if room > 0:
            unfilled.append((member_id, room))
        extras -= takes_extra
    remaining = iter(unassigned)
    for member_id, room in unfilled:
        for _, (topic_id, partition) in zip(range(room), remaining, strict=False):
            kept[member_id].setdefault(topic_id, set()).add(partition)
    return {member_id: _sorted(own) for member_id, own in kept.items()}


def _keep(
    member: MemberSpec, subscribed: frozenset[bytes], quota: int
) -> tuple[dict[bytes, set[int]], list[tuple[bytes, int]], int]:
    """Partitions the member keeps within its quota, partitions it gives up, and its remaining room."""
    own: dict[bytes, set[int]] = {}
    revoked = []
    for topic_id in in_table_order(member.assigned, uuid_hash):
        if topic_id not in subscribed:
            continue
        partitions = member.assigned[topic_id]
        if len(partitions) > quota:
            ordered = in_table_order(partitions, int_hash, copied_capacity(len(partitions)))
            revoked += [(topic_id, partition) for partition in ordered[quota:]]
            partitions = tuple(ordered[:quota])
        if partitions:
            own[topic_id] = set(partitions)
        quota -= len(partitions)
    return own, revoked, quota


def _sorted(assigned: Mapping[bytes, set[int]]) -> Assigned:
    return {topic_id: tuple(sorted(partitions)) for topic_id, partitions in assigned.items()}


def assign_range(spec: GroupSpec) -> dict[str, Assigned]:
    """A range of every topic for each of its subscribers."""

    def seat(member_id: str) -> tuple[bool, bytes]:
        instance_id = spec.members[member_id].instance_id
        return instance_id is None, sort_key(member_id if instance_id is None else instance_id)

    members = sorted(spec.members, key=seat)
    subscribers: dict[bytes, list[str]] = {}
    for member_id in members:
        for topic_id in spec.members[member_id].topic_ids:
            subscribers.setdefault(topic_id, []).append(member_id)
    assigned: dict[str, Assigned] = {member_id: {} for member_id in members}
    for topic_id, of_topic in subscribers.items():
        quota, extras = divmod(spec.partition_counts[topic_id], len(of_topic))
        first = 0
        for index, member_id in enumerate(of_topic):
            last = first + quota + (index < extras)
            if last > first:
                assigned[member_id][topic_id] = tuple(range(first, last))
            first = last
    return assigned


ASSIGNORS: Final[Mapping[str, Assignor]] = {UNIFORM: assign_uniform, RANGE: assign_range}

"""The next target of a group: the assignment all members move towards.

Role.   `next_target` calls the assignor most members prefer and gives the target and the changed rows.
Rules.  * A member whose target does not change gets no row; one that is new gets one even if it gets nothing.
        * A member that takes an instance over starts from that instance's target.
        * The last row carries the epoch: a target without it is incomplete and ignored.
"""

from collections import Counter
from typing import NamedTuple

from semel.core.coordination.outcome import LogRow
from semel.core.groups.assignors.java_order import string_hash
from semel.core.groups.consumer.assignor_spec import Assigned, GroupSpec, MemberSpec
from semel.core.groups.consumer.assignors import ASSIGNORS
from semel.core.groups.consumer.group import ConsumerGroup, recount, target_epoch_row, target_row
from semel.core.groups.consumer.java_order import in_table_order
from semel.core.groups.consumer.member import Member
from semel.core.groups.consumer.subscriptions import Subscriptions, topic_ids
from semel.core.groups.group import Groups


class Target(NamedTuple):
    """A member's target and the group epoch it belongs to."""

    epoch: int
    assigned: Assigned


def next_target(
    groups: Groups,
    group: ConsumerGroup,
    *,
    group_epoch: int,
    before: Member | None,
    member: Member,
    now_ms: int,
) -> tuple[Target, list[LogRow]]:
    """The target with this member's new state; `before` is its old state, or that of the member it replaces."""
    members = dict(group.members)
    if before is not None and before.member_id != member.member_id:
        del members[before.member_id]
    members[member.member_id] = member
    specs = {
        member_id: MemberSpec(
            topic_ids=topic_ids(one, group.regexes, groups.topics),
            assigned=group.target_of(member_id, one.instance_id if one is member else None),
            instance_id=one.instance_id,
        )
        for member_id, one in members.items()
    }
    counts = {}
    for one in specs.values():
        for topic_id in one.topic_ids:
            topic = groups.topics.topic_by_id(topic_id)
            if topic is not None:
                counts[topic_id] = topic.partitions
    subscriptions = Subscriptions(group, without=[] if before is None else [before], plus=member)
    spec = GroupSpec(specs, counts, subscriptions.are_alike(), group.owners)
    assigned = ASSIGNORS[_assignor_name(groups, group, before, member)](spec)
    rows = [
        target_row(group.group_id, member_id, assigned.get(member_id, {}))
        for member_id in in_table_order(specs, string_hash)
        if group.target.get(member_id) != assigned.get(member_id, {})
    ]
    rows.append(target_epoch_row(group.group_id, group_epoch, now_ms))
    return Target(group_epoch, assigned.get(member.member_id, {})), rows


def _assignor_name(groups: Groups, group: ConsumerGroup, before: Member | None, member: Member) -> str:
    counts: Counter[str] = Counter(group.assignor_counts)
    for one, by in ((before, -1), (member, 1)):
        if one is not None and one.server_assignor is not None:
            recount(counts, [one.server_assignor], by)
    wanted = group.preferred_assignor(counts)
    configured = groups.settings.group_consumer_assignors
    return wanted if wanted in configured else configured[0]

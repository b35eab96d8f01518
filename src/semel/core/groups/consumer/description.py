"""A KIP-848 group as ConsumerGroupDescribe shows it: its epochs, its members, their assignments and targets.

Rules.  * Deleted topics are left out: their names are unknown.
        * Classic members have type 0, KIP-848 members type 1.
"""

from collections.abc import Mapping
from typing import Final

from semel.core.groups.consumer.group import ConsumerGroup
from semel.core.groups.consumer.member import Member, without_epochs
from semel.core.groups.group import Groups, Topics
from semel.core.wire.messages import consumer_group_describe as wire

_CLASSIC: Final = 0
_CONSUMER: Final = 1


def described(group: ConsumerGroup, groups: Groups) -> wire.DescribedGroup:
    """The description of a group."""
    return wire.DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor() or groups.settings.group_consumer_assignors[0],
        members=[_member(group, member, groups.topics) for member in group.members.values()],
    )


def _member(group: ConsumerGroup, member: Member, topics: Topics) -> wire.Member:
    return wire.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=_assignment(_held(member), topics),
        target_assignment=_assignment(group.target.get(member.member_id, {}), topics),
        member_type=_CONSUMER if member.classic is None else _CLASSIC,
    )


def _held(member: Member) -> dict[bytes, tuple[int, ...]]:
    """Partitions the member holds, including the ones it has yet to revoke."""
    held = {topic_id: dict(partitions) for topic_id, partitions in member.assigned.items()}
    for topic_id, partitions in member.pending_revocation.items():
        held[topic_id] = {**held.get(topic_id, {}), **partitions}
    return without_epochs(held)


def _assignment(assigned: Mapping[bytes, tuple[int, ...]], topics: Topics) -> wire.Assignment:
    shown = []
    for topic_id, partitions in assigned.items():
        topic = topics.topic_by_id(topic_id)
        if topic is not None:
            shown.append(
                wire.TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=list(partitions))
            )
    return wire.Assignment(topic_partitions=shown)

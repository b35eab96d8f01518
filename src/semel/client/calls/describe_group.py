"""ConsumerGroupDescribe and DescribeGroups: a group and its members.

Rules.  A group is described by the protocol it speaks: KIP-848's first, the classic one where a broker does not know
        that protocol or the group does not speak it.
"""

from typing import Final, NamedTuple

from semel.client.calls.find_coordinator import CoordinatorKind, at_coordinator
from semel.client.calls.group_refusals import group_refusal
from semel.client.cluster import Cluster
from semel.core.groups.assignors.protocol import PROTOCOL_TYPE, decode_assignment, decode_subscription
from semel.core.wire.messages import consumer_group_describe as kip848
from semel.core.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from semel.core.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
)
from semel.errors import ErrorCode, RefusedError, WireError, refused
from semel.types import TopicPartition

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
EMPTY_STATES: Final = frozenset({"Empty", "Dead"})


class MemberView(NamedTuple):
    """A member of a group; fields only KIP-848 groups have are None in others."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rack_id: str | None
    topics: tuple[str, ...]
    topic_regex: str | None
    assignment: tuple[TopicPartition, ...]
    target_assignment: tuple[TopicPartition, ...] | None
    member_epoch: int | None


class GroupView(NamedTuple):
    """A group and its members."""

    group_id: str
    type: str
    protocol_type: str
    state: str
    assignor: str
    coordinator: int
    group_epoch: int | None
    assignment_epoch: int | None
    members: tuple[MemberView, ...]


async def describe_group(cluster: Cluster, group_id: str) -> GroupView:
    """One group; raises `RefusedError` with GROUP_ID_NOT_FOUND if there is none of this name."""

    async def ask(coordinator: int) -> GroupView:
        found = await _describe_kip848(cluster, group_id, coordinator)
        return found or await _describe_classic(cluster, group_id, coordinator)

    return await at_coordinator(cluster, CoordinatorKind.GROUP, group_id, ask)


async def find_group(cluster: Cluster, group_id: str) -> GroupView | None:
    """The group, or None if there is none of this name."""
    try:
        return await describe_group(cluster, group_id)
    except RefusedError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return None
        raise


async def _describe_kip848(cluster: Cluster, group_id: str, coordinator: int) -> GroupView | None:
    """None where the broker does not know the protocol or the group does not speak it."""
    if ConsumerGroupDescribeRequest.schema.api_key not in await cluster.served(coordinator):
        return None
    answer = await cluster.send(ConsumerGroupDescribeRequest(group_ids=[group_id]), node_id=coordinator)
    (one,) = answer.groups
    if one.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
        return None
    if one.error_code:
        raise refused(
            one.error_code, f"to describe group {group_id}", by=cluster.where, reason=one.error_message
        )
    return GroupView(
        group_id=group_id,
        type=CONSUMER,
        protocol_type=PROTOCOL_TYPE,
        state=one.group_state,
        assignor=one.assignor_name,
        coordinator=coordinator,
        group_epoch=one.group_epoch,
        assignment_epoch=one.assignment_epoch,
        members=tuple(
            MemberView(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rack_id=member.rack_id,
                topics=tuple(member.subscribed_topic_names),
                topic_regex=member.subscribed_topic_regex or None,
                assignment=_partitions(member.assignment),
                target_assignment=_partitions(member.target_assignment),
                member_epoch=member.member_epoch,
            )
            for member in one.members
        ),
    )


def _partitions(assignment: kip848.Assignment) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(topic.topic_name, index)
            for topic in assignment.topic_partitions
            for index in topic.partitions
        )
    )


async def _describe_classic(cluster: Cluster, group_id: str, coordinator: int) -> GroupView:
    answer = await cluster.send(DescribeGroupsRequest(groups=[group_id]), node_id=coordinator)
    (one,) = answer.groups
    # Before version 6 a group that does not exist is described as dead.
    if one.error_code == ErrorCode.GROUP_ID_NOT_FOUND or (not one.error_code and one.group_state == "Dead"):
        raise group_refusal(cluster, group_id, ErrorCode.GROUP_ID_NOT_FOUND, "to describe")
    if one.error_code:
        raise refused(
            one.error_code, f"to describe group {group_id}", by=cluster.where, reason=one.error_message
        )
    return GroupView(
        group_id=group_id,
        type=CLASSIC,
        protocol_type=one.protocol_type,
        state=one.group_state,
        assignor=one.protocol_data,
        coordinator=coordinator,
        group_epoch=None,
        assignment_epoch=None,
        members=tuple(_classic_member(one, member) for member in one.members),
    )


def _classic_member(group: DescribedGroup, member: DescribedGroupMember) -> MemberView:
    topics: tuple[str, ...] = ()
    assignment: tuple[TopicPartition, ...] = ()
    rack_id = None
    if group.protocol_type == PROTOCOL_TYPE:
        try:
            told = decode_subscription(member.member_id, member.member_metadata)
            topics, rack_id = tuple(told.topics), told.rack_id
            assignment = tuple(sorted(decode_assignment(member.member_assignment).partitions))
        except WireError:
            pass  # While a group is rebalancing there is none; and members may put there what they like.
    return MemberView(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rack_id=rack_id,
        topics=topics,
        topic_regex=None,
        assignment=assignment,
        target_assignment=None,
        member_epoch=None,
    )

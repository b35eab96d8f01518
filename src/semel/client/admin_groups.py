"""Questions and orders about groups: which there are, who is in them, removing members, deleting groups.

Role.   One function per request, as in `admin`. Each finds the group's coordinator by itself.
Flow.   The command line calls these; the public `Admin` will.
Rules.  * Every broker coordinates some groups: listing asks all of them.
        * A group is described by the protocol it speaks: KIP-848's first, the classic one where a broker does not know
          that protocol or the group does not speak it.
        * An order is repeated only where the coordinator had moved or was not ready: then nothing was done.
Elsewhere. Committed offsets and lag: `admin_offsets`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

from semel.client.cluster import Cluster, error_code, refused
from semel.core.groups.assignors.protocol import PROTOCOL_TYPE, decode_assignment, decode_subscription
from semel.core.wire.messages import consumer_group_describe as kip848
from semel.core.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from semel.core.wire.messages.delete_groups import DeleteGroupsRequest
from semel.core.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
)
from semel.core.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.core.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from semel.core.wire.messages.list_groups import ListGroupsRequest
from semel.errors import ErrorCode, RefusedError, UnsupportedVersionError, WireError
from semel.types import TopicPartition

T = TypeVar("T")
CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
EMPTY_STATES: Final = frozenset({"Empty", "Dead"})
_GROUP: Final = 0
_ONE_KEY_VERSION: Final = 3  # From 4 on FindCoordinator takes many keys, in another shape.
_STATES_VERSION: Final = 4
_TYPES_VERSION: Final = 5
_LIST_GROUPS: Final = ListGroupsRequest.schema.api_key
_NOTHING_DONE: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)


class GroupListing(NamedTuple):
    """A group in a list; state and type where the broker tells them."""

    group_id: str
    type: str | None
    protocol_type: str
    state: str | None
    coordinator: int


class MemberView(NamedTuple):
    """A member of a group; what only KIP-848 groups have is None in others."""

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


async def list_groups(
    cluster: Cluster, *, states: Sequence[str] = (), types: Sequence[str] = ()
) -> list[GroupListing]:
    """The groups of all brokers, by name; only those in one of these states and of one of these types, if any are named."""

    async def ask_one(node_id: int) -> list[GroupListing]:
        last = (await cluster.served(node_id)).get(_LIST_GROUPS, (0, 0))[1]
        for given, needed, what in ((states, _STATES_VERSION, "state"), (types, _TYPES_VERSION, "type")):
            if given and last < needed:
                raise UnsupportedVersionError(
                    f"broker {node_id} of {cluster.where} does not tell the {what} of its groups "
                    f"(ListGroups {last}, {needed} is needed): leave the filter out or use a newer broker"
                )
        request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
        answer = await cluster.send(request, node_id=node_id)
        if answer.error_code:
            raise refused(answer.error_code, "to list its groups", by=cluster.where)
        return [
            GroupListing(
                one.group_id, one.group_type or None, one.protocol_type, one.group_state or None, node_id
            )
            for one in answer.groups
        ]

    async def ask() -> list[GroupListing]:
        await cluster.metadata([])
        answers = await asyncio.gather(*(ask_one(node_id) for node_id in cluster.nodes))
        return sorted((one for answer in answers for one in answer), key=lambda one: one.group_id)

    return await cluster.patiently(ask)


async def describe_group(cluster: Cluster, group_id: str) -> GroupView:
    """One group; raises `RefusedError` with GROUP_ID_NOT_FOUND if there is none of this name."""

    async def ask(coordinator: int) -> GroupView:
        found = await _describe_kip848(cluster, group_id, coordinator)
        return found or await _describe_classic(cluster, group_id, coordinator)

    return await at_coordinator(cluster, group_id, ask)


async def find_group(cluster: Cluster, group_id: str) -> GroupView | None:
    """The group, or None if there is none of this name."""
    try:
        return await describe_group(cluster, group_id)
    except RefusedError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return None
        raise


async def delete_group(cluster: Cluster, group_id: str) -> None:
    """Forget a group without members, and its offsets."""

    async def order(coordinator: int) -> None:
        answer = await cluster.send(DeleteGroupsRequest(groups_names=[group_id]), node_id=coordinator)
        for one in answer.results:
            if one.error_code:
                raise group_refusal(cluster, group_id, one.error_code, "to delete")

    await order_coordinator(cluster, group_id, order)


async def remove_members(
    cluster: Cluster,
    group_id: str,
    *,
    member_ids: Iterable[str] = (),
    group_instance_ids: Iterable[str] = (),
    reason: str = "removed by an administrator",
) -> None:
    """Take members out of a group; those that are alive will join again."""
    leaving = [MemberIdentity(member_id=one, reason=reason) for one in member_ids]
    leaving += [MemberIdentity(group_instance_id=one, reason=reason) for one in group_instance_ids]
    if not leaving:
        return

    async def order(coordinator: int) -> None:
        answer = await cluster.send(
            LeaveGroupRequest(group_id=group_id, members=leaving), node_id=coordinator
        )
        if answer.error_code:
            raise group_refusal(cluster, group_id, answer.error_code, "to remove members of")
        for one in answer.members:
            who = one.group_instance_id or one.member_id
            if one.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                raise RefusedError(
                    ErrorCode.UNKNOWN_MEMBER_ID,
                    f"group {group_id} at {cluster.where} has no member {who}: "
                    f"see 'semel groups describe {group_id}'",
                )
            if one.error_code:
                raise refused(one.error_code, f"to remove {who} from group {group_id}", by=cluster.where)

    await order_coordinator(cluster, group_id, order)


# Coordinators


async def at_coordinator(cluster: Cluster, group_id: str, ask: Callable[[int], Awaitable[T]]) -> T:
    """Ask a group's coordinator, again while errors pass and the coordinator moves."""

    async def attempt() -> T:
        return await ask(await find_coordinator(cluster, group_id))

    return await cluster.patiently(attempt)


async def order_coordinator(cluster: Cluster, group_id: str, order: Callable[[int], Awaitable[T]]) -> T:
    """Give a group's coordinator an order; again only if nothing was done."""

    async def attempt() -> T:
        return await order(await cluster.patiently(lambda: find_coordinator(cluster, group_id)))

    return await cluster.patiently(
        attempt, may_repeat=lambda error: isinstance(error, RefusedError) and error.code in _NOTHING_DONE
    )


async def find_coordinator(cluster: Cluster, group_id: str) -> int:
    """Who coordinates the group, at the moment."""
    request = FindCoordinatorRequest(key=group_id, key_type=_GROUP)
    answer = await cluster.send(request, version_max=_ONE_KEY_VERSION)
    if answer.error_code:
        what = f"the coordinator of group {group_id}"
        raise refused(answer.error_code, what, by=cluster.where, reason=answer.error_message)
    return answer.node_id


def group_refusal(cluster: Cluster, group_id: str, number: int, what: str) -> RefusedError:
    """The error for an answer about a whole group."""
    code = error_code(number)
    match code:
        case ErrorCode.GROUP_ID_NOT_FOUND:
            text = f"group {group_id} does not exist at {cluster.where}: see 'semel groups list'"
        case ErrorCode.NON_EMPTY_GROUP | ErrorCode.UNKNOWN_MEMBER_ID:
            text = (
                f"group {group_id} at {cluster.where} has members: stop them first, "
                f"'semel groups describe {group_id}' names them"
            )
        case _:
            return refused(number, f"{what} group {group_id}", by=cluster.where)
    return RefusedError(code, text)


# Descriptions


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

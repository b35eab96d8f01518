"""Calls about groups, their members and their committed offsets.

Role.   The part of the admin client for consumer groups, over `calls`.
Rules.  Offsets are changed only in groups without members; deleting a group deletes its offsets.
"""

# ruff: noqa: N815 - the aliases are Java's names.

from collections.abc import Iterable, Mapping, Sequence

from semel.client import arguments
from semel.client.admin.core import AdminCore, W, each, names, partitions, public, settled
from semel.client.admin.tables import Answers, Listing
from semel.client.calls.delete_group import delete_group
from semel.client.calls.describe_group import GroupView, describe_group
from semel.client.calls.list_groups import list_groups
from semel.client.calls.offset_commit import alter_offsets
from semel.client.calls.offset_delete import delete_offsets
from semel.client.calls.offset_fetch import committed_offsets
from semel.client.calls.remove_members import remove_members
from semel.client.values.administration import ConsumerGroupDescription, GroupListing, MemberDescription
from semel.client.values.consuming import OffsetAndMetadata
from semel.core.groups.assignors.protocol import PROTOCOL_TYPE
from semel.types import TopicPartition


class GroupCalls(AdminCore):
    """Groups and their offsets."""

    @public
    async def list_groups(
        self, *, states: Sequence[str] = (), types: Sequence[str] = ()
    ) -> Listing[GroupListing]:
        """Every group of every broker, in these states and of these types ("classic", "consumer") if any are named."""
        found = await list_groups(self._cluster, states=states, types=types)
        return Listing(found)

    @public
    async def list_consumer_groups(
        self, *, states: Sequence[str] = (), types: Sequence[str] = ()
    ) -> Listing[GroupListing]:
        """The groups of consumers, and those that only store offsets."""
        found = await list_groups(self._cluster, states=states, types=types)
        return Listing(one for one in found if one.protocol_type in (PROTOCOL_TYPE, ""))

    @public
    async def describe_consumer_groups(
        self, group_ids: str | Iterable[str]
    ) -> Answers[str, ConsumerGroupDescription]:
        """Groups with their members and what these read."""

        async def ask(group_id: str) -> ConsumerGroupDescription:
            return _described(await describe_group(self._cluster, group_id))

        return settled(await each(names(group_ids, "group_ids"), ask))

    @public
    async def delete_consumer_groups(self, group_ids: str | Iterable[str]) -> None:
        """Forget groups without members, and their offsets."""

        async def order(group_id: str) -> None:
            await delete_group(self._cluster, group_id)

        settled(await each(names(group_ids, "group_ids"), order))

    @public
    async def remove_members_from_consumer_group(
        self,
        group_id: str,
        *,
        group_instance_ids: Iterable[str] = (),
        member_ids: Iterable[str] = (),
        reason: str = "removed by an administrator",
    ) -> None:
        """Take members out of a group: those named, or all of them if none are. Living members will join again."""
        instances = names(group_instance_ids, "group_instance_ids")
        members = names(member_ids, "member_ids")
        if not instances and not members:
            group = await describe_group(self._cluster, group_id)
            instances = [one.group_instance_id for one in group.members if one.group_instance_id is not None]
            members = [one.member_id for one in group.members if one.group_instance_id is None]
        await remove_members(
            self._cluster, group_id, member_ids=members, group_instance_ids=instances, reason=reason
        )

    @public
    async def list_consumer_group_offsets(
        self,
        group_id: str,
        topic_partitions: Iterable[tuple[str, int]] | None = None,
        *,
        require_stable: bool = False,
    ) -> Answers[TopicPartition, OffsetAndMetadata]:
        """The offsets a group has committed, in these partitions or in all; a partition without one has no answer.

        `require_stable` waits for open transactions. Name the partitions with it: asked for all, Kafka leaves out a partition
        whose first offset is in a transaction that has not ended.
        """
        wanted = None if topic_partitions is None else partitions(topic_partitions)
        found = await committed_offsets(self._cluster, group_id, wanted, require_stable=require_stable)
        return Answers(found)

    @public
    async def alter_consumer_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[W, OffsetAndMetadata | int],
    ) -> None:
        """Set what a group without members has committed; a group that does not exist comes to be."""
        wanted = {where: OffsetAndMetadata(*at) for where, at in arguments.positions(offsets).items()}
        await alter_offsets(self._cluster, group_id, wanted)

    @public
    async def delete_consumer_group_offsets(
        self, group_id: str, topic_partitions: Iterable[tuple[str, int]]
    ) -> None:
        """Forget what a group has committed in these partitions; nobody of the group may be subscribed to their topics."""
        await delete_offsets(self._cluster, group_id, partitions(topic_partitions))

    describe_groups = describe_consumer_groups
    describe_classic_groups = describe_consumer_groups
    describeClassicGroups = describe_consumer_groups
    delete_groups = delete_consumer_groups
    listGroups = list_groups
    listConsumerGroups = list_consumer_groups
    describeConsumerGroups = describe_consumer_groups
    deleteConsumerGroups = delete_consumer_groups
    removeMembersFromConsumerGroup = remove_members_from_consumer_group
    listConsumerGroupOffsets = list_consumer_group_offsets
    alterConsumerGroupOffsets = alter_consumer_group_offsets
    deleteConsumerGroupOffsets = delete_consumer_group_offsets


def _described(group: GroupView) -> ConsumerGroupDescription:
    return ConsumerGroupDescription(
        group_id=group.group_id,
        type=group.type,
        protocol_type=group.protocol_type,
        state=group.state,
        partition_assignor=group.assignor,
        coordinator=group.coordinator,
        group_epoch=group.group_epoch,
        target_assignment_epoch=group.assignment_epoch,
        members=tuple(
            MemberDescription(
                member_id=one.member_id,
                group_instance_id=one.group_instance_id,
                client_id=one.client_id,
                host=one.client_host,
                rack=one.rack_id,
                topics=one.topics,
                assignment=one.assignment,
                target_assignment=one.target_assignment,
                member_epoch=one.member_epoch,
            )
            for one in group.members
        ),
    )

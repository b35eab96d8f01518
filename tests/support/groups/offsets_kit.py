"""Shared by the tests of committed offsets: short ways to write a commit, a fetch and their answers."""

from collections.abc import Mapping

from semel.core.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from semel.core.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
)
from semel.core.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from semel.errors import ErrorCode
from support.broker.admin_kit import Client

Place = tuple[str, int]
BY_NAME = 9
"""The newest versions of OffsetCommit and OffsetFetch that name topics."""


def commit_request(
    group: str, offsets: Mapping[Place, int], *, metadata: str = "", generation: int = -1, member: str = ""
) -> OffsetCommitRequest:
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for (name, partition), offset in offsets.items():
        topic = topics.setdefault(name, OffsetCommitRequestTopic(name=name))
        topic.partitions.append(
            OffsetCommitRequestPartition(
                partition_index=partition, committed_offset=offset, committed_metadata=metadata
            )
        )
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=list(topics.values()),
    )


def txn_commit_request(
    group: str, offsets: Mapping[Place, int], *, producer_id: int, producer_epoch: int = 0
) -> TxnOffsetCommitRequest:
    topics: dict[str, TxnOffsetCommitRequestTopic] = {}
    for (name, partition), offset in offsets.items():
        topic = topics.setdefault(name, TxnOffsetCommitRequestTopic(name=name))
        topic.partitions.append(
            TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        )
    return TxnOffsetCommitRequest(
        transactional_id="tx",
        group_id=group,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        topics=list(topics.values()),
    )


def codes(answer: OffsetCommitResponse) -> dict[Place, ErrorCode]:
    return {
        (topic.name, partition.partition_index): ErrorCode(partition.error_code)
        for topic in answer.topics
        for partition in topic.partitions
    }


def fetch_group(group: str, *places: Place) -> OffsetFetchRequestGroup:
    """Everything the group has, unless places are named."""
    topics: dict[str, OffsetFetchRequestTopics] = {}
    for name, partition in places:
        topics.setdefault(name, OffsetFetchRequestTopics(name=name)).partition_indexes.append(partition)
    return OffsetFetchRequestGroup(group_id=group, topics=list(topics.values()) if places else None)


def found(group: OffsetFetchResponseGroup) -> dict[Place, int | ErrorCode]:
    """Offsets, or codes where there is an error."""
    assert not group.error_code, ErrorCode(group.error_code)
    return {
        (topic.name, partition.partition_index): (
            ErrorCode(partition.error_code) if partition.error_code else partition.committed_offset
        )
        for topic in group.topics
        for partition in topic.partitions
    }


async def commit(client: Client, group: str, offsets: Mapping[Place, int]) -> dict[Place, ErrorCode]:
    return codes(await client.ask(commit_request(group, offsets), BY_NAME))


async def committed(
    client: Client, group: str, *places: Place, require_stable: bool = False
) -> dict[Place, int | ErrorCode]:
    request = OffsetFetchRequest(groups=[fetch_group(group, *places)], require_stable=require_stable)
    answer = await client.ask(request, BY_NAME)
    return found(answer.groups[0])

"""OffsetFetch for one group.

Role.   A pure function of a shard's groups and offsets; the shard calls it, the handler merges the groups.
Rules.  * Every partition that was asked for is in the answer: without a commit it has offset -1 and no error.
        * A request for stable offsets gets UNSTABLE_OFFSET_COMMIT for partitions with an open transaction.
        * An offset of a deleted topic is not returned for a new topic of the same name.
"""

from typing import Final

from semel.core.groups.group import Groups
from semel.core.groups.offsets import Offsets
from semel.core.groups.rows import CommittedOffset
from semel.core.wire.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from semel.core.wire.primitives import ZERO_UUID
from semel.errors import ErrorCode
from semel.types import UNKNOWN_OFFSET

_NO_LEADER_EPOCH: Final = -1


def fetch(
    groups: Groups, offsets: Offsets, asked: OffsetFetchRequestGroup, *, require_stable: bool, by_id: bool
) -> OffsetFetchResponse:
    """The group's committed offsets, as a response of version 8 and later."""
    group_id = asked.group_id
    group = groups.by_id.get(group_id)
    code = ErrorCode.NONE if group is None else group.check_fetch(asked.member_id, asked.member_epoch)
    if code and code is not ErrorCode.GROUP_ID_NOT_FOUND:
        return refused(asked, code)
    answer = OffsetFetchResponseGroup(group_id=group_id)
    if asked.topics is None:
        wanted = [
            (name, ZERO_UUID, list(partitions)) for name, partitions in offsets.of_group(group_id).items()
        ]
    else:
        wanted = [(topic.name, topic.topic_id, topic.partition_indexes) for topic in asked.topics]
    for name, topic_id, partitions in wanted:
        named_by_id = by_id and asked.topics is not None
        topic = groups.topics.topic_by_id(topic_id) if named_by_id else groups.topics.topic(name)
        if topic is None and by_id:
            if asked.topics is not None:
                unknown = [_nothing(partition, ErrorCode.UNKNOWN_TOPIC_ID) for partition in partitions]
                answer.topics.append(OffsetFetchResponseTopics(topic_id=topic_id, partitions=unknown))
            continue  # In a fetch of all offsets, a topic without an id was deleted.
        answered = OffsetFetchResponseTopics(
            name=topic.name if topic is not None else name,
            topic_id=topic.topic_id.bytes if topic is not None else ZERO_UUID,
        )
        answer.topics.append(answered)
        for partition in partitions:
            committed = offsets.get(group_id, answered.name, partition)
            if require_stable and offsets.is_pending(group_id, answered.name, partition):
                answered.partitions.append(_nothing(partition, ErrorCode.UNSTABLE_OFFSET_COMMIT))
            elif committed is None or _is_of_another(committed, answered.topic_id):
                answered.partitions.append(_nothing(partition, ErrorCode.NONE))
            else:
                answered.partitions.append(
                    OffsetFetchResponsePartitions(
                        partition_index=partition,
                        committed_offset=committed.offset,
                        committed_leader_epoch=committed.leader_epoch,
                        metadata=committed.metadata,
                    )
                )
    return OffsetFetchResponse(groups=[answer])


def refused(asked: OffsetFetchRequestGroup, code: ErrorCode) -> OffsetFetchResponse:
    """An error for the whole group."""
    return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id=asked.group_id, error_code=code)])


def _is_of_another(committed: CommittedOffset, topic_id: bytes) -> bool:
    return ZERO_UUID not in (committed.topic_id, topic_id) and committed.topic_id != topic_id


def _nothing(partition: int, code: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=UNKNOWN_OFFSET,
        committed_leader_epoch=_NO_LEADER_EPOCH,
        metadata="",
        error_code=code,
    )

"""Decisions for OffsetCommit, TxnOffsetCommit and OffsetDelete: checks per partition, and rows.

Role.   Pure functions of a shard's groups and a request; the shard calls them.
Rules.  * Every partition of the request is in the answer, with its own code.
        * Unknown topics are refused without consulting the group, as in Kafka.
        * An unknown group accepts offsets from clients that are not members.
"""

from typing import Final

from semel.core.coordination.outcome import LogRow, Ticket
from semel.core.groups.consumer.group import ConsumerGroup
from semel.core.groups.group import CommitFrom, GroupOutcome, Groups, Topic, Topics
from semel.core.groups.offsets import Offsets
from semel.core.groups.rows import NO_EXPIRY, CommittedOffset, offset_row, offset_tombstone
from semel.core.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from semel.core.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from semel.core.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from semel.errors import ErrorCode

_BY_ID_SINCE: Final = 10
_EPOCHS_SINCE: Final = 9
"""The first version of OffsetCommit with the errors of KIP-848."""
_UTF16_MAX: Final = 2
_SERVED_RETENTION: Final = -1


def commit(
    groups: Groups, request: OffsetCommitRequest, version: int, ticket: Ticket, now_ms: int
) -> GroupOutcome:
    """The rows and the answer for an OffsetCommit."""
    rows: list[LogRow] = []
    answer = OffsetCommitResponse()
    code: ErrorCode | None = None
    expire_ms = NO_EXPIRY
    if request.retention_time_ms != _SERVED_RETENTION:
        expire_ms = now_ms + request.retention_time_ms
    for asked in request.topics:
        topic = found_topic(groups.topics, asked, version)
        answered = OffsetCommitResponseTopic(name=asked.name, topic_id=asked.topic_id)
        answer.topics.append(answered)
        for partition in asked.partitions:
            index = partition.partition_index
            unknown = _unknown(topic, index, version)
            if not unknown and code is None:
                code = _admitted(groups, request, version, now_ms)
            refused = (
                unknown
                or code
                or _stale(groups, _commit_from(request, version), request.group_id, topic, index)
                or _keep(rows, groups, request.group_id, topic, partition, now_ms, expire_ms)
            )
            answered.partitions.append(
                OffsetCommitResponsePartition(partition_index=index, error_code=refused)
            )
    return GroupOutcome(rows=rows, replies=[(ticket, answer)], rows_only=True)


def commit_refused(
    topics: Topics, request: OffsetCommitRequest, version: int, code: ErrorCode
) -> OffsetCommitResponse:
    """The answer if the coordinator cannot serve the group; unknown topics still get their own error."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=asked.name,
                topic_id=asked.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=_unknown(topic, partition.partition_index, version) or code,
                    )
                    for partition in asked.partitions
                ],
            )
            for asked in request.topics
            for topic in (found_topic(topics, asked, version),)
        ]
    )


def found_topic(topics: Topics, asked: OffsetCommitRequestTopic, version: int) -> Topic | None:
    """The topic a request names, or whose id it carries."""
    return topics.topic_by_id(asked.topic_id) if version >= _BY_ID_SINCE else topics.topic(asked.name)


def _unknown(topic: Topic | None, partition: int, version: int) -> ErrorCode:
    if topic is None:
        by_id = version >= _BY_ID_SINCE
        return ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not 0 <= partition < topic.partitions:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


def _admitted(groups: Groups, request: OffsetCommitRequest, version: int, now_ms: int) -> ErrorCode:
    """Whether the group accepts offsets from this client."""
    group = groups.by_id.get(request.group_id)
    if group is None:
        if request.generation_id_or_member_epoch < 0:
            return ErrorCode.NONE
        return ErrorCode.GROUP_ID_NOT_FOUND if version >= _EPOCHS_SINCE else ErrorCode.ILLEGAL_GENERATION
    code = group.check_commit(_commit_from(request, version))
    if not code:
        group.commit_heard(request.member_id, now_ms)
    if code is ErrorCode.STALE_MEMBER_EPOCH and version < _EPOCHS_SINCE:
        return ErrorCode.UNSUPPORTED_VERSION
    return code


def _commit_from(request: OffsetCommitRequest, version: int) -> CommitFrom:
    return CommitFrom(
        request.member_id, request.group_instance_id, request.generation_id_or_member_epoch, version=version
    )


def _stale(
    groups: Groups, commit: CommitFrom, group_id: str, topic: Topic | None, partition: int
) -> ErrorCode:
    """Whether a KIP-848 member's epoch is older than its ownership of this partition."""
    group = groups.by_id.get(group_id)
    if topic is None or not isinstance(group, ConsumerGroup):
        return ErrorCode.NONE
    return group.check_commit_of(commit, topic.topic_id.bytes, partition)


def _keep(
    rows: list[LogRow],
    groups: Groups,
    group_id: str,
    topic: Topic | None,
    partition: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition,
    now_ms: int,
    expire_ms: int = NO_EXPIRY,
) -> ErrorCode:
    """Add the row of an offset that nothing else speaks against; or the code to refuse it with."""
    metadata = partition.committed_metadata or ""
    if _is_longer(metadata, groups.settings.offset_metadata_max_bytes):
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    if topic is not None:
        committed = CommittedOffset(
            partition.committed_offset,
            partition.committed_leader_epoch,
            metadata,
            now_ms,
            expire_ms,
            topic.topic_id.bytes,
        )
        rows.append(offset_row(group_id, topic.name, partition.partition_index, committed))
    return ErrorCode.NONE


def _is_longer(metadata: str, limit: int) -> bool:
    """Whether the text has more UTF-16 units (Java's characters) than allowed."""
    if len(metadata) * _UTF16_MAX <= limit:
        return False
    return len(metadata.encode("utf-16-le", "surrogatepass")) // _UTF16_MAX > limit


def commit_in_transaction(
    groups: Groups, request: TxnOffsetCommitRequest, version: int, ticket: Ticket, now_ms: int
) -> GroupOutcome:
    """The rows and the answer for a TxnOffsetCommit."""
    rows: list[LogRow] = []
    answer = TxnOffsetCommitResponse()
    code: ErrorCode | None = None
    for asked in request.topics:
        topic = groups.topics.topic(asked.name)
        answered = TxnOffsetCommitResponseTopic(name=asked.name)
        answer.topics.append(answered)
        for partition in asked.partitions:
            index = partition.partition_index
            unknown = _unknown(topic, index, 0)
            if not unknown and code is None:
                code = _admitted_in_transaction(groups, request, version)
            refused = unknown or code
            if not refused:
                commit = _txn_commit_from(request, version)
                refused = _in_words_of_txn(_stale(groups, commit, request.group_id, topic, index))
            refused = refused or _keep(rows, groups, request.group_id, topic, partition, now_ms)
            answered.partitions.append(
                TxnOffsetCommitResponsePartition(partition_index=index, error_code=refused)
            )
    return GroupOutcome(
        rows=rows,
        replies=[(ticket, answer)],
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        rows_only=True,
    )


def txn_commit_refused(
    topics: Topics, request: TxnOffsetCommitRequest, code: ErrorCode
) -> TxnOffsetCommitResponse:
    """The answer if the coordinator or the transaction refuses the whole request."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=asked.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=_unknown(topics.topic(asked.name), partition.partition_index, 0) or code,
                    )
                    for partition in asked.partitions
                ],
            )
            for asked in request.topics
        ]
    )


def _admitted_in_transaction(groups: Groups, request: TxnOffsetCommitRequest, version: int) -> ErrorCode:
    group = groups.by_id.get(request.group_id)
    if group is None:
        return ErrorCode.NONE if request.generation_id < 0 else ErrorCode.ILLEGAL_GENERATION
    return _in_words_of_txn(group.check_commit(_txn_commit_from(request, version)))


def _txn_commit_from(request: TxnOffsetCommitRequest, version: int) -> CommitFrom:
    return CommitFrom(
        request.member_id,
        request.group_instance_id,
        request.generation_id,
        transactional=True,
        version=version,
    )


def _in_words_of_txn(code: ErrorCode) -> ErrorCode:
    """Replace the code for a stale KIP-848 member, which TxnOffsetCommit does not have."""
    return ErrorCode.ILLEGAL_GENERATION if code is ErrorCode.STALE_MEMBER_EPOCH else code


def delete_offsets(
    groups: Groups, offsets: Offsets, request: OffsetDeleteRequest, ticket: Ticket
) -> GroupOutcome:
    """The tombstones and the answer for an OffsetDelete."""
    topics = {asked.name: groups.topics.topic(asked.name) for asked in request.topics}
    outcome = GroupOutcome(rows_only=True)
    group = groups.by_id.get(request.group_id)
    code = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.check_delete_offsets()
    if group is None or code:
        outcome.replies.append((ticket, OffsetDeleteResponse(error_code=code)))
        return outcome
    answer = OffsetDeleteResponse()
    for asked in request.topics:
        answered = OffsetDeleteResponseTopic(name=asked.name)
        answer.topics.append(answered)
        subscribed = group.is_subscribed_to(asked.name)
        for index in (partition.partition_index for partition in asked.partitions):
            code = _unknown(topics[asked.name], index, 0)
            if not code and subscribed:
                code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            answered.partitions.append(OffsetDeleteResponsePartition(partition_index=index, error_code=code))
            if not code and (
                offsets.get(request.group_id, asked.name, index) is not None
                or offsets.is_pending(request.group_id, asked.name, index)
            ):
                outcome.rows.append(offset_tombstone(request.group_id, asked.name, index))
    outcome.replies.append((ticket, answer))
    return outcome

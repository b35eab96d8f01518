"""The messages of a follower to its leader: Fetch and ListOffsets as a replica sends them.

Role.   From the partitions that are followed to the requests Kafka's followers send, and from a row of an answer to `Told`.
Flow.   `fetcher` hands the plan of its fetch session to `fetch_request`, and reads answers by `told`.
Rules.  * A follower names topics by id from version 13 on, and by name in version 12: the session says which.
        * It reads everything (read_uncommitted), says which life of its broker it is of, and stands in no rack.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from semel.core.client.fetch_session import FetchPlan
from semel.core.replication.epochs import EpochEnd
from semel.core.replication.following import Ask, Told
from semel.core.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from semel.core.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from semel.core.wire.primitives import ZERO_UUID
from semel.errors import ErrorCode
from semel.types import TopicPartition

LATEST: Final = -1
EARLIEST: Final = -2


class Wanted(NamedTuple):
    """The next fetch of one partition, and the topic's id."""

    topic_id: bytes
    ask: Ask

    @property
    def has_id(self) -> bool:
        return self.topic_id != ZERO_UUID


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """Kafka's settings of a follower's fetches."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int


def fetch_request(
    plan: FetchPlan[Wanted], settings: FetchSettings, *, node_id: int, broker_epoch: int
) -> FetchRequest:
    """The request that a plan says."""
    topics: dict[tuple[str, bytes], FetchTopic] = {}
    for (name, index), (topic_id, ask) in plan.say.items():
        topic = topics.get((name, topic_id))
        if topic is None:
            topic = topics[name, topic_id] = FetchTopic(topic=name, topic_id=topic_id)
        topic.partitions.append(
            FetchPartition(
                partition=index,
                current_leader_epoch=ask.leader_epoch,
                fetch_offset=ask.fetch_offset,
                last_fetched_epoch=ask.last_fetched_epoch,
                log_start_offset=ask.log_start_offset,
                partition_max_bytes=settings.partition_max_bytes,
            )
        )
    forgotten: dict[tuple[str, bytes], ForgottenTopic] = {}
    for (name, index), topic_id in plan.forget.items():
        gone = forgotten.setdefault((name, topic_id), ForgottenTopic(topic=name, topic_id=topic_id))
        gone.partitions.append(index)
    state = ReplicaState(replica_id=node_id, replica_epoch=broker_epoch)
    return FetchRequest(
        replica_id=-1 if plan.by_id else node_id,  # Versions with ids have a replica's state in its place.
        replica_state=state if plan.by_id else None,
        max_wait_ms=settings.max_wait_ms,
        min_bytes=settings.min_bytes,
        max_bytes=settings.max_bytes,
        session_id=plan.session_id,
        session_epoch=plan.session_epoch,
        topics=list(topics.values()),
        forgotten_topics_data=list(forgotten.values()),
    )


def told(row: PartitionData) -> Told:
    """The meaning of a row of an answer."""
    end = row.diverging_epoch
    return Told(
        code=code_of(row.error_code),
        high_watermark=row.high_watermark,
        log_start_offset=row.log_start_offset,
        diverging=None if end is None else EpochEnd(end.epoch, end.end_offset),
    )


def offsets_request(
    leader_epochs: Mapping[TopicPartition, int], timestamp: int, *, node_id: int
) -> ListOffsetsRequest:
    """Ask the leader for the `LATEST` or `EARLIEST` offset of these partitions, led in these epochs."""
    topics: dict[str, ListOffsetsTopic] = {}
    for (name, index), leader_epoch in leader_epochs.items():
        topics.setdefault(name, ListOffsetsTopic(name=name)).partitions.append(
            ListOffsetsPartition(
                partition_index=index, current_leader_epoch=leader_epoch, timestamp=timestamp
            )
        )
    return ListOffsetsRequest(replica_id=node_id, topics=list(topics.values()))


def offsets_told(response: ListOffsetsResponse) -> Iterable[tuple[TopicPartition, ErrorCode, int]]:
    """Partition, error and offset of each answer."""
    for topic in response.topics:
        for row in topic.partitions:
            yield TopicPartition(topic.name, row.partition_index), code_of(row.error_code), row.offset


def code_of(number: int) -> ErrorCode:
    """The error; a leader that is newer than this follower may have others."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR

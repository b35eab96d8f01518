"""Records from a topic: from an offset or a time on, up to its end or for ever.

Role.   `read` is an async iterator over a topic's records; the small consumer behind the command line. It has no group.
Flow.   ListOffsets turns "earliest", "latest" or a time into offsets -> Fetch to every leader at once -> records in log
        order per partition.
Rules.  * With `isolation.level=read_committed`, the default, aborted records are left out and nothing behind an open
          transaction is shown. Control records are shown to nobody.
        * Without `follow` it ends where the partitions ended when it began.
        * An offset that is out of range raises: silently starting elsewhere would hide a loss.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from semel.client.cluster import Cluster, TopicView, refused
from semel.client.config import ISOLATION_LEVELS, command_config
from semel.core.records import batch
from semel.core.records.build import Record, iter_records
from semel.core.records.visibility import CommittedOnly
from semel.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from semel.core.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from semel.errors import ErrorCode, RefusedError
from semel.types import UNKNOWN_OFFSET, BytesLike, TopicPartition

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
_CONSUMER: Final = -1
_BY_NAME_VERSION: Final = 12  # From 13 on a topic is named by its id.


class Fetched(NamedTuple):
    """A record and its partition."""

    partition: int
    record: Record


@dataclass(slots=True)
class Lane:
    """How far one partition has been read, and where to stop, if anywhere."""

    offset: int
    end: int | None
    is_done: bool = field(default=False)


async def read(
    cluster: Cluster,
    topic: TopicView,
    starts: Mapping[int, int],
    *,
    follow: bool = False,
) -> AsyncGenerator[Fetched, None]:
    """The records of these partitions from these offsets on."""
    ends = {} if follow else await offsets_at(cluster, topic, starts, LATEST)
    lanes = {partition: Lane(offset, ends.get(partition)) for partition, offset in starts.items()}
    for partition, lane in lanes.items():
        if lane.end is not None and lane.offset > lane.end:
            where = TopicPartition(topic.name, partition)
            raise _out_of_range(cluster, where, lane.offset, f"it ends at {lane.end}; ")
        lane.is_done = lane.offset == lane.end
    while open_lanes := {partition: lane for partition, lane in lanes.items() if not lane.is_done}:

        async def fetch_all(wanted: Mapping[int, Lane] = open_lanes) -> list[PartitionData]:
            return await fetch_round(cluster, topic.name, wanted)

        for data in await cluster.patiently(fetch_all):
            lane = lanes[data.partition_index]
            for record in records_in(data, lane, command_config(cluster.config).isolation_level):
                yield Fetched(data.partition_index, record)
            lane.is_done = lane.end is not None and lane.offset >= lane.end


async def offsets_at(
    cluster: Cluster, topic: TopicView, partitions: Iterable[int], timestamp: int
) -> dict[int, int]:
    """Where these partitions are at a time: `EARLIEST`, `LATEST`, or the first record at or after it, else the end."""
    wanted = list(partitions)
    found = await list_offsets(cluster, topic, wanted, timestamp)
    offsets = {index: answer.offset for index, answer in found.items()}
    beyond = [index for index, offset in offsets.items() if offset == UNKNOWN_OFFSET]
    if beyond and timestamp >= 0:
        offsets |= await offsets_at(cluster, topic, beyond, LATEST)
    return offsets


async def list_offsets(
    cluster: Cluster, topic: TopicView, partitions: Sequence[int], timestamp: int
) -> dict[int, ListOffsetsPartitionResponse]:
    """What the leaders answer."""

    async def ask_all() -> dict[int, ListOffsetsPartitionResponse]:
        leaders = await cluster.by_leader(topic.name, partitions)
        answers = await asyncio.gather(
            *(
                _ask_leader(cluster, topic.name, leader, indexes, timestamp)
                for leader, indexes in leaders.items()
            )
        )
        return {one.partition_index: one for answer in answers for one in answer}

    return await cluster.patiently(ask_all)


async def _ask_leader(
    cluster: Cluster, topic: str, leader: int, indexes: Sequence[int], timestamp: int
) -> list[ListOffsetsPartitionResponse]:
    request = ListOffsetsRequest(
        replica_id=_CONSUMER,
        isolation_level=ISOLATION_LEVELS.index(command_config(cluster.config).isolation_level),
        topics=[
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(partition_index=index, timestamp=timestamp) for index in indexes
                ],
            )
        ],
        timeout_ms=cluster.config.request_timeout_ms,
    )
    answer = await cluster.send(request, node_id=leader)
    results = [one for topic_answer in answer.topics for one in topic_answer.partitions]
    for one in results:
        if one.error_code:
            where = TopicPartition(topic, one.partition_index)
            raise refused(one.error_code, f"the offset of {where} at time {timestamp}", by=cluster.where)
    return results


async def fetch_round(cluster: Cluster, topic: str, lanes: Mapping[int, Lane]) -> list[PartitionData]:
    """One Fetch to every leader, at the same time."""
    leaders = await cluster.by_leader(topic, lanes)
    answers = await asyncio.gather(
        *(
            _fetch_from(cluster, topic, leader, {index: lanes[index].offset for index in indexes})
            for leader, indexes in leaders.items()
        )
    )
    return [data for answer in answers for data in answer]


async def _fetch_from(
    cluster: Cluster, topic: str, leader: int, offsets: Mapping[int, int]
) -> list[PartitionData]:
    config = command_config(cluster.config)
    request = FetchRequest(
        replica_id=_CONSUMER,
        max_wait_ms=config.fetch_max_wait_ms,
        min_bytes=1,
        max_bytes=config.fetch_max_bytes,
        isolation_level=ISOLATION_LEVELS.index(config.isolation_level),
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[
                    FetchPartition(
                        partition=index,
                        fetch_offset=offset,
                        partition_max_bytes=config.max_partition_fetch_bytes,
                    )
                    for index, offset in offsets.items()
                ],
            )
        ],
    )
    answer = await cluster.send(
        request, node_id=leader, version_max=_BY_NAME_VERSION, timeout_ms=config.fetch_max_wait_ms
    )
    if answer.error_code:
        raise refused(answer.error_code, f"to fetch from {topic}", by=cluster.where)
    results = [data for one in answer.responses for data in one.partitions]
    for data in results:
        _check(cluster, TopicPartition(topic, data.partition_index), data, offsets[data.partition_index])
    return results


def _check(cluster: Cluster, where: TopicPartition, data: PartitionData, offset: int) -> None:
    if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        begin = f"it begins at {data.log_start_offset}; " if data.log_start_offset >= 0 else ""
        raise _out_of_range(cluster, where, offset, begin)
    if data.error_code:
        raise refused(data.error_code, f"to fetch {where} from offset {offset}", by=cluster.where)


def _out_of_range(cluster: Cluster, where: TopicPartition, offset: int, limits: str) -> RefusedError:
    return RefusedError(
        ErrorCode.OFFSET_OUT_OF_RANGE,
        f"{where} at {cluster.where} has no offset {offset}: {limits}ask for earliest or latest",
    )


def records_in(data: PartitionData, lane: Lane, isolation_level: str) -> Iterator[Record]:
    """The records of one answer that are new and to be shown; moves the lane behind them."""
    buffer: BytesLike = data.records or b""
    aborted = data.aborted_transactions if isolation_level == "read_committed" else None
    is_shown = CommittedOnly((one.producer_id, one.first_offset) for one in aborted or ())
    for position, header in batch.headers(buffer):
        batch.check_crc(buffer, position, header)
        shown = is_shown(buffer, position, header) and not header.is_control
        if shown and header.next_offset > lane.offset:
            for record in iter_records(buffer, position, header):
                if record.offset >= lane.offset and (lane.end is None or record.offset < lane.end):
                    yield record
        lane.offset = max(lane.offset, header.next_offset)

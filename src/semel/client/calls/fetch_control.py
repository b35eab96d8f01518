"""Fetch of control records: the markers that consumers pass over.

Role.   `control_records` reads a range of a partition for `semel consume --control`.
Rules.  * Only headers of batches are looked at; records of data are neither decompressed nor decoded.
        * A range that ends inside a transaction that is open is read all the same: control records are never hidden.
        * Retention may have deleted the beginning meanwhile: it is read from the first offset that is left.
"""

from typing import Final, NamedTuple

from semel.client.cluster import Cluster
from semel.core.records.batch import BatchHeader, headers
from semel.core.records.control import ControlType, read_control_type, read_end
from semel.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from semel.errors import ErrorCode, refused
from semel.types import BytesLike, TopicPartition

_CONSUMER: Final = -1
_BY_NAME_VERSION: Final = 12
_BYTES_MAX: Final = 8 * 1024 * 1024
_WAIT_MS: Final = 500


class ControlRecord(NamedTuple):
    """A marker, or another control record (`coordinator_epoch` is None then)."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    kind: str
    """`commit`, `abort`, or another type's name."""
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int | None


async def control_records(
    cluster: Cluster, where: TopicPartition, start: int, end: int
) -> list[ControlRecord]:
    """The control records of a partition from one offset up to another."""
    found: list[ControlRecord] = []
    while start < end:
        answer = await cluster.patiently(lambda at=start: _fetch(cluster, where, at))  # type: ignore[misc]  # A default binds it.
        if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and answer.log_start_offset > start:
            start = answer.log_start_offset
            continue
        if answer.error_code:
            raise refused(answer.error_code, f"to read {where} from offset {start}", by=cluster.where)
        before = start
        data: BytesLike = answer.records or b""
        for position, header in headers(data):
            if header.is_control and start <= header.base_offset < end:
                found.append(_read(where, data, position, header))
            start = max(start, header.next_offset)
        if start == before:
            return found  # The log ends here.
    return found


async def _fetch(cluster: Cluster, where: TopicPartition, offset: int) -> PartitionData:
    (leader,) = await cluster.by_leader(where.topic, [where.partition])
    request = FetchRequest(
        replica_id=_CONSUMER,
        max_wait_ms=_WAIT_MS,
        min_bytes=1,
        max_bytes=_BYTES_MAX,
        topics=[
            FetchTopic(
                topic=where.topic,
                partitions=[
                    FetchPartition(
                        partition=where.partition, fetch_offset=offset, partition_max_bytes=_BYTES_MAX
                    )
                ],
            )
        ],
    )
    answer = await cluster.send(request, node_id=leader, version_max=_BY_NAME_VERSION, timeout_ms=_WAIT_MS)
    if answer.error_code:
        raise refused(answer.error_code, f"to read {where}", by=cluster.where)
    ((data,),) = [topic.partitions for topic in answer.responses]
    code = ErrorCode(data.error_code)
    if code.retriable:
        raise refused(code, f"to read {where}", by=cluster.where)
    return data


def _read(where: TopicPartition, data: BytesLike, position: int, header: BatchHeader) -> ControlRecord:
    marker = read_end(data, position, header)
    if marker is not None:
        kind = "commit" if marker.commit else "abort"
    elif header.records_count == 0:
        kind = "removed by compaction"
    else:
        kind = read_control_type(data, position, header).name.lower()
        kind = "unknown" if kind == ControlType.UNKNOWN.name.lower() else kind
    return ControlRecord(
        *where,
        header.base_offset,
        header.max_timestamp,
        kind,
        header.producer_id,
        header.producer_epoch,
        None if marker is None else marker.coordinator_epoch,
    )

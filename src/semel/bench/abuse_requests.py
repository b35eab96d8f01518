"""Requests that are small to send and much work to answer: bombs, crowds of rows, searches in one large batch.

Role.   Each `Abuse` prepares a topic if it needs one and gives the frames a hostile, or mistaken, client sends.
Flow.   `abuse` measures how long another client waits meanwhile; the tests of load do the same with bounds.
Rules.  * Frames are built before anything is timed.
        * Every batch is one that a producer could have sent: its checksum holds, and its records are as its header says.
"""

import time
import uuid
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Final

import cramjam

from semel.bench.broker_load import FETCH_VERSION, PRODUCE_VERSION, Wire, frame
from semel.bench.group_load import await_coordinator
from semel.core.metadata.config_types import ResourceType
from semel.core.records.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    set_crc,
    write_header,
)
from semel.core.records.codecs import Compression
from semel.core.records.compression import compress
from semel.core.records.varint import varint
from semel.core.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from semel.core.wire.messages.describe_groups import DescribeGroupsRequest
from semel.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from semel.core.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from semel.core.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from semel.core.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from semel.core.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from semel.core.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from semel.core.wire.registry import ApiKey
from semel.types import NO_PARTITION_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE

BOMB_BYTES: Final = 100 << 20
BOMBS: Final = 20
MANY_RECORDS: Final = 1_000_000
_DAY_MS: Final = 86_400_000
_METADATA_VERSION: Final = 9
_GROUPS_VERSION: Final = 5
_LIST_OFFSETS_VERSION: Final = 5
_CONFIGS_VERSION: Final = 4
_COMMIT_VERSION: Final = 8
_OFFSET_FETCH_VERSION: Final = 8
_OFFSETS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Abuse:
    """One kind of request."""

    name: str
    frames: Callable[[str], Sequence[bytes]]
    """For a topic of its own."""
    partitions: int = 0
    """Of that topic; 0 if it needs none."""
    is_answered: bool = True
    """Whether each frame is answered; else its rows are too many, and the connection is closed."""

    has_group: bool = False
    """Whether a group of the topic's name commits offsets."""

    def prepare(self, wire: Wire) -> str:
        """Make what the requests need; the topic's name."""
        topic = f"abused-{uuid.uuid4().hex[:12]}"
        if self.partitions:
            wire.create_topic(topic, self.partitions)
        if self.has_group:
            await_coordinator(wire, topic)
        return topic


def batch_of(section: bytes, count: int, codec: int, base_timestamp: int, max_timestamp: int) -> bytearray:
    """A batch around records that are packed already."""
    size_bytes = HEADER_SIZE + len(section)
    header = BatchHeader(
        base_offset=0,
        batch_length=size_bytes - LOG_OVERHEAD,
        partition_leader_epoch=NO_PARTITION_LEADER_EPOCH,
        magic=MAGIC,
        crc=0,
        attributes=codec,
        last_offset_delta=count - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        records_count=count,
    )
    made = bytearray(HEADER_SIZE)
    write_header(made, 0, header)
    made += section
    set_crc(made, 0, size_bytes)
    return made


@cache
def bomb(codec: int) -> bytes:
    """A batch of one record whose value is `BOMB_BYTES` of zeros."""
    body = b"\x00\x00\x00\x01" + varint(BOMB_BYTES) + bytes(BOMB_BYTES) + b"\x00"
    now = now_ms()
    return bytes(batch_of(bytes(compress(codec, varint(len(body)) + body)), 1, codec, now, now))


@cache
def _many_small_records(last_delta_ms: int) -> bytes:
    """The plain records of a large batch: no keys, no values. The last one is later than the others."""
    parts = []
    for index in range(MANY_RECORDS):
        delta = last_delta_ms if index == MANY_RECORDS - 1 else 0
        body = b"\x00" + varint(delta) + varint(index) + b"\x01\x01\x00"
        parts.append(varint(len(body)) + body)
    return b"".join(parts)


@cache
def large_batch(base_timestamp: int, last_delta_ms: int = 0) -> bytes:
    """A batch of a million records, packed to less than a megabyte."""
    section = bytes(cramjam.zstd.compress(_many_small_records(last_delta_ms)))
    return bytes(
        batch_of(section, MANY_RECORDS, Compression.ZSTD, base_timestamp, base_timestamp + last_delta_ms)
    )


def now_ms() -> int:
    """The wall clock, as records have it."""
    return int(time.time() * 1000)


def produce_frame(topic: str, batches: Sequence[bytes]) -> bytes:
    """One request with a batch for each of the first partitions."""
    data = [PartitionProduceData(index=index, records=one) for index, one in enumerate(batches)]
    request = ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name=topic, partition_data=data)],
    )
    return frame(ApiKey.PRODUCE, request, PRODUCE_VERSION, 1)


def _bombs(codec: int, topic: str) -> list[bytes]:
    return [produce_frame(topic, [bomb(codec)] * BOMBS)]


def _ahead(topic: str) -> list[bytes]:
    return [produce_frame(topic, [large_batch(now_ms() + 10 * _DAY_MS)])]


def empty_members_frame(topic: str) -> bytes:
    """A gzip stream of many members; only the last one holds something."""
    body = b"\x00\x00\x00\x01\x01\x00"
    empty = _gzip(b"")
    section = empty * (900_000 // len(empty)) + _gzip(varint(len(body)) + body)
    now = now_ms()
    return produce_frame(topic, [bytes(batch_of(section, 1, Compression.GZIP, now, now))])


def _empty_members(topic: str) -> list[bytes]:
    return [empty_members_frame(topic)]


def _gzip(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=31)
    return packer.compress(data) + packer.flush()


def time_search_frame(topic: str, timestamp_ms: int) -> tuple[bytes, int]:
    """A search by time in the first partition, and its version."""
    asked = ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=timestamp_ms)
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=0, topics=[ListOffsetsTopic(name=topic, partitions=[asked])]
    )
    return frame(ApiKey.LIST_OFFSETS, request, _LIST_OFFSETS_VERSION, 2), _LIST_OFFSETS_VERSION


def _times(topic: str) -> list[bytes]:
    """A stored batch whose last record alone is later than the others, and searches for it."""
    now = now_ms()
    search, _version = time_search_frame(topic, now - 500)
    return [produce_frame(topic, [large_batch(now - 1000, 1000)]), *[search] * 5]


def describe_groups_frame(count: int) -> bytes:
    request = DescribeGroupsRequest(groups=[f"g{number}" for number in range(count)])
    return frame(ApiKey.DESCRIBE_GROUPS, request, _GROUPS_VERSION, 1)


def metadata_frame(count: int) -> bytes:
    topics = [MetadataRequestTopic(name=f"t{number}") for number in range(count)]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    return frame(ApiKey.METADATA, request, _METADATA_VERSION, 1)


def fetch_frame(count: int) -> bytes:
    partitions = [
        FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1) for number in range(count)
    ]
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic="unknown", partitions=partitions)]
    )
    return frame(ApiKey.FETCH, request, FETCH_VERSION, 1)


def describe_configs_frame(count: int) -> bytes:
    """The same broker, every setting of it, again and again."""
    broker = DescribeConfigsResource(
        resource_type=ResourceType.BROKER, resource_name="1", configuration_keys=None
    )
    request = DescribeConfigsRequest(resources=[broker] * count)
    return frame(ApiKey.DESCRIBE_CONFIGS, request, _CONFIGS_VERSION, 1)


def offset_fetch_frames(topic: str, count: int, times: int) -> list[bytes]:
    """A group commits many partitions, and is asked for all of them again and again."""
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=0, committed_metadata="")
        for index in range(count)
    ]
    commit = OffsetCommitRequest(
        group_id=topic,
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=partitions)],
    )
    fetch = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=topic, topics=None)] * times)
    return [
        frame(ApiKey.OFFSET_COMMIT, commit, _COMMIT_VERSION, 1),
        frame(ApiKey.OFFSET_FETCH, fetch, _OFFSET_FETCH_VERSION, 2),
    ]


def _offsets(topic: str) -> list[bytes]:
    return offset_fetch_frames(topic, _OFFSETS, 249)


def _rows(made: Callable[[int], bytes], count: int, _topic: str) -> list[bytes]:
    return [made(count)]


ABUSES: Final = (
    Abuse(
        f"Produce of {BOMBS} zstd bombs of {BOMB_BYTES >> 20} MiB", partial(_bombs, Compression.ZSTD), BOMBS
    ),
    Abuse(
        f"Produce of {BOMBS} gzip bombs of {BOMB_BYTES >> 20} MiB", partial(_bombs, Compression.GZIP), BOMBS
    ),
    Abuse("Produce of a million records, each ten days ahead", _ahead, 1),
    Abuse("Produce of 45,000 empty gzip members", _empty_members, 1),
    Abuse("ListOffsets by time, five times, in a batch of a million records", _times, 1),
    Abuse("DescribeConfigs of a broker, 150 times", partial(_rows, describe_configs_frame, 150)),
    Abuse(
        f"OffsetFetch of all {_OFFSETS:,} offsets of a group, 249 times", _offsets, _OFFSETS, has_group=True
    ),
    Abuse("DescribeGroups of 500,000 ids", partial(_rows, describe_groups_frame, 500_000), is_answered=False),
    Abuse("Fetch of 500,000 unknown partitions", partial(_rows, fetch_frame, 500_000), is_answered=False),
    Abuse("Metadata of 3,000,000 names", partial(_rows, metadata_frame, 3_000_000), is_answered=False),
    Abuse("DescribeGroups of 45,000 ids", partial(_rows, describe_groups_frame, 45_000)),
    Abuse("Fetch of 45,000 unknown partitions", partial(_rows, fetch_frame, 45_000)),
    Abuse("Metadata of 45,000 names", partial(_rows, metadata_frame, 45_000)),
)

"""Everything a topic holds, read back as Arrow columns and counted."""

import sys
from array import array
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from semel.core.records.arrow import decode_batches
from semel.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from semel.core.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from semel.errors import ErrorCode, SemelError
from semel.net.connection import Connection

_FETCH_VERSION: Final = 12
_LIST_VERSION: Final = 7
_LATEST: Final = -1
_TIMEOUT_MS: Final = 10_000
_BYTES_MAX: Final = 8 << 20
ID_BYTES: Final = 8


class ReadFailedError(SemelError):
    """The broker refused a read: the text says which and why."""


async def read_ids(connection: Connection, topic: str, partition: int) -> "array[int]":
    """The number in the first eight bytes of every value, in offset order."""
    end = await _end_offset(connection, topic, partition)
    offset = 0
    found = array("q")
    while offset < end:
        asked = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=_BYTES_MAX)
        request = FetchRequest(
            max_wait_ms=1000,
            min_bytes=1,
            max_bytes=_BYTES_MAX,
            session_id=0,
            session_epoch=-1,
            topics=[FetchTopic(topic=topic, partitions=[asked])],
        )
        response = await connection.send(request, _FETCH_VERSION, timeout_ms=_TIMEOUT_MS)
        answer = response.responses[0].partitions[0]
        if answer.error_code:
            raise ReadFailedError(f"{topic}-{partition} at {offset}: {ErrorCode(answer.error_code).name}")
        decoded = decode_batches(answer.records or b"", fetch_offset=offset)
        found += _ids(decoded.records.column("value"))
        offset = decoded.next_offset
    return found


async def _end_offset(connection: Connection, topic: str, partition: int) -> int:
    asked = ListOffsetsPartition(partition_index=partition, timestamp=_LATEST)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])])
    response = await connection.send(request, _LIST_VERSION, timeout_ms=_TIMEOUT_MS)
    answer = response.topics[0].partitions[0]
    if answer.error_code:
        raise ReadFailedError(f"{topic}-{partition}: {ErrorCode(answer.error_code).name}")
    return answer.offset


def _ids(values: pa.Array) -> "array[int]":
    """From a binary column, without touching a value in Python."""
    numbers = pc.binary_slice(values, 0, ID_BYTES)
    _validity, _offsets, data = numbers.buffers()
    ids = array("q")
    ids.frombytes(memoryview(data)[: ID_BYTES * len(values)] if data else b"")
    if sys.byteorder == "little":
        ids.byteswap()
    return ids

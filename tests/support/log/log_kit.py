"""A log to test with: on a disk in memory unless told otherwise, with small segments and a clock of its own."""

import random
from collections.abc import Sequence
from typing import Any

from semel.core.idempotence.producer_window import Duplicate
from semel.core.records.build import RecordInput, build_batch
from semel.errors import Refuse
from semel.log import reading
from semel.log.config import LogConfig
from semel.log.partition_log import Appended, PartitionLog
from semel.log.recovery import Opening, open_log
from semel.runtime.files import Files
from semel.runtime.memory_files import MemoryDisk
from semel.types import TopicPartition

NOW = 1_700_000_000_000
DIRECTORY = "/data/orders-0"
PARTITION = TopicPartition("orders", 0)


def disk(seed: int = 0) -> MemoryDisk:
    return MemoryDisk(random.Random(seed))


def open_at(
    files: Files,
    config: LogConfig | None = None,
    *,
    clean: bool = True,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    directory: str = DIRECTORY,
    now_ms: int = NOW,
) -> PartitionLog:
    """Open the log, everything in it replicated."""
    log = open_log(
        files,
        Opening(
            topic_partition=PARTITION,
            directory=directory,
            config=config or LogConfig(),
            now_ms=now_ms,
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
        ),
    )
    log.advance_high_watermark(log.log_end_offset)
    return log


def records(*values: bytes, timestamp_ms: int = NOW) -> list[RecordInput]:
    return [RecordInput(key=b"k", value=value, timestamp_ms=timestamp_ms) for value in values]


def batch_of(
    *values: bytes,
    producer_id: int = -1,
    epoch: int = 0,
    sequence: int = 0,
    timestamp_ms: int = NOW,
    **more: Any,
) -> bytearray:
    """A batch as a client sends it; without a producer id, without sequences."""
    if producer_id >= 0:
        more |= {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
    return build_batch(records(*values, timestamp_ms=timestamp_ms), **more)


def send(
    log: PartitionLog, data: bytearray, *, now_ms: int = NOW, leader_epoch: int = 0, **more: Any
) -> Appended | Duplicate | Refuse:
    """Append a copy and let every reader see it."""
    result = log.append(bytearray(data), leader_epoch=leader_epoch, now_ms=now_ms, **more)
    log.advance_high_watermark(log.log_end_offset)
    return result


def end(
    log: PartitionLog,
    producer_id: int,
    *,
    commit: bool,
    epoch: int = 0,
    leader_epoch: int = 0,
    now_ms: int = NOW,
) -> Appended | Refuse:
    """Write the marker that ends a transaction."""
    result = log.append_marker(
        producer_id=producer_id,
        producer_epoch=epoch,
        coordinator_epoch=0,
        commit=commit,
        leader_epoch=leader_epoch,
        now_ms=now_ms,
    )
    log.advance_high_watermark(log.log_end_offset)
    return result


def content(log: PartitionLog) -> bytes:
    """Every byte a reader can get, in order."""
    from semel.core.records.batch import headers

    pieces, offset = [], log.log_start_offset
    while (piece := reading.read(log, offset, max_bytes=1 << 20, upper_bound=log.log_end_offset)) is not None:
        pieces.append(piece.read())
        offset = [header for _position, header in headers(pieces[-1])][-1].next_offset
    return b"".join(pieces)


def file_bytes(files: Files, directory: str = DIRECTORY, endings: Sequence[str] = ("",)) -> dict[str, bytes]:
    """Name → content of a partition's files."""
    from semel.runtime.files import join, read_whole

    names = [name for name in files.list_directory(directory) if name.endswith(tuple(endings))]
    return {name: read_whole(files, join(directory, name)) for name in names}

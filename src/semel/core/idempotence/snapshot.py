"""The bytes of a producer snapshot (`<20 digits>.snapshot`), as Apache Kafka writes and reads them.

Role.   Producers to bytes and back, so that a restart need not read the whole log.
Flow.   `log.partition_log` encodes `ProducerState.entries()` when a segment is rolled or the log is closed, and hands
        decoded entries to `ProducerState.load`. The offset a snapshot stands for is in the file's name.
Rules.  * Version 1: version, CRC-32C of all that follows it, count, 46 bytes per producer with its last batch only.
        * Any damage raises `CorruptSnapshotError`: the file is thrown away and the state rebuilt from the log.
        * Kafka's format forgets four of five batches at every restart, and a client that resends one of them is
          refused; it also forgets when the broker last wrote for a producer, where timestamps set by clients do not
          tell. With `keep_windows` both follow behind the rows, under the same checksum, where Kafka does not look:
          either broker reads either kind.

    int16 version = 1 | uint32 crc | int32 count
    per producer:  int64 id | int16 epoch | int32 last sequence | int64 last offset | int32 offset delta |
                   int64 timestamp | int32 coordinator epoch | int64 first offset of its open transaction, or -1
    optional:      "SEMELWIN" | int32 count
    per producer:  int64 id | int64 last write | int8 batches |
                   per batch: int32 last sequence | int64 last offset | int32 offset delta | int64 timestamp
"""

import struct
from collections.abc import Iterable
from dataclasses import replace
from struct import Struct
from typing import Final

from crc32c import crc32c

from semel.core.idempotence.producer_window import WINDOW_BATCHES_MAX, ProducerEntry, WindowBatch
from semel.errors import CorruptSnapshotError
from semel.types import NO_TIMESTAMP, BytesLike

VERSION: Final = 1

_HEAD: Final = Struct(">hIi")
_CRC_END: Final = 6  # The checksum covers the file from here on.
_ROW: Final = Struct(">qhiqiqiq")
_NO_OFFSET: Final = -1
_LAST_WRITE_SLACK_MS: Final = (
    60_000  # As far as a timestamp may lag behind the clock without being kept apart.
)
_WINDOWS_MAGIC: Final = b"SEMELWIN"
_WINDOWS_HEAD: Final = Struct(">8si")
_WINDOW: Final = Struct(">qqb")
_BATCH: Final = Struct(">iqiq")


def encode(entries: Iterable[ProducerEntry], *, keep_windows: bool = False) -> bytes:
    """The file for these producers, in the order given."""
    entries = list(entries)
    rows = b"".join(
        _ROW.pack(
            entry.producer_id,
            entry.producer_epoch,
            entry.last_sequence,
            entry.last_offset,
            entry.offset_delta,
            entry.last_timestamp_ms,
            entry.coordinator_epoch,
            _NO_OFFSET if entry.current_txn_first_offset is None else entry.current_txn_first_offset,
        )
        for entry in entries
    )
    windows = _encode_windows(entries) if keep_windows else b""
    body = _HEAD.pack(VERSION, 0, len(entries))[_CRC_END:] + rows + windows
    return _HEAD.pack(VERSION, crc32c(body), len(entries))[:_CRC_END] + body


def _encode_windows(entries: list[ProducerEntry]) -> bytes:
    """The windows a row alone does not tell; nothing if there are none."""
    windows = [
        _WINDOW.pack(entry.producer_id, entry.last_write_ms, len(entry.batches))
        + b"".join(_BATCH.pack(*batch) for batch in entry.batches)
        for entry in entries
        if entry.batches != _batches_of_row(entry)
        or entry.last_write_ms > entry.last_timestamp_ms + _LAST_WRITE_SLACK_MS
    ]
    return _WINDOWS_HEAD.pack(_WINDOWS_MAGIC, len(windows)) + b"".join(windows) if windows else b""


def _batches_of_row(entry: ProducerEntry) -> tuple[WindowBatch, ...]:
    """The batches that come back from a row: the last one, with the timestamp of the producer's last write."""
    if entry.last_offset < 0:
        return ()
    return (WindowBatch(entry.last_sequence, entry.last_offset, entry.offset_delta, entry.last_timestamp_ms),)


def decode(data: BytesLike) -> list[ProducerEntry]:
    """The producers of a file, in the order of the file; raises `CorruptSnapshotError` on any damage."""
    view = memoryview(data)
    if len(view) < _HEAD.size:
        raise CorruptSnapshotError(f"producer snapshot: {len(view)} bytes, the smallest has {_HEAD.size}")
    version, crc, count = _HEAD.unpack_from(view)
    if version != VERSION:
        raise CorruptSnapshotError(f"producer snapshot: version {version}, only {VERSION} exists")
    actual = crc32c(view[_CRC_END:])
    if actual != crc:
        raise CorruptSnapshotError(
            f"producer snapshot: checksum {actual:#010x} of the bytes is not {crc:#010x}"
        )
    end = _HEAD.size + count * _ROW.size
    if count < 0 or end > len(view):
        raise CorruptSnapshotError(f"producer snapshot: {count} producers do not fit into {len(view)} bytes")
    entries = []
    for row in _ROW.iter_unpack(view[_HEAD.size : end]):
        (
            producer_id,
            epoch,
            last_sequence,
            last_offset,
            offset_delta,
            timestamp,
            coordinator_epoch,
            first_offset,
        ) = row
        entries.append(
            ProducerEntry(
                producer_id,
                epoch,
                coordinator_epoch,
                timestamp,
                first_offset if first_offset >= 0 else None,
                (WindowBatch(last_sequence, last_offset, offset_delta, timestamp),)
                if last_offset >= 0
                else (),
            )
        )
    if view[end : end + len(_WINDOWS_MAGIC)].tobytes() == _WINDOWS_MAGIC:
        return _with_windows(entries, view, end)
    return entries


def _with_windows(entries: list[ProducerEntry], view: memoryview, position: int) -> list[ProducerEntry]:
    windows: dict[int, tuple[int, tuple[WindowBatch, ...]]] = {}
    try:
        _, count = _WINDOWS_HEAD.unpack_from(view, position)
        position += _WINDOWS_HEAD.size
        for _ in range(count):
            producer_id, last_write_ms, length = _WINDOW.unpack_from(view, position)
            position += _WINDOW.size
            if not 0 <= length <= WINDOW_BATCHES_MAX:
                raise CorruptSnapshotError(
                    f"producer snapshot: {length} batches of producer {producer_id}, a window has at most "
                    f"{WINDOW_BATCHES_MAX}"
                )
            batches = range(position, position + length * _BATCH.size, _BATCH.size)
            windows[producer_id] = (
                last_write_ms,
                tuple(WindowBatch._make(_BATCH.unpack_from(view, at)) for at in batches),
            )
            position = batches.stop
    except struct.error as short:
        raise CorruptSnapshotError(
            f"producer snapshot: the windows behind the rows are cut off: {short}"
        ) from None
    return [
        _with_window(entry, *windows.get(entry.producer_id, (NO_TIMESTAMP, entry.batches)))
        for entry in entries
    ]


def _with_window(entry: ProducerEntry, last_write_ms: int, batches: tuple[WindowBatch, ...]) -> ProducerEntry:
    return replace(entry, last_write_ms=last_write_ms, batches=batches)

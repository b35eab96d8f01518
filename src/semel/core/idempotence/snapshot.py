"""The bytes of a producer snapshot (`<20 digits>.snapshot`), as Apache Kafka writes and reads them.

Role.   Producers to bytes and back, so that a restart need not read the whole log.
Flow.   `log.partition_log` encodes `ProducerState.entries()` when a segment is rolled or the log is closed, and hands
        decoded entries to `ProducerState.load`. The offset a snapshot stands for is in the file's name.
Rules.  * Version 1: version, CRC-32C of all that follows it, count, 46 bytes per producer with its last batch only.
        * Any damage raises `CorruptSnapshotError`: the file is deleted and the state rebuilt from the log.
        * Kafka's format keeps one of five batches across a restart, so a client that resends another one is refused. It
          also loses the time of the broker's last write, if the client sets timestamps. With `keep_windows` both follow
          behind the rows, under the same checksum. Kafka ignores the extra bytes: either broker reads either kind.

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

from semel.core.idempotence.producer_window import BATCH, WINDOW_BATCHES_MAX, ProducerEntry
from semel.errors import CorruptSnapshotError
from semel.types import NO_SEQUENCE, BytesLike

VERSION: Final = 1

_HEAD: Final = Struct(">hI")  # The checksum covers what follows it.
_COUNT: Final = Struct(">i")
_ROW: Final = Struct(">qhiqiqiq")
_NO_OFFSET: Final = -1
_WINDOWS_MAGIC: Final = b"SEMELWIN"
_WINDOWS_HEAD: Final = Struct(">8si")
_WINDOW: Final = Struct(">qqb")
# A timestamp may lag this far behind the clock before the time of the last write is stored too.
_LAST_WRITE_SLACK_MS: Final = 60_000


def encode(entries: Iterable[ProducerEntry], *, keep_windows: bool = False) -> bytes:
    """The file for these producers, in the order given."""
    rows, windows = bytearray(), bytearray()
    rows_count = windows_count = 0
    for entry in entries:
        window, timestamp_ms = entry.window, entry.last_timestamp_ms
        last_sequence, last_offset, offset_delta = NO_SEQUENCE, _NO_OFFSET, 0
        if window:
            last_sequence, last_offset, offset_delta, _ = BATCH.unpack_from(window, len(window) - BATCH.size)
        first_offset = entry.current_txn_first_offset
        rows_count += 1
        rows += _ROW.pack(
            entry.producer_id,
            entry.producer_epoch,
            last_sequence,
            last_offset,
            offset_delta,
            timestamp_ms,
            entry.coordinator_epoch,
            _NO_OFFSET if first_offset is None else first_offset,
        )
        if keep_windows and (
            window != _window_of_row(last_sequence, last_offset, offset_delta, timestamp_ms)
            or entry.last_write_ms > timestamp_ms + _LAST_WRITE_SLACK_MS
        ):
            windows_count += 1
            windows += (
                _WINDOW.pack(entry.producer_id, entry.last_write_ms, len(window) // BATCH.size) + window
            )
    if windows_count:
        windows[:0] = _WINDOWS_HEAD.pack(_WINDOWS_MAGIC, windows_count)
    body = b"".join((_COUNT.pack(rows_count), rows, windows))
    return _HEAD.pack(VERSION, crc32c(body)) + body


def _window_of_row(last_sequence: int, last_offset: int, offset_delta: int, timestamp_ms: int) -> bytes:
    """The window decoded from a row: its last batch, with the timestamp of the producer's last write."""
    return BATCH.pack(last_sequence, last_offset, offset_delta, timestamp_ms) if last_offset >= 0 else b""


def decode(data: BytesLike) -> list[ProducerEntry]:
    """The producers of a file, in the order of the file; raises `CorruptSnapshotError` on any damage."""
    view = memoryview(data)
    start = _HEAD.size + _COUNT.size
    if len(view) < start:
        raise CorruptSnapshotError(f"producer snapshot: {len(view)} bytes, the smallest has {start}")
    version, crc = _HEAD.unpack_from(view)
    if version != VERSION:
        raise CorruptSnapshotError(f"producer snapshot: version {version}, only {VERSION} exists")
    actual = crc32c(view[_HEAD.size :])
    if actual != crc:
        raise CorruptSnapshotError(
            f"producer snapshot: checksum {actual:#010x} of the bytes is not {crc:#010x}"
        )
    (count,) = _COUNT.unpack_from(view, _HEAD.size)
    end = start + count * _ROW.size
    if count < 0 or end > len(view):
        raise CorruptSnapshotError(f"producer snapshot: {count} producers do not fit into {len(view)} bytes")
    entries = []
    for row in _ROW.iter_unpack(view[start:end]):
        (
            producer_id,
            epoch,
            last_sequence,
            last_offset,
            offset_delta,
            timestamp_ms,
            coordinator_epoch,
            first_offset,
        ) = row
        entries.append(
            ProducerEntry(
                producer_id,
                epoch,
                coordinator_epoch,
                timestamp_ms,
                first_offset if first_offset >= 0 else None,
                _window_of_row(last_sequence, last_offset, offset_delta, timestamp_ms),
            )
        )
    if view[end : end + len(_WINDOWS_MAGIC)].tobytes() != _WINDOWS_MAGIC:
        return entries
    windows = _decode_windows(view, end)
    return [
        replace(entry, last_write_ms=found[0], window=found[1])
        if (found := windows.get(entry.producer_id)) is not None
        else entry
        for entry in entries
    ]


def _decode_windows(view: memoryview, position: int) -> dict[int, tuple[int, bytes]]:
    """(last write, packed window) by producer id."""
    windows: dict[int, tuple[int, bytes]] = {}
    try:
        _, count = _WINDOWS_HEAD.unpack_from(view, position)
        position += _WINDOWS_HEAD.size
        for _ in range(count):
            producer_id, last_write_ms, length = _WINDOW.unpack_from(view, position)
            position += _WINDOW.size
            window = view[position : position + length * BATCH.size].tobytes()
            position += len(window)
            if not 0 <= length <= WINDOW_BATCHES_MAX or len(window) != length * BATCH.size:
                raise CorruptSnapshotError(
                    f"producer snapshot: {length} batches of producer {producer_id} in {len(window)} bytes, a window "
                    f"has at most {WINDOW_BATCHES_MAX} of {BATCH.size} bytes"
                )
            windows[producer_id] = (last_write_ms, window)
    except struct.error as short:
        raise CorruptSnapshotError(
            f"producer snapshot: the windows behind the rows are cut off: {short}"
        ) from None
    return windows

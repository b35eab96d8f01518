"""Control batches: the markers that end a transaction on a partition.

Role.   Build and read the one record of a control batch.
Flow.   Each partition's leader appends the bytes of `build_marker` for a decision of the transaction coordinator.
        `core.idempotence.producer_state` and every read_committed reader use `read_marker`.
Rules.  * Key: version, type. Value of a marker: version, coordinator epoch. All big-endian, versions 0.
        * Newer versions may append fields, which are ignored, as in Kafka.
        * Other types than abort and commit (KRaft's own) are recognised and skipped, never an error.
"""

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from semel.core.records.batch import (
    CONTROL_BIT,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL_BIT,
    BatchHeader,
    set_crc,
    write_header,
)
from semel.core.records.build import iter_records
from semel.errors import CorruptBatchError
from semel.types import NO_PARTITION_LEADER_EPOCH, NO_SEQUENCE, BytesLike

_KEY: Final = Struct(">hh")
_MARKER_VALUE: Final = Struct(">hi")
_VERSION: Final = 0
# A marker's record has a fixed shape: its length, no attributes, both deltas 0, key, value, no headers. Lengths are
# zig-zag.
_MARKER_RECORD: Final = Struct(">bbbbbhhbhib")
_MARKER_BYTES: Final = HEADER_SIZE + _MARKER_RECORD.size
_MARKER_BITS: Final = TRANSACTIONAL_BIT | CONTROL_BIT
_BEFORE_KEY: Final = ((_MARKER_RECORD.size - 1) << 1, 0, 0, 0, _KEY.size << 1, _VERSION)
_BEFORE_EPOCH: Final = (_MARKER_VALUE.size << 1, _VERSION)


class ControlType(IntEnum):
    """The type of a control record. Every other number is `UNKNOWN`."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


_ABORT: Final = int(ControlType.ABORT)
_COMMIT: Final = int(ControlType.COMMIT)
_TYPES: Final = {int(kind): kind for kind in ControlType}


class EndTxnMarker(NamedTuple):
    """The end of one producer's transaction on one partition."""

    commit: bool
    coordinator_epoch: int


def build_marker(
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    commit: bool,
    timestamp_ms: int,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
) -> bytearray:
    """The control batch that ends this producer's transaction, as Kafka writes it."""
    kind = ControlType.COMMIT if commit else ControlType.ABORT
    header = BatchHeader(
        base_offset,
        _MARKER_BYTES - LOG_OVERHEAD,
        partition_leader_epoch,
        MAGIC,
        0,
        _MARKER_BITS,
        0,
        timestamp_ms,
        timestamp_ms,
        producer_id,
        producer_epoch,
        NO_SEQUENCE,
        1,
    )
    data = bytearray(_MARKER_BYTES)
    write_header(data, 0, header)
    _MARKER_RECORD.pack_into(data, HEADER_SIZE, *_BEFORE_KEY, kind, *_BEFORE_EPOCH, coordinator_epoch, 0)
    set_crc(data, 0, _MARKER_BYTES)
    return data


def read_end(buffer: BytesLike, position: int, header: BatchHeader) -> EndTxnMarker | None:
    """The marker of a control batch; None for another type, or if the cleaner removed the marker.

    Raises `CorruptBatchError` as `read_marker` does. A log may hold millions of markers, nearly all of one shape, which
    has a fast path.
    """
    count = header.records_count
    if (
        count == 1
        and header.batch_length == _MARKER_BYTES - LOG_OVERHEAD
        and header.attributes == _MARKER_BITS
    ):
        record = _MARKER_RECORD.unpack_from(buffer, position + HEADER_SIZE)
        if record[:6] == _BEFORE_KEY and record[7:9] == _BEFORE_EPOCH and record[10] == 0:
            kind = record[6]
            if kind in (_COMMIT, _ABORT):
                return EndTxnMarker(kind == _COMMIT, record[9])
    if count == 0 or read_control_type(buffer, position, header) not in (
        ControlType.ABORT,
        ControlType.COMMIT,
    ):
        return None
    return read_marker(buffer, position, header)


def read_control_type(buffer: BytesLike, position: int, header: BatchHeader) -> ControlType:
    """The type of a control batch's first record."""
    return _read(buffer, position, header)[0]


def read_marker(buffer: BytesLike, position: int, header: BatchHeader) -> EndTxnMarker:
    """The marker of a control batch; raises `CorruptBatchError` if it holds no readable one.

    Call `read_control_type` first where other control batches may occur.
    """
    kind, value = _read(buffer, position, header)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        raise CorruptBatchError(
            f"control type {kind.name} ends no transaction", base_offset=header.base_offset
        )
    if value is None or len(value) < _MARKER_VALUE.size:
        have = "no value" if value is None else f"a value of {len(value)} bytes"
        raise CorruptBatchError(
            f"marker with {have}, {_MARKER_VALUE.size} bytes are needed", base_offset=header.base_offset
        )
    version, coordinator_epoch = _MARKER_VALUE.unpack_from(value)
    if version < _VERSION:
        raise CorruptBatchError(f"marker of version {version}", base_offset=header.base_offset)
    return EndTxnMarker(commit=kind is ControlType.COMMIT, coordinator_epoch=coordinator_epoch)


def _read(buffer: BytesLike, position: int, header: BatchHeader) -> tuple[ControlType, bytes | None]:
    if not header.is_control:
        raise CorruptBatchError("not a control batch", base_offset=header.base_offset)
    record = next(iter_records(buffer, position, header), None)
    if record is None or record.key is None or len(record.key) < _KEY.size:
        raise CorruptBatchError(
            "a control batch needs a record with a key of 4 bytes", base_offset=header.base_offset
        )
    version, kind = _KEY.unpack_from(record.key)
    if version < _VERSION:
        raise CorruptBatchError(f"control key of version {version}", base_offset=header.base_offset)
    return _TYPES.get(kind, ControlType.UNKNOWN), record.value

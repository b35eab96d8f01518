"""The header of a record batch, read in place and patched in place.

Role.   Reads a batch without its records: size, offsets, producer, sequence, flags and checksum.
Flow.   `log.partition_log` reads a header per appended batch, `core.idempotence` judges it, recovery and
        fetch walk batches with `headers`. Records inside a batch: `arrow` (columns) and `build`.
Rules.  * The checksum covers the batch from the attributes on. Base offset and leader epoch are patched without it; a
          change of attributes or timestamps needs a new checksum.
        * Record bytes are never copied. Callers pass any bytes-like object and a position.
        * Only magic 2 is supported. Kafka 4 stores no other.
"""

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from semel.errors import CorruptBatchError
from semel.types import NO_PRODUCER_ID, NO_SEQUENCE, BytesLike, WritableBytes

MAGIC: Final = 2
_HEADER: Final = Struct(">qiibIhiqqqhii")
HEADER_SIZE: Final = _HEADER.size  # 61 bytes
LOG_OVERHEAD: Final = 12  # Base offset and length, which the length does not count.
SIZE_MIN: Final = HEADER_SIZE
CRC_POSITION: Final = 17
ATTRIBUTES_POSITION: Final = 21  # The checksum covers the batch from here on.
SEQUENCE_MAX: Final = 0x7FFFFFFF

_BASE_OFFSET: Final = Struct(">q")
_LEADER_EPOCH: Final = Struct(">i")
_PLACE: Final = Struct(">qii")  # Base offset, length and leader epoch; an append sets the first and the last.
_CRC: Final = Struct(">I")
_ATTRIBUTES: Final = Struct(">h")
_TIMESTAMP: Final = Struct(">q")
_MAX_TIMESTAMP_POSITION: Final = 35
RECORDS_COUNT_POSITION: Final = 57

COMPRESSION_MASK: Final = 0x07
TIMESTAMP_TYPE_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40


class TimestampType(IntEnum):
    """The source of a batch's timestamps: the producer, or the broker at the append."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The 61 bytes before the records, field by field, in wire order."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size_bytes(self) -> int:
        """The whole batch, header included."""
        return LOG_OVERHEAD + self.batch_length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id != NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record; it wraps from 2147483647 to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & SEQUENCE_MAX

    @property
    def compression(self) -> int:
        """The codec id: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & COMPRESSION_MASK

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType((self.attributes & TIMESTAMP_TYPE_BIT) >> 3)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When the cleaner may drop this batch's tombstones or markers; None before a cleaning has set it."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None


def place(
    buffer: WritableBytes, header: BatchHeader, base_offset: int, partition_leader_epoch: int
) -> BatchHeader:
    """Set base offset and leader epoch of the batch that fills the buffer; returns the new header."""
    _PLACE.pack_into(buffer, 0, base_offset, header.batch_length, partition_leader_epoch)
    return tuple.__new__(BatchHeader, (base_offset, header[1], partition_leader_epoch, *header[3:]))


def read_header(buffer: BytesLike, position: int = 0) -> BatchHeader:
    """The header at `position`; raises if the buffer ends before the header does. Other checks: `check_shape`."""
    if position < 0 or len(buffer) - position < HEADER_SIZE:
        have = max(0, len(buffer) - position)
        raise CorruptBatchError(f"{have} bytes at position {position}, a batch header needs {HEADER_SIZE}")
    return tuple.__new__(
        BatchHeader, _HEADER.unpack_from(buffer, position)
    )  # `_make` would count the fields again.


def write_header(buffer: WritableBytes, position: int, header: BatchHeader) -> None:
    """Write all fields as they are, the checksum included."""
    _HEADER.pack_into(buffer, position, *header)


def headers(
    buffer: BytesLike, position: int = 0, end: int | None = None
) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each whole batch up to `end`; stops before a batch that is cut off.

    Raises on an impossible header: wrong magic, or a length below the smallest batch.
    """
    end = len(buffer) if end is None else end
    while end - position >= HEADER_SIZE:
        header = BatchHeader._make(_HEADER.unpack_from(buffer, position))
        check_shape(header)
        if header.size_bytes > end - position:
            return
        yield position, header
        position += header.size_bytes


def check_shape(header: BatchHeader) -> None:
    """Raise unless magic, length, count and offset delta are possible for a batch."""
    if header.magic != MAGIC:
        raise CorruptBatchError(
            f"magic {header.magic}, only {MAGIC} is stored", base_offset=header.base_offset
        )
    if header.size_bytes < SIZE_MIN:
        raise CorruptBatchError(
            f"length {header.batch_length} is below the smallest batch ({SIZE_MIN - LOG_OVERHEAD})",
            base_offset=header.base_offset,
        )
    if header.last_offset_delta < 0 or header.records_count < 0:
        raise CorruptBatchError(
            f"last offset delta {header.last_offset_delta} and records count {header.records_count} "
            "must not be negative",
            base_offset=header.base_offset,
        )


def computed_crc(buffer: BytesLike, position: int, size_bytes: int) -> int:
    """The CRC-32C of a batch of `size_bytes` at `position`."""
    return crc32c(memoryview(buffer)[position + ATTRIBUTES_POSITION : position + size_bytes])


def check_crc(buffer: BytesLike, position: int, header: BatchHeader) -> None:
    """Raise unless the header's checksum matches the bytes."""
    crc = computed_crc(buffer, position, LOG_OVERHEAD + header.batch_length)
    if crc != header.crc:
        raise CorruptBatchError(
            f"checksum {crc:#010x} of the bytes is not the header's {header.crc:#010x}",
            base_offset=header.base_offset,
        )


def set_base_offset(buffer: WritableBytes, position: int, base_offset: int) -> None:
    _BASE_OFFSET.pack_into(buffer, position, base_offset)


def set_partition_leader_epoch(buffer: WritableBytes, position: int, leader_epoch: int) -> None:
    _LEADER_EPOCH.pack_into(buffer, position + LOG_OVERHEAD, leader_epoch)


def set_log_append_time(buffer: WritableBytes, position: int, header: BatchHeader, now_ms: int) -> None:
    """Stamp the batch with the broker's time: flag, max timestamp and a new checksum.

    The base timestamp stays, as in Kafka: readers give all records of such a batch its max timestamp.
    """
    attributes = header.attributes | TIMESTAMP_TYPE_BIT
    _ATTRIBUTES.pack_into(buffer, position + ATTRIBUTES_POSITION, attributes)
    _TIMESTAMP.pack_into(buffer, position + _MAX_TIMESTAMP_POSITION, now_ms)
    set_crc(buffer, position, header.size_bytes)


def set_max_timestamp(buffer: WritableBytes, position: int, header: BatchHeader, timestamp_ms: int) -> None:
    """Correct the largest timestamp, and with it the checksum."""
    _TIMESTAMP.pack_into(buffer, position + _MAX_TIMESTAMP_POSITION, timestamp_ms)
    set_crc(buffer, position, header.size_bytes)


def set_crc(buffer: WritableBytes, position: int, size_bytes: int) -> None:
    """Compute and store the checksum."""
    _CRC.pack_into(buffer, position + CRC_POSITION, computed_crc(buffer, position, size_bytes))

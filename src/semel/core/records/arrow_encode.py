"""Arrow columns to record batches, for producers of many records.

Role.   `encode_batches` turns columns into batches of at most a size, `encode_batch` into exactly one, without
        an object per record.
Flow.   Columns -> addresses -> `write_kernels.plan` (how many rows fit) -> `write_kernels.write` -> compression,
        header, checksum. The other way: `arrow`.
Rules.  * Columns are found by name: key, value, timestamp, headers; others are ignored. An absent column is null, and
          an absent or null timestamp becomes `timestamp_ms`.
        * Bytes and text, with 32- or 64-bit offsets, are read in place; views, fixed sizes and dictionaries are
          converted once; any other type is refused, because the caller decides how a number becomes bytes.
        * The bytes equal those of the Java client for the same records.
        * The size limit applies before compression; a record above the limit gets its own batch.
"""

from collections.abc import Iterator
from ctypes import addressof, c_int64
from typing import Any, Final, NamedTuple

import pyarrow as pa

from semel.core.records import compression as codecs
from semel.core.records import write_kernels as kernels
from semel.core.records.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    SEQUENCE_MAX,
    BatchHeader,
    set_crc,
    write_header,
)
from semel.core.records.build import attributes_of
from semel.core.records.codecs import Compression
from semel.errors import ConfigError, InvalidRecordError, RecordTooLargeError
from semel.types import (
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    WritableBytes,
)

BATCH_SIZE_BYTES: Final = 1 << 20
_BATCH_SIZE_MAX: Final = kernels.SECTION_SIZE_MAX + HEADER_SIZE

_Plan: Final = c_int64 * kernels.PLAN_SLOTS
_Slots: Final = c_int64 * kernels.SOURCE_SLOTS
_REASONS: Final = {
    kernels.BAD_CELL: "a cell points outside its column: the Arrow array is damaged",
    kernels.BAD_TIMESTAMP: "its timestamp is negative (-1 means none)",
    kernels.BAD_HEADER_KEY: "a header has no key",
}


class EncodedBatch(NamedTuple):
    """A batch, how many rows it holds and their largest timestamp."""

    data: WritableBytes
    records_count: int
    max_timestamp: int


def encode_batch(
    rows: pa.RecordBatch | pa.Table,
    *,
    timestamp_ms: int = NO_TIMESTAMP,
    base_offset: int = 0,
    compression: int = 0,
    compression_level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
) -> WritableBytes:
    """All rows as one batch; raises `RecordTooLargeError` if they do not fit one."""
    if rows.num_rows == 0:
        raise InvalidRecordError("no rows: a batch has at least one record")
    batches = encode_batches(
        rows,
        batch_size_bytes=_BATCH_SIZE_MAX,
        timestamp_ms=timestamp_ms,
        compression=compression,
        compression_level=compression_level,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
        partition_leader_epoch=partition_leader_epoch,
        base_offset=base_offset,
    )
    batch = next(batches)
    if batch.records_count != rows.num_rows:
        raise RecordTooLargeError(
            f"{rows.num_rows} rows do not fit one batch of {_BATCH_SIZE_MAX} bytes, {batch.records_count} do: "
            "use encode_batches"
        )
    return batch.data


def encode_batches(
    rows: pa.RecordBatch | pa.Table,
    *,
    batch_size_bytes: int = BATCH_SIZE_BYTES,
    timestamp_ms: int = NO_TIMESTAMP,
    base_offset: int = 0,
    compression: int = 0,
    compression_level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    checksum: bool = True,
) -> Iterator[EncodedBatch]:
    """The rows as batches of at most `batch_size_bytes` each, one by one.

    Every batch has the same base offset, which a broker replaces. Sequences go on from batch to batch. Without
    `checksum` the field is 0, for a caller that still changes the header.
    """
    if not HEADER_SIZE < batch_size_bytes <= _BATCH_SIZE_MAX:
        raise ConfigError(
            f"batch_size_bytes {batch_size_bytes}: it must be between {HEADER_SIZE + 1} and {_BATCH_SIZE_MAX}"
        )
    attributes = attributes_of(compression=codecs.known(compression), transactional=transactional)
    row = 0
    for part in _parts(rows):
        source = _Source(part, timestamp_ms)
        for planned in source.plans(batch_size_bytes - HEADER_SIZE, row):
            header = BatchHeader(
                base_offset=base_offset,
                batch_length=0,
                partition_leader_epoch=partition_leader_epoch,
                magic=MAGIC,
                crc=0,
                attributes=attributes,
                last_offset_delta=planned.rows - 1,
                base_timestamp=planned.base_timestamp,
                max_timestamp=planned.max_timestamp,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=base_sequence,
                records_count=planned.rows,
            )
            batch = _framed(source, planned, header, compression_level)
            if checksum:
                set_crc(batch, 0, len(batch))
            yield EncodedBatch(batch, planned.rows, planned.max_timestamp)
            if base_sequence != NO_SEQUENCE:
                base_sequence = (base_sequence + planned.rows) & SEQUENCE_MAX
        row += part.num_rows


class _Planned(NamedTuple):
    """Rows that make one batch."""

    row: int
    rows: int
    size: int
    base_timestamp: int
    max_timestamp: int


def _framed(source: "_Source", planned: _Planned, header: BatchHeader, level: int | None) -> WritableBytes:
    """The records written and compressed, and the header before them, without its checksum."""
    batch: WritableBytes
    if header.compression == Compression.NONE:
        batch = source.written(planned, HEADER_SIZE)
    else:
        batch = bytearray(HEADER_SIZE)
        batch += codecs.compress(header.compression, source.written(planned, 0), level=level)
    if len(batch) > _BATCH_SIZE_MAX:
        raise RecordTooLargeError(
            f"{planned.rows} rows are {len(batch)} bytes compressed, a batch has at most {_BATCH_SIZE_MAX}"
        )
    write_header(batch, 0, header._replace(batch_length=len(batch) - LOG_OVERHEAD))
    return batch


def _parts(rows: pa.RecordBatch | pa.Table) -> list[pa.RecordBatch]:
    """Rows in as few contiguous pieces as Arrow allows."""
    if isinstance(rows, pa.Table):
        parts: list[pa.RecordBatch] = rows.combine_chunks().to_batches()
        return parts
    return [rows]


def allocated(size_bytes: int) -> memoryview:
    """Memory of Arrow's pool, which reuses freed memory. A large `bytearray` is mapped anew each time, and its page
    faults cost more than writing the records."""
    return memoryview(pa.allocate_buffer(size_bytes)).cast("B")


class _Source:
    """The addresses of the columns of contiguous rows, and the arrays that own the memory."""

    __slots__ = ("_address", "_arrays", "_plan", "_plan_address", "_slots", "rows")

    def __init__(self, part: pa.RecordBatch, timestamp_ms: int) -> None:
        self.rows = part.num_rows
        self._arrays: list[pa.Array] = []
        self._plan = _Plan()
        self._slots = _Slots()
        self._plan_address = addressof(self._plan)
        self._address = addressof(self._slots)
        names = part.schema.names
        if "key" not in names and "value" not in names:
            raise InvalidRecordError(
                f"columns {', '.join(names) or '(none)'}: there must be a key or a value column"
            )
        if "key" in names:
            self._use_cells(kernels.SOURCE_KEY, "key", part.column("key"))
        if "value" in names:
            self._use_cells(kernels.SOURCE_VALUE, "value", part.column("value"))
        if "headers" in names:
            self._use_headers(part.column("headers"))
        self._slots[kernels.SOURCE_TIMESTAMP] = timestamp_ms
        if "timestamp" in names:
            self._use_timestamps(part.column("timestamp"), timestamp_ms)

    def plans(self, room: int, rows_before: int) -> Iterator[_Planned]:
        """Cut the rows into batches whose records take at most `room` bytes."""
        row = 0
        while row < self.rows:
            count = kernels.PLAN.run(self._address, row, self.rows - row, room, self._plan_address)
            at, size, base_timestamp, max_timestamp = self._plan
            if count == kernels.TOO_LONG:
                raise RecordTooLargeError(
                    f"row {rows_before + at} is longer than a batch can be ({_BATCH_SIZE_MAX} bytes)"
                )
            if count < 0:
                raise InvalidRecordError(f"row {rows_before + at}: {_REASONS[count]}")
            yield _Planned(row, count, size, base_timestamp, max_timestamp)
            row += count

    def written(self, planned: _Planned, position: int) -> memoryview:
        """Planned rows, from `position` on."""
        memory = allocated(position + planned.size)
        address = pa.py_buffer(memory).address + position
        kernels.WRITE.run(self._address, planned.row, planned.rows, planned.base_timestamp, address)
        return memory

    def _use_cells(self, slot: int, name: str, array: pa.Array) -> None:
        array = _as_bytes(name, array)
        if array is None:
            return
        array.validate()
        self._arrays.append(array)
        validity, offsets, data = array.buffers()
        wide = pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)
        self._describe(slot, array, validity, offsets, data, data.size if data else 0, wide)

    def _use_headers(self, array: pa.Array) -> None:
        if pa.types.is_null(array.type):
            return
        fields = _header_fields(array.type)
        if fields is None:
            raise InvalidRecordError(
                f"column headers has type {array.type}: it must be a list of structs of key (text) and value (bytes)"
            )
        array.validate()
        self._arrays.append(array)
        validity, offsets = array.buffers()[:2]
        pairs = array.values
        if pairs.null_count:
            raise InvalidRecordError("column headers: a header is null; leave it out or give it a key")
        self._describe(
            kernels.SOURCE_HEADERS,
            array,
            validity,
            offsets,
            None,
            len(pairs),
            pa.types.is_large_list(array.type),
        )
        self._use_cells(kernels.SOURCE_HEADER_KEY, "headers.key", pairs.field(fields[0]))
        self._use_cells(kernels.SOURCE_HEADER_VALUE, "headers.value", pairs.field(fields[1]))

    def _use_timestamps(self, array: pa.Array, timestamp_ms: int) -> None:
        if pa.types.is_null(array.type):
            return
        if pa.types.is_timestamp(array.type):
            array = array.cast(pa.timestamp("ms", array.type.tz), safe=False)
        elif not pa.types.is_integer(array.type):
            raise InvalidRecordError(
                f"column timestamp has type {array.type}: it must be a timestamp, or milliseconds as integers"
            )
        if array.type != pa.int64():
            array = array.cast(pa.int64())
        if array.null_count:
            array = array.fill_null(timestamp_ms)
        if len(array):
            self._arrays.append(array)
            self._slots[kernels.SOURCE_TIMESTAMPS] = array.buffers()[1].address + 8 * array.offset

    def _describe(
        self, slot: int, array: pa.Array, validity: Any, offsets: Any, data: Any, data_size: int, wide: bool
    ) -> None:
        if len(array) == 0:
            return
        slots = self._slots
        slots[slot + kernels.CELLS_OFFSETS] = offsets.address
        slots[slot + kernels.CELLS_DATA] = data.address if data else 0
        slots[slot + kernels.CELLS_DATA_SIZE] = data_size
        slots[slot + kernels.CELLS_VALIDITY] = validity.address if validity and array.null_count else 0
        slots[slot + kernels.CELLS_FIRST] = array.offset
        slots[slot + kernels.CELLS_WIDE] = wide


def _as_bytes(name: str, array: pa.Array) -> pa.Array | None:
    """A column of bytes or text with offsets; None if all of it is null."""
    kind = array.type
    if pa.types.is_null(kind):
        return None
    if pa.types.is_dictionary(kind):
        array = array.dictionary_decode()
        kind = array.type
    is_plain = (pa.types.is_binary, pa.types.is_string, pa.types.is_large_binary, pa.types.is_large_string)
    if any(test(kind) for test in is_plain):
        return array
    if pa.types.is_fixed_size_binary(kind) or pa.types.is_binary_view(kind) or pa.types.is_string_view(kind):
        return array.cast(pa.large_binary())
    raise InvalidRecordError(f"column {name} has type {kind}: cast it to binary or string first")


def _header_fields(kind: pa.DataType) -> tuple[int, int] | None:
    """Field indexes of key and value in the structs of a headers column; None for another type."""
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or not pa.types.is_struct(
        kind.value_type
    ):
        return None
    key, value = kind.value_type.get_field_index("key"), kind.value_type.get_field_index("value")
    return (key, value) if key >= 0 and value >= 0 else None

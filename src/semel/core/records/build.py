"""Records as Python objects: build a small batch, read it back, and validate a batch's records.

Role.   Encodes and decodes batches in plain Python: for markers, internal topics, dumps and a producer's single
        records, and as the reference the kernels are compared with. Columns of many records: `arrow`.
Flow.   The broker calls `check_records` before it appends. The check uses the compiled scan once `load_kernels` has run
        (on a thread: it takes most of a second), and the Python parser until then.
Rules.  * `build_batch` writes the same bytes as the Java client for the same input, if uncompressed.
        * `parse` is the only parser in plain Python; `kernels` must agree with it on any bytes, reasons for refusal
          included.
        * A producer's batch numbers its records 0, 1, 2, …; compaction leaves gaps, which readers of a log allow
          (`gaps=True`).
        * The module imports neither numba nor pyarrow.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from semel.core.records import compression as codecs
from semel.core.records.batch import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    TimestampType,
    set_crc,
    write_header,
)
from semel.core.records.flaws import HEADER_MIN, RECORD_BODY_MIN, RECORD_MIN, Finding, Flaw, corrupt
from semel.core.records.varint import CUT, INT_BITS, LONG_BITS, read_varint, varint
from semel.errors import CorruptBatchError, InvalidRecordError, RecordTooLargeError
from semel.types import (
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BytesLike,
)

_LONG_MIN: Final = -(1 << 63)
_LONG_MAX: Final = (1 << 63) - 1
_LONGER: Final = 0x80  # Set in each byte of a number but its last.
_INT_MAX: Final = (1 << 31) - 1


class RecordInput(NamedTuple):
    """A record to be written. Null and empty keys and values differ."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int = NO_TIMESTAMP
    headers: Sequence[tuple[str, bytes | None]] = ()


class Record(NamedTuple):
    """A record read back. `sequence` is -1 where the batch has none."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    sequence: int


class ParsedRecord(NamedTuple):
    """Positions and lengths of a record's parts in its section; a length of -1 is null."""

    timestamp_delta: int
    offset_delta: int
    key: tuple[int, int]
    value: tuple[int, int]
    headers: tuple[tuple[int, int, int, int], ...]


def build_batch(
    records: Sequence[RecordInput],
    *,
    base_offset: int = 0,
    compression: int = 0,
    compression_level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    log_append_time_ms: int | None = None,
    delete_horizon_ms: int | None = None,
    offset_deltas: Sequence[int] | None = None,
    last_offset_delta: int | None = None,
) -> bytearray:
    """The bytes of a batch.

    `log_append_time_ms` is the time of a LOG_APPEND_TIME batch. The last three arguments are for batches rewritten by
    compaction: records keep their offsets, so there may be gaps, or no records at all.
    """
    if offset_deltas is None:
        offset_deltas = range(len(records))
    if last_offset_delta is None:
        last_offset_delta = offset_deltas[-1] if offset_deltas else 0
    base_timestamp = records[0].timestamp_ms if records else NO_TIMESTAMP
    if delete_horizon_ms is not None:
        base_timestamp = delete_horizon_ms
    plain = bytearray()
    max_timestamp = NO_TIMESTAMP
    for record, offset_delta in zip(records, offset_deltas, strict=True):
        timestamp_ms = record.timestamp_ms
        if timestamp_ms < NO_TIMESTAMP:
            raise InvalidRecordError(
                f"timestamp {timestamp_ms} of record {offset_delta} is negative (-1 means none)"
            )
        if timestamp_ms > max_timestamp:
            max_timestamp = timestamp_ms
        plain += _record_bytes(record, timestamp_ms - base_timestamp, offset_delta)
    section = codecs.compress(compression, plain, level=compression_level) if compression else plain
    size_bytes = HEADER_SIZE + len(section)
    if size_bytes - LOG_OVERHEAD > _INT_MAX:
        raise RecordTooLargeError(
            f"{len(records)} records of {size_bytes} bytes, a batch has at most {_INT_MAX}"
        )
    if timestamp_type is TimestampType.LOG_APPEND_TIME and log_append_time_ms is not None:
        max_timestamp = log_append_time_ms
    batch = bytearray(HEADER_SIZE)
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=size_bytes - LOG_OVERHEAD,
        partition_leader_epoch=partition_leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes_of(
            compression=compression,
            timestamp_type=timestamp_type,
            transactional=transactional,
            control=control,
            delete_horizon=delete_horizon_ms is not None,
        ),
        last_offset_delta=last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        records_count=len(records),
    )
    write_header(batch, 0, header)
    batch += section
    set_crc(batch, 0, size_bytes)
    return batch


def attributes_of(
    *,
    compression: int,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    transactional: bool = False,
    control: bool = False,
    delete_horizon: bool = False,
) -> int:
    """The flags of a batch header."""
    return (
        (compression & COMPRESSION_MASK)
        | (TIMESTAMP_TYPE_BIT if timestamp_type is TimestampType.LOG_APPEND_TIME else 0)
        | (TRANSACTIONAL_BIT if transactional else 0)
        | (CONTROL_BIT if control else 0)
        | (DELETE_HORIZON_BIT if delete_horizon else 0)
    )


def _record_bytes(record: RecordInput, timestamp_delta: int, offset_delta: int) -> bytes:
    key, value, _timestamp_ms, headers = record
    parts: list[BytesLike] = [
        b"\x00",  # The attributes of a record: none are defined.
        varint(timestamp_delta),
        varint(offset_delta),
        varint(-1 if key is None else len(key)),
        key or b"",
        varint(-1 if value is None else len(value)),
        value or b"",
        varint(len(headers)),
    ]
    for name, content in headers:
        encoded = name.encode()
        parts += (
            varint(len(encoded)),
            encoded,
            varint(-1 if content is None else len(content)),
            content or b"",
        )
    body = b"".join(parts)
    return varint(len(body)) + body


def records_section(
    buffer: BytesLike, position: int, header: BatchHeader, *, size_max: int = codecs.DECOMPRESSED_SIZE_MAX
) -> BytesLike:
    """The uncompressed bytes of a batch's records: a slice of the buffer, or the decompressed section."""
    size_bytes = LOG_OVERHEAD + header.batch_length
    end = position + size_bytes
    if size_bytes < HEADER_SIZE or end > len(buffer):
        raise CorruptBatchError(
            f"length {header.batch_length} with {len(buffer) - position} bytes there",
            base_offset=header.base_offset,
        )
    section = memoryview(buffer)[position + HEADER_SIZE : end]
    if not header.attributes & COMPRESSION_MASK:
        return section
    return codecs.decompress(header.compression, section, size_max=size_max, base_offset=header.base_offset)


def iter_records(buffer: BytesLike, position: int, header: BatchHeader) -> Iterator[Record]:
    """The batch's records one by one; raises `CorruptBatchError` at the first invalid one.

    Records of a LOG_APPEND_TIME batch carry its max timestamp, as Kafka's consumers show it. A header key that
    is not UTF-8 is shown with replacement characters.
    """
    data = records_section(buffer, position, header)
    stamped = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    has_sequence = header.base_sequence != NO_SEQUENCE
    for record in parse(data, header, gaps=True):
        yield Record(
            offset=header.base_offset + record.offset_delta,
            timestamp_ms=header.max_timestamp if stamped else header.base_timestamp + record.timestamp_delta,
            key=_taken(data, *record.key),
            value=_taken(data, *record.value),
            headers=_headers_taken(data, record) if record.headers else (),
            sequence=(header.base_sequence + record.offset_delta) & _INT_MAX if has_sequence else NO_SEQUENCE,
        )


def _headers_taken(data: BytesLike, record: ParsedRecord) -> tuple[tuple[str, bytes | None], ...]:
    return tuple(
        (bytes(data[key : key + key_length]).decode(errors="replace"), _taken(data, value, value_length))
        for key, key_length, value, value_length in record.headers
    )


def _taken(data: BytesLike, start: int, length: int) -> bytes | None:
    return None if length < 0 else bytes(data[start : start + length])


class RecordFacts(NamedTuple):
    """Facts a scan of valid records collects; -1 where no record qualifies."""

    largest_timestamp: int  # For CREATE_TIME the header's max timestamp must equal it.
    smallest_timestamp: int  # Among the records that have one.
    first_without_key: int  # An index.


def check_records(buffer: BytesLike, position: int, header: BatchHeader, *, gaps: bool = False) -> int:
    """Raise `CorruptBatchError` unless the records match the header; returns their largest timestamp.

    Checks lengths, offset deltas, header counts and trailing bytes. The checksum: `batch.check_crc`.
    """
    return survey_records(buffer, position, header, gaps=gaps).largest_timestamp


def survey_records(
    buffer: BytesLike, position: int, header: BatchHeader, *, gaps: bool = False
) -> RecordFacts:
    """As `check_records`, with all collected facts."""
    return _survey(records_section(buffer, position, header), header, gaps)


def survey_section(section: BytesLike, header: BatchHeader) -> RecordFacts:
    """As `survey_records`, for a producer's uncompressed records."""
    return _survey(section, header, False)


def survey_in_python(data: BytesLike, header: BatchHeader, gaps: bool) -> RecordFacts:
    """The survey of plain records without kernels."""
    largest = smallest = first_without_key = -1
    for index, record in enumerate(parse(data, header, gaps=gaps)):
        timestamp = header.base_timestamp + record.timestamp_delta
        if index == 0 or timestamp > largest:
            largest = timestamp
        if timestamp != NO_TIMESTAMP and (smallest == NO_TIMESTAMP or timestamp < smallest):
            smallest = timestamp
        if first_without_key < 0 and record.key[1] < 0:
            first_without_key = index
    return RecordFacts(largest, smallest, first_without_key)


_survey = survey_in_python


def load_kernels() -> None:
    """Load the compiled scan (compile it without a cache), and use it from now on.

    Takes half a second or longer; safe to call on a thread, and more than once.
    """
    global _survey  # noqa: PLW0603  # One process, one set of kernels: the switch is the module's.
    from semel.core.records import kernels, search
    from semel.core.records.memory import load

    load(kernels.SCAN)
    search.load_kernels()
    _survey = kernels.survey


def kernels_loaded() -> bool:
    """Whether `check_records` runs compiled."""
    return _survey is not survey_in_python


def parse(data: BytesLike, header: BatchHeader, *, gaps: bool) -> Iterator[ParsedRecord]:
    """The parts of each record; raises `CorruptBatchError` at the first flaw.

    The checks and their order equal those of `kernels`.
    """
    end = len(data)
    count = header.records_count
    fits_offsets = gaps or (count > 0 and header.last_offset_delta == count - 1)
    if count < 0 or count > end // RECORD_MIN or not fits_offsets:
        raise corrupt(Finding(Flaw.COUNT, value=count), header.base_offset)
    reader = _RecordReader(data, end, header)
    next_delta = 0
    for index in range(count):
        record = reader.read(index, next_delta, header.last_offset_delta if gaps else next_delta)
        next_delta = record.offset_delta + 1
        yield record
    if reader.position != end:
        raise corrupt(Finding(Flaw.BATCH_REST, value=end - reader.position), header.base_offset)


class _RecordReader:
    """Reads the records of one section, one after the other."""

    __slots__ = ("base_offset", "base_timestamp", "data", "end", "index", "position", "record_end")

    def __init__(self, data: BytesLike, end: int, header: BatchHeader) -> None:
        self.data = data
        self.end = end
        self.base_offset = header.base_offset
        self.base_timestamp = header.base_timestamp
        self.position = 0
        self.record_end = end
        self.index = 0

    def read(self, index: int, delta_min: int, delta_max: int) -> ParsedRecord:
        """The next record, whose offset delta must lie within the two."""
        self.index = index
        self.record_end = self.end
        if self.position == self.end:
            raise self._flawed(Flaw.RECORDS_MISSING, self.position, 0)
        at = self.position
        length = self._number(INT_BITS)
        if length < RECORD_BODY_MIN or length > self.end - self.position:
            raise self._flawed(Flaw.RECORD_LENGTH, at, length)
        self.record_end = self.position + length
        self.position += 1  # The attributes, which Kafka ignores.
        at = self.position
        timestamp_delta = self._number(LONG_BITS)
        if not _LONG_MIN <= self.base_timestamp + timestamp_delta <= _LONG_MAX:
            raise self._flawed(Flaw.TIMESTAMP, at, timestamp_delta)
        at = self.position
        offset_delta = self._number(INT_BITS)
        if not delta_min <= offset_delta <= delta_max:
            raise self._flawed(Flaw.OFFSET_DELTA, at, offset_delta)
        key = self._bytes(-1, Flaw.KEY_LENGTH)
        value = self._bytes(-1, Flaw.VALUE_LENGTH)
        at = self.position
        header_count = self._number(INT_BITS)
        if not 0 <= header_count <= (self.record_end - self.position) // HEADER_MIN:
            raise self._flawed(Flaw.HEADER_COUNT, at, header_count)
        headers: tuple[tuple[int, int, int, int], ...] = ()
        if header_count:
            headers = tuple(
                self._bytes(0, Flaw.HEADER_KEY_LENGTH) + self._bytes(-1, Flaw.HEADER_VALUE_LENGTH)
                for _ in range(header_count)
            )
        if self.position != self.record_end:
            raise self._flawed(Flaw.RECORD_REST, self.position, self.record_end - self.position)
        return ParsedRecord(timestamp_delta, offset_delta, key, value, headers)

    def _number(self, bits: int) -> int:
        at = self.position
        if at < self.record_end and (byte := self.data[at]) < _LONGER:
            self.position = at + 1  # Most have one byte.
            return (byte >> 1) ^ -(byte & 1)
        value, position = read_varint(self.data, at, self.end, bits)
        if position < 0:
            raise self._flawed(Flaw.NUMBER_CUT if position == CUT else Flaw.NUMBER_TOO_LARGE, at, 0)
        if position > self.record_end:
            raise self._flawed(Flaw.NUMBER_CUT, at, 0)
        self.position = position
        return value

    def _bytes(self, length_min: int, flaw: Flaw) -> tuple[int, int]:
        at = self.position
        length = self._number(INT_BITS)
        if length < length_min or length > self.record_end - self.position:
            raise self._flawed(flaw, at, length)
        start = self.position
        self.position += max(length, 0)
        return start, length

    def _flawed(self, flaw: Flaw, position: int, value: int) -> CorruptBatchError:
        return corrupt(Finding(flaw, self.index, position, value), self.base_offset)

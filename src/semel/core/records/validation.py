"""A leader's checks of a produced batch: Kafka's checks, in Kafka's order, with Kafka's codes.

Role.   From the bytes of one partition in a Produce request to a batch ready for its offsets, or a refusal.
Flow.   `log.partition_log.append` calls `validate` first. Sequence and epoch are judged after it (`core.idempotence`);
        a follower's fetched batches are not checked again, because their leader has checked them.
Rules.  * A client sends exactly one batch, magic 2, numbered from 0, without control records.
        * Damage is told from a mistake: if the checksum is wrong, the fields it covers are not judged, because clients
          retry CORRUPT_MESSAGE and not INVALID_RECORD.
        * The checksum and every record must match the header, compressed or not.
        * The largest timestamp in the header is corrected if the records say otherwise.
        * If the topic stores another codec than the producer used, the records are recompressed, and the size limit
          applies to the result too.
        * `inspect` needs only the batch and the topic's rules, so a thread may run it. `finish` is quick: it stamps the
          broker's time at the append, in log order.
        * A refusal names at most `RECORD_ERRORS_MAX` records: a producer with a wrong clock may have a million bad
          ones.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from semel.core.records import batch, build, compression, search
from semel.core.records.batch import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    TimestampType,
)
from semel.core.records.build import RecordFacts
from semel.errors import CorruptBatchError, ErrorCode, Refuse, UnsupportedCompressionError
from semel.types import NO_PRODUCER_ID, NO_TIMESTAMP, BytesLike

RECORD_ERRORS_MAX: Final = 10
_LONG_MIN: Final = -(1 << 63)
_LONG_MAX: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class BatchRules:
    """The topic settings a batch is checked against."""

    max_message_bytes: int
    segment_bytes: int
    timestamp_type: TimestampType
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    compression_type: int | None
    keys_required: bool
    compression_level: int | None = None
    """Compression level for batches that need another codec (`compression_type`)."""


class ValidBatch(NamedTuple):
    """A batch that may be appended. `data` is the caller's buffer unless it had to be recompressed."""

    data: bytearray | memoryview
    header: BatchHeader


class Inspected(NamedTuple):
    """A batch with valid bytes and records, not stamped yet."""

    data: bytearray | memoryview
    header: BatchHeader
    largest_timestamp: int


class Inspection(NamedTuple):
    """The result of `inspect` with these rules, computed before the append."""

    rules: BatchRules
    outcome: Inspected | Refuse


def validate(
    data: bytearray | memoryview, rules: BatchRules, now_ms: int, *, from_client: bool = True
) -> ValidBatch | Refuse:
    """Check one batch for appending; `from_client` is False for batches the broker itself writes."""
    inspected = inspect(data, rules, now_ms, from_client=from_client)
    return inspected if isinstance(inspected, Refuse) else finish(inspected, rules, now_ms)


def inspect(
    data: bytearray | memoryview, rules: BatchRules, now_ms: int, *, from_client: bool = True
) -> Inspected | Refuse:
    """Check every byte of a batch, and recompress its records if the topic stores another codec."""
    if len(data) < HEADER_SIZE:
        return _invalid(f"{len(data)} bytes hold no batch: its header alone has {HEADER_SIZE}")
    try:
        header = batch.read_header(data)
        if not _is_sound(header, len(data), rules, from_client):
            return _why_unsound(data, header, rules, from_client)
        if from_client:
            batch.check_crc(data, 0, header)
    except CorruptBatchError as error:
        return Refuse(ErrorCode.CORRUPT_MESSAGE, str(error))
    largest_timestamp = header.max_timestamp
    if from_client:  # The broker's own batches are valid by construction.
        try:
            section = build.records_section(data, 0, header)
            facts = build.survey_section(section, header)
        except CorruptBatchError as error:
            return Refuse(ErrorCode.INVALID_RECORD, str(error))
        except UnsupportedCompressionError as error:
            return Refuse(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, str(error))
        if not _are_acceptable(facts, rules, now_ms):
            return _why_unacceptable(section, header, rules, now_ms)
        largest_timestamp = facts.largest_timestamp
    codec = rules.compression_type
    if codec is not None and not header.is_control and codec != header.compression:
        data, header = _recompress(data, header, codec, rules.compression_level)
        if header.size_bytes > rules.max_message_bytes:
            return _too_large(header.size_bytes, rules, "after recompression ")
    if len(data) > rules.segment_bytes:
        return Refuse(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"the batch has {header.size_bytes} bytes, a segment holds {rules.segment_bytes} (segment.bytes)",
        )
    return tuple.__new__(Inspected, (data, header, largest_timestamp))


def finish(inspected: Inspected, rules: BatchRules, now_ms: int) -> ValidBatch:
    """Set the times of an inspected batch: the broker's, or the largest of its records."""
    data, header, largest_timestamp = inspected
    if rules.timestamp_type is TimestampType.LOG_APPEND_TIME:
        batch.set_log_append_time(data, 0, header, now_ms)
        header = batch.read_header(data)
    elif largest_timestamp != header.max_timestamp:
        batch.set_max_timestamp(data, 0, header, largest_timestamp)
        header = batch.read_header(data)
    return tuple.__new__(ValidBatch, (data, header))


def _is_sound(header: BatchHeader, size: int, rules: BatchRules, from_client: bool) -> bool:
    """Whether the header is acceptable: one fast test per field, because every batch passes here."""
    (
        base_offset,
        length,
        _,
        magic,
        _,
        attributes,
        last_offset_delta,
        _,
        _,
        producer_id,
        _,
        base_sequence,
        count,
    ) = header
    return (
        magic == MAGIC
        and length + LOG_OVERHEAD == size
        and HEADER_SIZE <= size <= rules.max_message_bytes
        and 0 < count == last_offset_delta + 1
        and (
            not from_client
            or (
                base_offset == 0
                and not attributes & (CONTROL_BIT | TIMESTAMP_TYPE_BIT)
                and (producer_id == NO_PRODUCER_ID or base_sequence >= 0)
            )
        )
    )


def _why_unsound(
    data: bytearray | memoryview, header: BatchHeader, rules: BatchRules, from_client: bool
) -> Refuse:
    """The code and message for the first flaw in Kafka's order, after `_is_sound` refused."""
    size = len(data)
    if header.size_bytes < HEADER_SIZE or not 0 <= header.magic <= MAGIC:
        return Refuse(
            ErrorCode.CORRUPT_MESSAGE, f"length {header.batch_length} and magic {header.magic} are no batch's"
        )
    if header.size_bytes > size:
        return _invalid(f"the batch announces {header.size_bytes} bytes, {size} are there")
    if header.magic != MAGIC:
        return _invalid(f"magic {header.magic} is not served: only message format {MAGIC} is")
    if header.size_bytes < size:
        return _invalid(
            f"{size - header.size_bytes} bytes follow the batch: exactly one per partition is allowed"
        )
    if from_client and header.base_offset != 0:
        return _invalid(f"base offset {header.base_offset}: a producer numbers its batch from 0")
    if size > rules.max_message_bytes:
        return _too_large(size, rules)
    batch.check_crc(data, 0, header)
    if header.records_count < 1 or header.records_count != header.last_offset_delta + 1:
        return _invalid(
            f"{header.records_count} records do not fit a last offset delta of {header.last_offset_delta}"
        )
    if header.is_control:
        return _invalid("control records are written by brokers only")
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return Refuse(
            ErrorCode.INVALID_TIMESTAMP,
            "the batch claims the broker's append time: producers send create time",
        )
    return _invalid(f"base sequence {header.base_sequence} of producer {header.producer_id} is negative")


def _are_acceptable(facts: RecordFacts, rules: BatchRules, now_ms: int) -> bool:
    """Whether the topic accepts every record."""
    if rules.keys_required and facts.first_without_key >= 0:
        return False
    if rules.timestamp_type is not TimestampType.CREATE_TIME:
        return True
    largest, smallest = facts.largest_timestamp, facts.smallest_timestamp
    return (largest == NO_TIMESTAMP or largest - now_ms <= rules.timestamp_after_max_ms) and (
        smallest == NO_TIMESTAMP or now_ms - smallest <= rules.timestamp_before_max_ms
    )


def _why_unacceptable(section: BytesLike, header: BatchHeader, rules: BatchRules, now_ms: int) -> Refuse:
    """The refusal after `_are_acceptable` failed, with the first bad records: a client may resend the others."""
    by_clock = rules.timestamp_type is TimestampType.CREATE_TIME
    listed, total, out_of_time = search.outlaws(
        section,
        header,
        keys_required=rules.keys_required,
        timestamp_min=max(_LONG_MIN, now_ms - rules.timestamp_before_max_ms) if by_clock else _LONG_MIN,
        timestamp_max=min(_LONG_MAX, now_ms + rules.timestamp_after_max_ms) if by_clock else _LONG_MAX,
        count_max=RECORD_ERRORS_MAX,
    )
    errors = [
        (index, "has no key: a compacted topic needs one" if keyless else _flaw_of_time(time, rules, now_ms))
        for index, time, keyless in listed
    ]
    first, why = errors[0]
    more = f"; {total - 1} more are refused" if total > 1 else ""
    return Refuse(
        # As in Kafka, one refused timestamp decides the code.
        ErrorCode.INVALID_TIMESTAMP if out_of_time else ErrorCode.INVALID_RECORD,
        f"record {first} {why}{more}",
        tuple((index, f"the record {why}") for index, why in errors),
    )


def _flaw_of_time(timestamp_ms: int, rules: BatchRules, now_ms: int) -> str:
    if timestamp_ms > now_ms:
        return (
            f"has timestamp {timestamp_ms}, more than {rules.timestamp_after_max_ms} ms ahead of the broker's clock "
            f"{now_ms} (message.timestamp.after.max.ms)"
        )
    return (
        f"has timestamp {timestamp_ms}, more than {rules.timestamp_before_max_ms} ms before the broker's clock "
        f"{now_ms} (message.timestamp.before.max.ms)"
    )


def _recompress(
    data: bytearray | memoryview, header: BatchHeader, codec: int, level: int | None
) -> tuple[bytearray, BatchHeader]:
    """The same records in another codec: record bytes do not change, only how their section is packed."""
    section = compression.compress(codec, build.records_section(data, 0, header), level=level)
    size_bytes = HEADER_SIZE + len(section)
    header = header._replace(
        batch_length=size_bytes - LOG_OVERHEAD, attributes=(header.attributes & ~COMPRESSION_MASK) | codec
    )
    packed = bytearray(HEADER_SIZE)
    batch.write_header(packed, 0, header)
    packed += section
    batch.set_crc(packed, 0, size_bytes)
    return packed, batch.read_header(packed)


def _too_large(size_bytes: int, rules: BatchRules, when: str = "") -> Refuse:
    return Refuse(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"the batch has {size_bytes} bytes {when}and the topic takes {rules.max_message_bytes} (max.message.bytes)",
    )


def _invalid(reason: str) -> Refuse:
    return Refuse(ErrorCode.INVALID_RECORD, reason)

"""The files of a log as text: batches, records, markers, index entries, producers, epochs.

Role.   Behind `semel log dump`. Reads files of Semel and of Apache Kafka and prints the lines of Kafka's
        DumpLogSegments, with the same field names, so that scripts keep working.
Rules.  * The rows of `__transaction_state` and `__consumer_offsets` are decoded, by the name of their directory or the
          caller's choice (`dump_rows`).
        * The dump only reads. A damaged file is shown up to the damage, with a line that names it.
        * One batch is held in memory at a time.
"""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final, TypeAlias

from semel.core.idempotence import snapshot
from semel.core.records import batch, control
from semel.core.records.batch import HEADER_SIZE, BatchHeader, TimestampType
from semel.core.records.build import Record, iter_records
from semel.core.records.codecs import NAMES
from semel.errors import CorruptBatchError, CorruptSnapshotError, LogError, SemelError
from semel.log import names, offset_index, time_index
from semel.log.dump_rows import RowText, row_text_of
from semel.log.txn_index import TxnIndex
from semel.runtime.files import File, Files, read_whole

_CODECS: Final = dict(enumerate(NAMES))
_TIMESTAMP_NAMES: Final = {
    TimestampType.CREATE_TIME: "CreateTime",
    TimestampType.LOG_APPEND_TIME: "LogAppendTime",
}


PayloadText: TypeAlias = Callable[[Record], str]


class UnknownFileError(LogError):
    """The file's name does not belong to a log."""


def dump(
    files: Files,
    path: str,
    *,
    print_data_log: bool = False,
    deep_iteration: bool = False,
    row_text: RowText | None = None,
) -> Iterator[str]:
    """The lines for one file, whose kind follows from its name. `row_text`: how to decode its records as rows."""
    directory, _, name = path.rpartition("/")
    parsed = names.parse(name)
    if parsed is None:
        raise UnknownFileError(
            f"{path} is not a file of a log: expected a name like {names.file_name(0, names.LOG)}, .index, .timeindex, .txnindex "
            "or .snapshot"
        )
    yield f"Dumping {path}"
    match parsed.kind:
        case names.LOG:
            payload = None
            if print_data_log or row_text is not None:
                payload = _payload(row_text or row_text_of(directory.rpartition("/")[2]))
            deep = deep_iteration or payload is not None
            yield from _dump_log(files, path, parsed.base_offset, payload, deep)
        case names.OFFSET_INDEX:
            for relative, position in _entries(files, path, offset_index.ENTRY):
                yield f"offset: {parsed.base_offset + relative} position: {position}"
        case names.TIME_INDEX:
            for timestamp, relative in _entries(files, path, time_index.ENTRY):
                yield f"timestamp: {timestamp} offset: {parsed.base_offset + relative}"
        case names.TXN_INDEX:
            for entry in TxnIndex.open(files, path).entries:
                yield (
                    f"version: 0 producerId: {entry.producer_id} firstOffset: {entry.first_offset} "
                    f"lastOffset: {entry.last_offset} lastStableOffset: {entry.last_stable_offset}"
                )
        case _:
            yield from _dump_snapshot(files, path)


def _dump_log(
    files: Files, path: str, base_offset: int, payload: PayloadText | None, deep: bool
) -> Iterator[str]:
    yield f"Log starting offset: {base_offset}"
    file = files.open(path, read_only=True)
    try:
        size_bytes = file.size()
        position = 0
        while size_bytes - position >= HEADER_SIZE:
            header = batch.read_header(file.read_at(position, HEADER_SIZE))
            if header.size_bytes < HEADER_SIZE or header.size_bytes > size_bytes - position:
                break
            yield from _dump_batch(file, position, header, payload, deep)
            position += header.size_bytes
        if position < size_bytes:
            yield f"Found {size_bytes - position} invalid bytes at the end of {path.rpartition('/')[2]}"
    finally:
        file.close()


def _dump_batch(
    file: File, position: int, header: BatchHeader, payload: PayloadText | None, deep: bool
) -> Iterator[str]:
    data = file.read_at(position, header.size_bytes)
    is_valid = header.magic == batch.MAGIC and batch.computed_crc(data, 0, header.size_bytes) == header.crc
    yield _batch_line(position, header, is_valid)
    if not deep:
        return
    if not is_valid:
        yield f"| the records at position {position} are not shown: the checksum does not hold"
        return
    try:
        for record in iter_records(data, 0, header):
            yield _record_line(data, header, record, payload)
    except SemelError as error:
        yield f"| the rest of the records is not shown: {error}"


def _batch_line(position: int, header: BatchHeader, is_valid: bool) -> str:
    horizon = header.delete_horizon_ms
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.records_count} "
        f"baseSequence: {header.base_sequence} lastSequence: {header.last_sequence} producerId: {header.producer_id} "
        f"producerEpoch: {header.producer_epoch} partitionLeaderEpoch: {header.partition_leader_epoch} "
        f"isTransactional: {_bool(header.is_transactional)} isControl: {_bool(header.is_control)} "
        f"deleteHorizonMs: {_optional(horizon)} position: {position} "
        f"{_TIMESTAMP_NAMES[header.timestamp_type]}: {header.max_timestamp} size: {header.size_bytes} "
        f"magic: {header.magic} compresscodec: {_CODECS.get(header.compression, header.compression)} "
        f"crc: {header.crc} isvalid: {_bool(is_valid)}"
    )


def _record_line(data: bytes, header: BatchHeader, record: Record, payload: PayloadText | None) -> str:
    keys = ",".join(name for name, _value in record.headers)
    line = (
        f"| offset: {record.offset} {_TIMESTAMP_NAMES[header.timestamp_type]}: {record.timestamp_ms} "
        f"keySize: {_size(record.key)} valueSize: {_size(record.value)} sequence: {record.sequence} headerKeys: [{keys}]"
    )
    if header.is_control:
        return line + _control_fields(data, header)
    return line if payload is None else line + payload(record)


def _payload(row_text: RowText | None) -> PayloadText:
    return _fields if row_text is None else row_text.fields


def _fields(record: Record) -> str:
    key = "" if record.key is None else f" key: {record.key.decode(errors='replace')}"
    value = "" if record.value is None else f" payload: {record.value.decode(errors='replace')}"
    return key + value


def _control_fields(data: bytes, header: BatchHeader) -> str:
    kind = control.read_control_type(data, 0, header)
    if kind not in (control.ControlType.ABORT, control.ControlType.COMMIT):
        return f" controlType: {kind.name}"
    try:
        marker = control.read_marker(data, 0, header)
    except CorruptBatchError as error:
        return f" endTxnMarker: unreadable ({error.reason})"
    return f" endTxnMarker: {kind.name} coordinatorEpoch: {marker.coordinator_epoch}"


def _dump_snapshot(files: Files, path: str) -> Iterator[str]:
    try:
        entries = snapshot.decode(read_whole(files, path))
    except CorruptSnapshotError as error:
        yield f"The snapshot is damaged: {error}"
        return
    for entry in entries:
        line = (
            f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch} "
            f"coordinatorEpoch: {entry.coordinator_epoch} "
            f"currentTxnFirstOffset: {_optional(entry.current_txn_first_offset)} "
            f"lastTimestamp: {entry.last_timestamp_ms} "
        )
        if entry.batches:
            last = entry.batches[-1]
            line += (
                f"firstSequence: {last.first_sequence} lastSequence: {last.last_sequence} lastOffset: {last.last_offset} "
                f"offsetDelta: {last.offset_delta} timestamp: {entry.last_timestamp_ms}"
            )
        yield line


def _entries(files: Files, path: str, entry: Struct) -> Iterator[tuple[int, int]]:
    content = read_whole(files, path)
    whole = len(content) // entry.size * entry.size
    yield from entry.iter_unpack(content[:whole])


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _optional(value: int | None) -> str:
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)

"""Rows of Arrow columns as batches of their partitions, without an object per row.

Role.   `Columns.batches` partitions rows by column, sorts them by partition with one stable `take`, and has the kernels write
        each partition's rows as finished batches.
Flow.   `send_arrow` of both producers hands them to the outbox one by one and waits for memory in between.
Rules.  * Columns are key, value, timestamp, headers and partition, by name. Others are refused, unless `ignore_columns` names them:
          no column of a user's is dropped in silence. Columns are judged before the first row is taken.
        * A partition that is given wins; else the key decides; rows with neither go where keyless records go now, batch by batch.
        * A time without a zone is UTC, as everywhere.
        * Of `partitioner.class`, the round robin goes on from row to row. A callable wants an object per row: rows for it are
          refused.
        * Rows keep their order within a partition.
        * Rows are worked on a piece at a time, so that memory stays within bounds whatever the size of the table.
        * A batch is as large as a request may be, not `batch.size`: the rows are there already, nothing is waited for.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from semel.client import arguments
from semel.client.producer.encoding import Codec
from semel.client.producer.intake import Partitioner, RoundRobin
from semel.client.producer.topics import KnownTopic
from semel.client.settings import ProducerConfig
from semel.core.client.partition_kernels import NO_KEY, partitions_of_keys
from semel.core.records.arrow_encode import EncodedBatch, encode_batches
from semel.core.records.batch import HEADER_SIZE
from semel.exceptions import IllegalArgumentException, RecordTooLargeException
from semel.types import NO_TIMESTAMP
from semel.words import kind

COLUMNS: Final = ("key", "value", "timestamp", "headers", "partition")
"""The columns of records."""
_BYTES: Final = (
    pa.types.is_binary,
    pa.types.is_string,
    pa.types.is_large_binary,
    pa.types.is_large_string,
    pa.types.is_fixed_size_binary,
    pa.types.is_binary_view,
    pa.types.is_string_view,
)

_BATCH_BYTES: Final = 1 << 20  # The default of topics.
_REQUEST_OVERHEAD: Final = 1024  # Names and lengths around a batch.
_PIECE_ROWS: Final = 1 << 16
_PIECE_BYTES: Final = 16 << 20


class Placed(NamedTuple):
    """A finished batch, and its partition; None: where keyless records go."""

    partition: int | None
    batch: EncodedBatch


def rows_of(data: Any, ignore_columns: bool | str | Iterable[str] = ()) -> "Iterator[pa.RecordBatch]":
    """The rows a piece at a time, with the columns of records alone; raises at once if there are others, or of wrong types."""
    schema, batches = _opened(data)
    names = _used(schema, ignore_columns)
    check(pa.schema([schema.field(name) for name in names]))
    return pieces(one.select(names) for one in batches)


def _used(schema: pa.Schema, ignore_columns: bool | str | Iterable[str]) -> list[str]:
    """Which columns make records; raises if there are others that nobody said may go."""
    ignored: Iterable[str]
    if isinstance(ignore_columns, bool):
        ignored = [name for name in schema.names if name not in COLUMNS] if ignore_columns else ()
    else:
        ignored = arguments.names(ignore_columns, "ignore_columns")
    left = [name for name in schema.names if name not in set(ignored)]
    unknown = [name for name in left if name not in COLUMNS]
    if unknown:
        raise IllegalArgumentException(
            f"{_named('column', unknown)} of no record: send_arrow takes {', '.join(COLUMNS)}. Drop or rename "
            f"{'it' if len(unknown) == 1 else 'them'}, or let go of {'it' if len(unknown) == 1 else 'them'} with "
            f"ignore_columns={unknown!r} (True: of all)"
        )
    twice = [name for name, count in Counter(left).items() if count > 1]
    if twice:
        raise IllegalArgumentException(
            f"{_named('column', twice)} there more than once: keep one of each name"
        )
    if "key" not in left and "value" not in left:
        raise IllegalArgumentException(
            f"columns {', '.join(left) or '(none)'}: there must be a key or a value column"
        )
    return left


def _named(noun: str, names: list[str]) -> str:
    return f"{noun} {names[0]} is" if len(names) == 1 else f"{noun}s {', '.join(names)} are"


def check(schema: pa.Schema) -> None:
    """Raise if a column of records has a type they cannot be made of."""
    for field in schema:
        name, found = field.name, field.type
        if pa.types.is_null(found):
            continue
        if name in ("key", "value") and not _is_bytes(found):
            raise IllegalArgumentException(
                f"column {name} has type {found}: it must be bytes or text. Convert it first; its text is "
                f"pyarrow.compute.cast(table['{name}'], pyarrow.string())"
            )
        if name == "timestamp" and not (pa.types.is_timestamp(found) or pa.types.is_integer(found)):
            raise IllegalArgumentException(
                f"column timestamp has type {found}: it must be a timestamp, or whole milliseconds since 1970. Convert it first, "
                "as pyarrow.compute.cast(table['timestamp'], pyarrow.timestamp('ms', tz='UTC'))"
            )
        if name == "partition" and not pa.types.is_integer(found):
            raise IllegalArgumentException(
                f"column partition has type {found}: it must be whole numbers. Convert it first, as "
                "pyarrow.compute.cast(table['partition'], pyarrow.int32())"
            )
        if name == "headers" and not _is_headers(found):
            raise IllegalArgumentException(
                f"column headers has type {found}: it must be a list of structs of key (text) and value (bytes), as "
                "pyarrow.list_(pyarrow.struct([('key', pyarrow.string()), ('value', pyarrow.binary())]))"
            )


def _is_bytes(found: pa.DataType) -> bool:
    if pa.types.is_dictionary(found):
        found = found.value_type
    return any(test(found) for test in _BYTES)


def _is_headers(found: pa.DataType) -> bool:
    if not (pa.types.is_list(found) or pa.types.is_large_list(found)) or not pa.types.is_struct(
        found.value_type
    ):
        return False
    pair = found.value_type
    places = [pair.get_field_index(name) for name in ("key", "value")]
    kinds = [pair.field(place).type for place in places if place >= 0]
    return len(kinds) == len(places) and all(_is_bytes(one) or pa.types.is_null(one) for one in kinds)


def pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows a piece at a time, from batches of any size."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        for start in range(0, batch.num_rows, _PIECE_ROWS):
            part = batch.slice(start, _PIECE_ROWS)
            held.append(part)
            rows += part.num_rows
            size += part.nbytes
            if rows >= _PIECE_ROWS or size >= _PIECE_BYTES:
                yield _joined(held)
                held, rows, size = [], 0, 0
    if rows:
        yield _joined(held)


def _opened(data: Any) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    """The columns, and the rows."""
    if isinstance(data, pa.RecordBatch):
        return data.schema, [data]
    if isinstance(data, pa.Table):
        return data.schema, data.to_batches()
    if not isinstance(data, pa.RecordBatchReader) and hasattr(data, "__arrow_c_stream__"):
        data = pa.RecordBatchReader.from_stream(data)
    if isinstance(data, pa.RecordBatchReader):
        return data.schema, data
    raise IllegalArgumentException(
        f"send_arrow takes a pyarrow Table, RecordBatch or RecordBatchReader, or what exports Arrow's stream interface, not "
        f"{kind(data)}"
    )


def _joined(held: list[pa.RecordBatch]) -> pa.RecordBatch:
    """A few small batches as one."""
    if len(held) == 1:
        return held[0]
    (joined,) = pa.Table.from_batches(held).combine_chunks().to_batches()
    return joined


class Columns:
    """How one producer turns rows into batches."""

    def __init__(self, config: ProducerConfig, codec: Codec, partitioner: Partitioner | None) -> None:
        self._codec = codec
        self._partitioner = partitioner
        self._request_max = config.max_request_size
        room = min(config.max_request_size, _BATCH_BYTES) - _REQUEST_OVERHEAD
        self._batch_bytes = max(HEADER_SIZE + 1, room, min(config.batch_size, config.max_request_size))
        self._ignores_keys = config.partitioner_ignore_keys

    def batches(
        self, rows: pa.RecordBatch, known: KnownTopic, timestamp_ms: int, rows_before: int = 0
    ) -> Iterator[Placed]:
        """The rows as batches, partition by partition; `rows_before` were given before these, for the texts of errors."""
        rows = _in_milliseconds(_without_views(rows), rows_before)
        _check_headers(rows, rows_before)
        partitions = self._partitions(rows, known, rows_before)
        if partitions is None:
            yield from self._encoded(rows, None, timestamp_ms)
            return
        first = partitions[0]
        if known.count == 1 or rows.num_rows == 1 or pc.all(pc.equal(partitions, first)).as_py():
            yield from self._encoded(rows, _named_one(first.as_py()), timestamp_ms)
            return
        order = pc.array_sort_indices(
            partitions
        )  # It keeps the order of equals, and counts where numbers are small.
        rows = rows.take(order)
        runs = pc.run_end_encode(partitions.take(order), run_end_type=pa.int64())
        start = 0
        for partition, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
            yield from self._encoded(rows.slice(start, end - start), _named_one(partition), timestamp_ms)
            start = end

    def _encoded(self, rows: pa.RecordBatch, partition: int | None, timestamp_ms: int) -> Iterator[Placed]:
        for batch in encode_batches(
            rows,
            batch_size_bytes=self._batch_bytes,
            timestamp_ms=timestamp_ms,
            compression=self._codec.compression,
            compression_level=self._codec.level,
            transactional=self._codec.transactional,
            checksum=False,  # The sender writes it, with the sequence.
        ):
            if len(batch.data) > self._request_max:
                raise RecordTooLargeException(
                    f"a row takes {len(batch.data)} bytes, max.request.size allows {self._request_max}: split it, or set "
                    "max.request.size (and the topic's max.message.bytes) higher"
                )
            yield Placed(partition, batch)

    def _partitions(self, rows: pa.RecordBatch, known: KnownTopic, rows_before: int) -> pa.Array | None:
        """The partition of each row as int32, `NO_KEY` where anything will do; None if that is so for all."""
        column = rows.column("partition") if "partition" in rows.schema.names else None
        if column is None or pa.types.is_null(column.type):
            return self._chosen(rows, known, None)
        given = pc.cast(
            column, pa.int64(), safe=False
        )  # Numbers beyond 63 bits become negative ones: wrong as well.
        row = pc.index(pc.or_(pc.less(given, 0), pc.greater_equal(given, known.count)), True).as_py()
        if row >= 0:
            raise IllegalArgumentException(
                f"row {rows_before + row}: partition {column[row]}, {known.name} has {known.count} partitions"
            )
        given = given.cast(pa.int32())
        if not given.null_count:
            return given
        chosen = self._chosen(rows, known, given)
        return given.fill_null(NO_KEY) if chosen is None else pc.coalesce(given, chosen)

    def _chosen(self, rows: pa.RecordBatch, known: KnownTopic, given: pa.Array | None) -> pa.Array | None:
        """As `_partitions`, for rows that name none: those where `given` is null. The values of others do not count."""
        if isinstance(self._partitioner, RoundRobin):
            count = rows.num_rows if given is None else given.null_count
            turns = _turns(self._partitioner.take(known.name, count), count, known.count)
            return turns if given is None else pc.replace_with_mask(given, given.is_null(), turns)
        if self._partitioner is not None:
            raise IllegalArgumentException(
                f"partitioner.class is {self._partitioner!r}, and send_arrow makes no object per row to ask it: give the "
                f"rows for {known.name} a column partition without nulls, or send them one by one"
            )
        return self._hashed(rows.column("key"), known.count) if "key" in rows.schema.names else None

    def _hashed(self, keys: pa.Array, partitions_count: int) -> pa.Array | None:
        if self._ignores_keys or pa.types.is_null(keys.type) or keys.null_count == len(keys):
            return None
        if pa.types.is_dictionary(keys.type):
            keys = keys.dictionary_decode()
        plain = (pa.types.is_binary, pa.types.is_string, pa.types.is_large_binary, pa.types.is_large_string)
        if not any(test(keys.type) for test in plain):
            keys = keys.cast(pa.large_binary())
        return partitions_of_keys(keys, partitions_count)


def _named_one(partition: int) -> int | None:
    return None if partition == NO_KEY else partition


def _turns(first: int, count: int, partitions_count: int) -> pa.Array:
    """So many partitions, one after the other, round and round."""
    begin = first % partitions_count
    rounds = array("i", range(min(partitions_count, begin + count))) * (
        -(-(begin + count) // partitions_count)
    )
    return pa.Array.from_buffers(pa.int32(), count, [None, pa.py_buffer(rounds)], 0, begin)


def _without_views(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows with offsets in place of views, which Arrow cannot sort by partition."""
    for place, field in enumerate(rows.schema):
        plain = _without_view(field.type)
        if plain != field.type:
            rows = rows.set_column(place, field.name, rows.column(place).cast(plain))
    return rows


def _without_view(found: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(found):
        return pa.large_string()
    if pa.types.is_binary_view(found):
        return pa.large_binary()
    if pa.types.is_struct(found):
        return pa.struct([field.with_type(_without_view(field.type)) for field in found])
    if pa.types.is_list(found):
        return pa.list_(found.value_field.with_type(_without_view(found.value_type)))
    if pa.types.is_large_list(found):
        return pa.large_list(found.value_field.with_type(_without_view(found.value_type)))
    return found


def _in_milliseconds(rows: pa.RecordBatch, rows_before: int) -> pa.RecordBatch:
    """The same rows with whole milliseconds for times; raises for a time before 1970."""
    place = rows.schema.get_field_index("timestamp")
    if place < 0 or pa.types.is_null(rows.column(place).type):
        return rows
    column = rows.column(place)
    if pa.types.is_timestamp(column.type):
        if column.type.tz is None:
            arguments.warn_of_naive(f"column timestamp has type {column.type}, without a time zone")
        # A finer time is cut off, a time too large for milliseconds is an error.
        options = pc.CastOptions(target_type=pa.timestamp("ms", column.type.tz), allow_time_truncate=True)
        column = _cast(column, options=options)
    times = column if column.type == pa.int64() else _cast(column, pa.int64())
    row = pc.index(pc.less(times, NO_TIMESTAMP), True).as_py()
    if row >= 0:
        raise IllegalArgumentException(f"row {rows_before + row}: timestamp {times[row]} ms is before 1970")
    return rows.set_column(place, "timestamp", times)


def _cast(column: pa.Array, *target: pa.DataType, **options: Any) -> pa.Array:
    try:
        return pc.cast(column, *target, **options)
    except pa.ArrowInvalid as error:
        raise IllegalArgumentException(
            f"column timestamp of type {column.type} has a time that is not a number of milliseconds: {error}"
        ) from error


def _check_headers(rows: pa.RecordBatch, rows_before: int) -> None:
    """Raise for a header that is null or has no key, with its row."""
    place = rows.schema.get_field_index("headers")
    if place < 0 or pa.types.is_null(rows.column(place).type):
        return
    column = rows.column(place)
    pairs = column.flatten()
    for parts, flaw in ((pairs, "a header is null"), (pc.struct_field(pairs, "key"), "a header has no key")):
        if parts.null_count:
            row = pc.list_parent_indices(column)[pc.index(parts.is_null(), True).as_py()].as_py()
            raise IllegalArgumentException(
                f"row {rows_before + row}: {flaw}: leave it out of column headers, or give it a key"
            )

"""Rows of Arrow columns as batches of their partitions, without an object per row.

Role.   `Columns.batches` partitions rows by column, sorts them by partition with one stable `take`, and has the kernels write
        each partition's rows as finished batches.
Flow.   `send_arrow` of both producers hands them to the outbox one by one and waits for memory in between.
Rules.  * Columns are key, value, timestamp, headers and partition, by name; others are left alone. A partition that is given
          wins; else the key decides; rows with neither go where keyless records go now, batch by batch.
        * Of `partitioner.class`, the round robin goes on from row to row. A callable wants an object per row: rows for it are
          refused.
        * Rows keep their order within a partition.
        * Rows are worked on a piece at a time, so that memory stays within bounds whatever the size of the table.
        * A batch is as large as a request may be, not `batch.size`: the rows are there already, nothing is waited for.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semel.client.producer.encoding import Codec
from semel.client.producer.intake import Partitioner, RoundRobin
from semel.client.producer.topics import KnownTopic
from semel.client.settings import ProducerConfig
from semel.core.client.partition_kernels import NO_KEY, Partitions, partitions_of_keys
from semel.core.records.arrow_encode import EncodedBatch, encode_batches
from semel.core.records.batch import HEADER_SIZE
from semel.exceptions import IllegalArgumentException, RecordTooLargeException

_BATCH_BYTES: Final = 1 << 20  # What a topic takes by default.
_REQUEST_OVERHEAD: Final = 1024  # Names and lengths around a batch.
_PIECE_ROWS: Final = 1 << 16
_PIECE_BYTES: Final = 16 << 20
_RADIX_PARTITIONS_MAX: Final = 1 << 15  # numpy sorts 16-bit numbers in linear time.


class Placed(NamedTuple):
    """A finished batch, and its partition; None: where keyless records go."""

    partition: int | None
    batch: EncodedBatch


def pieces(data: Any) -> Iterator[pa.RecordBatch]:
    """Rows a piece at a time, from a table, a batch, a reader, or whatever has Arrow's stream interface."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in _record_batches(data):
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


def _record_batches(data: Any) -> Iterator[pa.RecordBatch]:
    if isinstance(data, pa.RecordBatch):
        yield data
    elif isinstance(data, pa.Table):
        yield from data.to_batches()
    elif isinstance(data, pa.RecordBatchReader):
        yield from data
    elif hasattr(data, "__arrow_c_stream__"):
        yield from pa.RecordBatchReader.from_stream(data)
    else:
        raise IllegalArgumentException(
            f"send_arrow takes a pyarrow Table, RecordBatch or RecordBatchReader, or what exports Arrow's stream "
            f"interface, not a {type(data).__name__}"
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

    def batches(self, rows: pa.RecordBatch, known: KnownTopic, timestamp_ms: int) -> Iterator[Placed]:
        """The rows as batches, partition by partition."""
        partitions = self._partitions(rows, known)
        if partitions is None:
            yield from self._encoded(rows, None, timestamp_ms)
            return
        first = int(partitions[0])
        if known.count == 1 or bool((partitions == first).all()):
            yield from self._encoded(rows, None if first == NO_KEY else first, timestamp_ms)
            return
        is_small = known.count < _RADIX_PARTITIONS_MAX
        order = np.argsort(partitions.astype(np.int16) if is_small else partitions, kind="stable")
        rows = rows.take(pa.array(order))
        counts = np.bincount(partitions + 1, minlength=known.count + 1)
        start = 0
        for place in np.flatnonzero(counts).tolist():
            count = int(counts[place])
            partition = None if place == 0 else place - 1
            yield from self._encoded(rows.slice(start, count), partition, timestamp_ms)
            start += count

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

    def _partitions(self, rows: pa.RecordBatch, known: KnownTopic) -> Partitions | None:
        """The partition of each row, `NO_KEY` where anything will do; None if that is so for all."""
        column = rows.column("partition") if "partition" in rows.schema.names else None
        if column is None or pa.types.is_null(column.type):
            return self._chosen(rows, known, np.ones(rows.num_rows, dtype=np.bool_))
        if not pa.types.is_integer(column.type):
            raise IllegalArgumentException(
                f"column partition has type {column.type}: it must be whole numbers"
            )
        is_null = np.asarray(column.is_null())
        given: Partitions = np.asarray(column.fill_null(0)).astype(np.int64)
        wrong = np.flatnonzero((given < 0) | (given >= known.count))
        if len(wrong):
            raise IllegalArgumentException(
                f"row {wrong[0]}: partition {given[wrong[0]]}, {known.name} has {known.count} partitions"
            )
        chosen = self._chosen(rows, known, is_null)
        elsewhere = NO_KEY if chosen is None else chosen
        return np.where(is_null, elsewhere, given).astype(np.int32)

    def _chosen(
        self, rows: pa.RecordBatch, known: KnownTopic, is_free: npt.NDArray[np.bool_]
    ) -> Partitions | None:
        """As `_partitions`, for rows that name none; what it says of the others does not count."""
        if isinstance(self._partitioner, RoundRobin):
            count = int(np.count_nonzero(is_free))
            first = self._partitioner.take(known.name, count)
            turns = np.zeros(rows.num_rows, dtype=np.int32)
            turns[is_free] = np.arange(first, first + count) % known.count
            return turns
        if self._partitioner is not None and bool(is_free.any()):
            raise IllegalArgumentException(
                f"partitioner.class is {self._partitioner!r}, and send_arrow makes no object per row to ask it: give the "
                f"rows for {known.name} a column partition without nulls, or send them one by one"
            )
        return self._hashed(rows.column("key"), known.count) if "key" in rows.schema.names else None

    def _hashed(self, keys: pa.Array, partitions_count: int) -> Partitions | None:
        if self._ignores_keys or pa.types.is_null(keys.type) or keys.null_count == len(keys):
            return None
        if pa.types.is_dictionary(keys.type):
            keys = keys.dictionary_decode()
        plain = (pa.types.is_binary, pa.types.is_string, pa.types.is_large_binary, pa.types.is_large_string)
        if not any(test(keys.type) for test in plain):
            keys = keys.cast(pa.large_binary())
        return partitions_of_keys(keys, partitions_count)

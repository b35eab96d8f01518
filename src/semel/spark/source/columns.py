"""The columns of `format("semel")`: key, value, topic, partition, offset, timestamp, timestampType, and headers if asked for.

Role.   `spark_schema` for Spark, `arrow_schema` for what tasks give it, and `rows_of`: the records of one partition as such columns.
Flow.   the kernels' columns (`core.client.fetched.Piece`) -> `rows_of` -> Spark, by Arrow.
Rules.  * Names, order and types are those of Spark's own Kafka connector. A record without headers has null headers.
        * `timestampType` is 0 where the producer stamped the record (CreateTime) and 1 where the log did.
        * Key and value are the kernels' own buffers; a column that is the same for all rows is made once per task, and sliced.
"""

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from semel.core.client.fetched import Piece, Span
from semel.types import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

NAMES: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
HEADERS: Final = "headers"
TIMESTAMP_TYPE: Final = pa.timestamp("us", tz="UTC")
HEADERS_TYPE: Final = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
_SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP_TYPE),
        ("timestampType", pa.int32()),
    ]
)
_SCHEMA_WITH_HEADERS: Final = _SCHEMA.append(pa.field(HEADERS, HEADERS_TYPE))
_MICROSECONDS: Final = 1000
_MS_MAX: Final = ((1 << 63) - 1) // _MICROSECONDS


def spark_schema(*, include_headers: bool) -> "StructType":
    """The schema of a data frame of these columns."""
    from pyspark.sql.types import (
        ArrayType,
        BinaryType,
        IntegerType,
        LongType,
        StringType,
        StructField,
        StructType,
        TimestampType,
    )

    types = (
        BinaryType(),
        BinaryType(),
        StringType(),
        IntegerType(),
        LongType(),
        TimestampType(),
        IntegerType(),
    )
    fields = [StructField(name, kind) for name, kind in zip(NAMES, types, strict=True)]
    if include_headers:
        pair = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
        fields.append(StructField(HEADERS, ArrayType(pair)))
    return StructType(fields)


def arrow_schema(*, include_headers: bool) -> pa.Schema:
    """The same for Arrow."""
    return _SCHEMA_WITH_HEADERS if include_headers else _SCHEMA


class RowMaker:
    """Makes rows of the records of one partition."""

    def __init__(self, where: TopicPartition, *, include_headers: bool) -> None:
        self._include_headers = include_headers
        self.schema = arrow_schema(include_headers=include_headers)
        self._topic = _Constant(where.topic)
        self._partition = _Constant(where.partition)
        self._types = {kind: _Constant(kind) for kind in (0, 1)}

    def rows_of(self, piece: Piece) -> pa.RecordBatch:
        """The records as rows."""
        offsets, timestamps, keys, values, headers = piece.columns().columns
        count = piece.count
        columns = [
            keys,
            values,
            self._topic.times(count),
            self._partition.times(count),
            offsets,
            in_microseconds(timestamps),
            self._timestamp_types(piece.spans, offsets),
        ]
        if self._include_headers:
            columns.append(
                pa.nulls(count, HEADERS_TYPE)
                if headers.null_count == len(headers)
                else headers.cast(HEADERS_TYPE)
            )
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _timestamp_types(self, spans: tuple[Span, ...], offsets: pa.Array) -> pa.Array:
        kinds = {int(span.timestamp_type) for span in spans}
        if len(kinds) <= 1:
            return self._types[kinds.pop() if kinds else 0].times(len(offsets))
        rows, parts, start = range(len(offsets)), [], 0
        for span in spans:
            end = bisect_right(rows, span.last_offset, start, key=lambda row: offsets[row].as_py())
            parts.append(self._types[int(span.timestamp_type)].times(end - start))
            start = end
        return pa.concat_arrays(parts)


class _Constant:
    """A column with the same value in every row: made for the longest batch so far, sliced for the others."""

    def __init__(self, value: str | int) -> None:
        self._value = value
        self._made = self._of(0)

    def times(self, count: int) -> pa.Array:
        if len(self._made) < count:
            self._made = self._of(count)
        return self._made.slice(0, count)

    def _of(self, count: int) -> pa.Array:
        if isinstance(self._value, int):
            return pa.repeat(pa.scalar(self._value, pa.int32()), count)
        text = self._value.encode()  # Arrow's own way to repeat text goes row by row.
        ends = pc.multiply(pa.arange(0, count + 1), len(text)).cast(pa.int32())
        return pa.Array.from_buffers(
            pa.string(), count, [None, ends.buffers()[1], pa.py_buffer(text * count)], 0
        )


def in_microseconds(timestamps: pa.Array) -> pa.Array:
    """Milliseconds as Spark's microseconds; a time that does not fit becomes the outermost one that does."""
    try:
        return timestamps.cast(TIMESTAMP_TYPE)
    except pa.ArrowInvalid:  # A producer may write any number as a time.
        numbers = pc.max_element_wise(pc.min_element_wise(timestamps.view(pa.int64()), _MS_MAX), -_MS_MAX)
        return pc.multiply(numbers, _MICROSECONDS).view(TIMESTAMP_TYPE)


def combined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Several batches as one."""
    if len(batches) == 1:
        return batches[0]
    return pa.concat_batches(batches)

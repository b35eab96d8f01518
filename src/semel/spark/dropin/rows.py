"""The rows Spark hands to a task: which columns they must have, which topic each goes to, and a digest of all of them.

Role.   `check_columns` at planning; `by_topic` and `Digest` in a task, batch by batch, without an object per row.
Rules.  * Columns are those of Spark's own Kafka sink: value (text or bytes, must be there), key, headers, partition, topic; and
          timestamp. Others are left out.
        * The option `topic` wins over the column; without it every row must have one.
        * The digest depends on what the columns hold and on the order of rows, not on how they are cut into batches.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import crc32c
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semel.exceptions import IllegalArgumentException

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_RECORD_COLUMNS: Final = ("key", "value", "headers", "partition", "timestamp")
# By the names Spark gives to types, parameters cut off.
_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "key": ("string", "binary", "void"),
    "value": ("string", "binary"),
    "topic": ("string",),
    "partition": ("int", "void"),
    "headers": ("array<struct<key:string,value:binary>>", "void"),
    "timestamp": ("timestamp", "timestamp_ntz", "void"),
}
_NULL_LENGTH: Final = -1


def check_columns(schema: "StructType", topic: str | None) -> None:
    """Raise if these columns cannot be written; `topic` is the option."""
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    if "value" not in types:
        raise IllegalArgumentException(
            f"Required attribute 'value' not found among the columns {', '.join(types) or '(none)'}: "
            "select what to write as value, as to_json(struct('*')).alias('value')"
        )
    if topic is None and "topic" not in types:
        raise IllegalArgumentException(
            "topic option required when no 'topic' attribute is present: use option('topic', …) or a column topic"
        )
    for name, allowed in _TYPES.items():
        found = types.get(name)
        if found is not None and _plain(found) not in allowed:
            raise IllegalArgumentException(
                f"column {name} has type {found}: it must be {' or '.join(one for one in allowed if one != 'void')}"
            )


def _plain(type_name: str) -> str:
    """A string with a collation, or of a length, is a string."""
    head = type_name.partition("(")[0].partition(" ")[0]
    return "string" if head in ("string", "varchar", "char") else type_name


def by_topic(batch: pa.RecordBatch, topic: str | None) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each topic, with the columns of records alone; the order within a topic is kept."""
    names = [name for name in _RECORD_COLUMNS if name in batch.schema.names]
    rows = _in_utc(batch.select(names))
    if topic is not None:
        yield topic, rows
        return
    column = batch.column("topic")
    if column.null_count:
        first = int(pc.index(column.is_null(), True).as_py())
        raise IllegalArgumentException(
            f"row {first} of a batch has no topic: set option('topic', …), or filter rows without one"
        )
    topics = pc.unique(column).to_pylist()
    for one in topics:
        yield one, rows if len(topics) == 1 else rows.filter(pc.equal(column, one))


def _in_utc(rows: pa.RecordBatch) -> pa.RecordBatch:
    """A TIMESTAMP_NTZ is UTC, as times without a zone are everywhere."""
    place = rows.schema.get_field_index("timestamp")
    if (
        place < 0
        or not pa.types.is_timestamp(rows.column(place).type)
        or rows.column(place).type.tz is not None
    ):
        return rows
    times = rows.column(place)
    return rows.set_column(place, "timestamp", times.cast(pa.timestamp(times.type.unit, "UTC")))


class Digest:
    """A number for rows: the same for the same rows in the same order, whatever the size of their batches."""

    def __init__(self) -> None:
        self.rows = 0
        self._sums = dict[str, int]()

    def add(self, batch: pa.RecordBatch) -> None:
        """The next rows."""
        self.rows += batch.num_rows
        for name in sorted({*_RECORD_COLUMNS, "topic"} & set(batch.schema.names)):
            self._column(name, batch.column(name))

    @property
    def text(self) -> str:
        return "-".join(f"{name[0]}{self._sums[name]:08x}" for name in sorted(self._sums))

    def _column(self, name: str, column: pa.Array) -> None:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if pa.types.is_null(column.type):
            self._note(f"{name}.null", np.full(len(column), _NULL_LENGTH, np.int64).data)
        elif pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
            lengths = pc.fill_null(pc.list_value_length(column), _NULL_LENGTH)
            self._note(f"{name}.count", np.asarray(lengths).astype(np.int64).data)
            pairs = pc.list_flatten(column)
            for index, field in enumerate(pairs.type):
                self._column(f"{name}.{field.name}", pc.struct_field(pairs, index))
        elif pa.types.is_primitive(column.type):
            numbers = column.view(pa.int64()) if column.type.bit_width == 64 else column.cast(pa.int64())
            self._note(f"{name}.valid", np.asarray(numbers.is_valid()).astype(np.int8).data)
            self._note(name, np.asarray(numbers.fill_null(0)).data)
        else:
            self._cells(name, column.cast(pa.large_binary()))

    def _cells(self, name: str, cells: pa.Array) -> None:
        lengths = pc.fill_null(pc.binary_length(cells), _NULL_LENGTH)
        self._note(f"{name}.length", np.asarray(lengths).astype(np.int64).data)
        _validity, offsets, data = cells.buffers()
        if data is None or len(cells) == 0:
            self._note(name, memoryview(b""))
            return
        places = np.frombuffer(offsets, np.int64)[cells.offset : cells.offset + len(cells) + 1]
        if cells.null_count:  # What lies behind a null is nobody's business.
            data, first, last = _dense(cells)
        else:
            first, last = int(places[0]), int(places[-1])
        self._note(name, memoryview(data)[first:last])

    def _note(self, name: str, data: memoryview) -> None:
        self._sums[name] = crc32c.crc32c(data, self._sums.get(name, 0))


def _dense(cells: pa.Array) -> tuple[pa.Buffer, int, int]:
    kept = cells.drop_null()
    _validity, offsets, data = kept.buffers()
    if data is None or len(kept) == 0:
        return pa.py_buffer(b""), 0, 0
    places = np.frombuffer(offsets, np.int64)[kept.offset : kept.offset + len(kept) + 1]
    return data, int(places[0]), int(places[-1])

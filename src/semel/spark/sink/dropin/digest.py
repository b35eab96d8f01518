"""A digest of the rows a task writes: it tells whether a repeated batch has the same rows.

Rules.  The digest depends on the columns' content and on the order of rows, not on how rows are cut into batches. Digests are in the
        ledger: the same rows give the same digest in every version.
"""

from typing import Final

import crc32c
import pyarrow as pa
import pyarrow.compute as pc

from semel.spark.sink.common.rows import RECORD_COLUMNS

_NULL_LENGTH: Final = -1


class Digest:
    """A number for rows: the same for the same rows in the same order, whatever the size of their batches."""

    def __init__(self) -> None:
        self.rows = 0
        self._sums = dict[str, int]()

    def add(self, batch: pa.RecordBatch) -> None:
        """The next rows."""
        self.rows += batch.num_rows
        for name in sorted({*RECORD_COLUMNS, "topic"} & set(batch.schema.names)):
            self._column(name, batch.column(name))

    @property
    def text(self) -> str:
        return "-".join(f"{name[0]}{self._sums[name]:08x}" for name in sorted(self._sums))

    def _column(self, name: str, column: pa.Array) -> None:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if pa.types.is_null(column.type):
            self._numbers(f"{name}.null", pa.repeat(pa.scalar(_NULL_LENGTH, pa.int64()), len(column)))
        elif pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
            lengths = pc.fill_null(pc.list_value_length(column), _NULL_LENGTH)
            self._numbers(f"{name}.count", lengths.cast(pa.int64()))
            pairs = pc.list_flatten(column)
            for index, field in enumerate(pairs.type):
                self._column(f"{name}.{field.name}", pc.struct_field(pairs, index))
        elif pa.types.is_primitive(column.type):
            numbers = column.view(pa.int64()) if column.type.bit_width == 64 else column.cast(pa.int64())
            self._numbers(f"{name}.valid", numbers.is_valid().cast(pa.int8()))
            self._numbers(name, numbers.fill_null(0))
        else:
            self._cells(name, column.cast(pa.large_binary()))

    def _cells(self, name: str, cells: pa.Array) -> None:
        lengths = pc.fill_null(pc.binary_length(cells), _NULL_LENGTH)
        self._numbers(f"{name}.length", lengths.cast(pa.int64()))
        _validity, offsets, data = cells.buffers()
        if data is None or len(cells) == 0:
            self._note(name, memoryview(b""))
            return
        if cells.null_count:  # Bytes behind a null do not count.
            data, first, last = _dense(cells)
        else:
            first, last = _span(cells, offsets)
        self._note(name, memoryview(data)[first:last])

    def _numbers(self, name: str, column: pa.Array) -> None:
        """A column of whole numbers without nulls."""
        _validity, data = column.buffers()
        width = column.type.byte_width
        first, last = width * column.offset, width * (column.offset + len(column))
        self._note(name, memoryview(data if last else b"")[first:last])

    def _note(self, name: str, data: memoryview) -> None:
        self._sums[name] = crc32c.crc32c(data, self._sums.get(name, 0))


def _dense(cells: pa.Array) -> tuple[pa.Buffer, int, int]:
    kept = cells.drop_null()
    _validity, offsets, data = kept.buffers()
    if data is None or len(kept) == 0:
        return pa.py_buffer(b""), 0, 0
    return data, *_span(kept, offsets)


def _span(cells: pa.Array, offsets: pa.Buffer) -> tuple[int, int]:
    """Where the bytes of a column begin and end."""
    places = memoryview(offsets).cast("q")
    return places[cells.offset], places[cells.offset + len(cells)]

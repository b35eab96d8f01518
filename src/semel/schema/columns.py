"""Whole columns of keys or values with a schema, as Arrow: for `poll_arrow` and `send_arrow`.

Role.   `ColumnDecoder.decode` makes a column of bytes one of structs; `ColumnEncoder.encode` the other way round.
Flow.   The prefixes of all rows are read at once, rows of one schema are decoded together, and put back in their order.
Rules.  * A null stays null. A row that cannot be decoded, or whose schema the registry does not know, raises with its number;
          `bad_rows="null"` gives null in its place. A schema without a column, and a registry that is away, always raise.
        * With `schema`, Avro values of all versions are resolved to it, and the column has its type. Without, a column of several
          schemas has the fields of all of them, null where a row's schema has none; types that no column can hold are refused.
Cost.   The prefix costs a few ns a row. fastavro decodes record by record in C; Protobuf and JSON have a Python call per record.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from semel.exceptions import IllegalArgumentException, SerializationException
from semel.schema.codecs import Codec, Codecs, Registry
from semel.schema.errors import SchemaNotFoundError
from semel.schema.extra import need
from semel.schema.rules.framing import (
    ID_PREFIX_BYTES,
    MAGIC_ID,
    SCHEMA_ID_MAX,
    Frame,
    read_prefix,
)
from semel.schema.rules.subjects import MessageField
from semel.schema.rules.values import AVRO, Schema
from semel.schema.serializers import _schema
from semel.schema.writing import Writing
from semel.words import kind, shown

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

BadRows = Literal["fail", "null"]
_NO_ID: Final = -1


class ColumnDecoder:
    """Columns of bytes to columns of values.

    `schema` is Avro's reader schema; `message` the message of a Protobuf file where it is not the first; `validate` checks JSON.
    """

    def __init__(
        self,
        schema_registry_client: Registry,
        schema: str | Schema | None = None,
        *,
        message: str | None = None,
        validate: bool = True,
        bad_rows: BadRows = "fail",
    ) -> None:
        if bad_rows not in ("fail", "null"):
            raise IllegalArgumentException(f"bad_rows={shown(bad_rows)}: use 'fail' or 'null'")
        self._reader = _schema(schema, AVRO)
        self._codecs = Codecs(schema_registry_client, reader=self._reader, validate=validate)
        self._message = message
        self._fails = bad_rows == "fail"

    def decode(self, column: "pa.Array | pa.ChunkedArray") -> "pa.Array":
        """The values of a column of bytes."""
        import pyarrow as pa

        bytes_ = _bytes_column(column)
        parts, rows = [], []
        for frame, at in self._groups(bytes_):
            part = self._decoded(frame, bytes_.take(pa.array(at)).to_pylist(), at)
            if part is not None:
                parts.append(part)
                rows.append(at)
        return self._together(parts, rows, len(bytes_))

    def arrow_type(self, schema_id: int) -> "pa.DataType":
        """The type that values of a schema have as a column."""
        frame = Frame(schema_id, None, ID_PREFIX_BYTES)
        return self._codecs.framed(frame, message=self._message).arrow_type

    def _groups(self, column: "pa.Array") -> "Iterator[tuple[Frame, np.ndarray[Any, Any]]]":
        """The rows of each schema; rows that name none are bad."""
        _need_numpy()
        import numpy as np

        ids = schema_ids(column)
        for schema_id in np.unique(ids[ids >= 0]):
            yield Frame(int(schema_id), None, ID_PREFIX_BYTES), np.flatnonzero(ids == schema_id)
        by_guid: dict[Frame, list[int]] = {}
        for row in np.flatnonzero(ids == _NO_ID):
            try:
                by_guid.setdefault(read_prefix(column[int(row)].as_py()), []).append(int(row))
            except SerializationException as error:
                self._bad(int(row), error)
        for frame, at in by_guid.items():
            yield frame, np.array(at)

    def _decoded(self, frame: Frame, contents: list[bytes], at: "np.ndarray[Any, Any]") -> "pa.Array | None":
        import pyarrow as pa

        payloads = [content[frame.payload_at :] for content in contents]
        try:
            codec = self._codec(frame, payloads[0])
        except (SerializationException, SchemaNotFoundError) as error:
            self._bad(int(at[0]), error)
            return None
        kind = codec.arrow_type  # A schema without a column is no bad row: it raises in any case.
        try:
            return codec.column_of(codec.decode_rows(payloads))
        except SerializationException:
            pass  # One of them is bad: reading each alone shows which.
        parts = []
        for payload, row in zip(payloads, at, strict=True):
            try:
                parts.append(codec.column_of(codec.decode_rows([payload])))
            except SerializationException as error:
                self._bad(int(row), error)
                parts.append(pa.nulls(1, kind))
        return pa.concat_arrays(parts)

    def _codec(self, frame: Frame, first: bytes) -> Codec:
        """The codec of a schema; of the first row's message, where a Protobuf file has several."""
        codec = self._codecs.framed(frame, message=self._message)
        of_payload: Any = getattr(codec, "message_of", None)
        if of_payload is None or self._message is not None:
            return codec
        return self._codecs.framed(frame, message=of_payload(first))

    def _bad(self, row: int, error: Exception) -> None:
        if self._fails:
            raise SerializationException(f"row {row}: {error}") from error

    def _together(
        self, parts: "list[pa.Array]", rows: "list[np.ndarray[Any, Any]]", count: int
    ) -> "pa.Array":
        """The parts in the order of their rows; rows of no part are null."""
        _need_numpy()
        import numpy as np
        import pyarrow as pa

        if not parts:
            return pa.nulls(count, self._type_of_nothing())
        if len(parts) == 1 and len(parts[0]) == count:
            return parts[0]
        try:
            table = pa.concat_tables(
                [pa.table({"value": part}) for part in parts], promote_options="permissive"
            )
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            kinds = " and ".join(dict.fromkeys(str(part.type) for part in parts))
            raise SerializationException(
                f"rows of several schemas make no one column: {kinds} ({error}). Give `schema`, to which all are resolved, or "
                "decode them apart"
            ) from error
        places = np.full(count, -1, np.int64)
        places[np.concatenate(rows)] = np.arange(sum(map(len, rows)))
        return _one_array(table.column("value")).take(pa.array(places, mask=places < 0))

    def _type_of_nothing(self) -> "pa.DataType":
        import pyarrow as pa

        return pa.null() if self._reader is None else self._codecs.of(self._reader).arrow_type


class ColumnEncoder:
    """Columns of values to columns of bytes, under a subject's schema.

    `schema` is a text with `schema_type`, or a `Schema`; without one, `conf` says `use.latest.version` or `use.schema.id`. `message`
    names the message of a Protobuf file.
    """

    def __init__(
        self,
        schema_registry_client: Registry,
        schema: str | Schema | None = None,
        conf: dict[str, Any] | None = None,
        *,
        schema_type: str = AVRO,
        message: str | None = None,
    ) -> None:
        given = schema if isinstance(schema, Schema) or schema is None else _schema(schema, schema_type)
        self._writing = Writing(schema_registry_client, given, conf, message=message)

    def encode(
        self, column: "pa.Array | pa.ChunkedArray", topic: str | None = None, field: str = MessageField.VALUE
    ) -> "pa.Array":
        """The bytes of a column's values, for a topic; a null stays null."""
        import pyarrow as pa

        written = self._writing.of(topic, field)
        array = _one_array(column) if isinstance(column, pa.ChunkedArray) else column
        if not isinstance(array, pa.Array):
            raise IllegalArgumentException(f"column={shown(column)}: {kind(column)} is no Arrow array")
        prefix = written.prefix
        return pa.array(
            [None if one is None else prefix + one for one in written.codec.encode_column(array)], pa.binary()
        )


def schema_ids(column: "pa.Array | pa.ChunkedArray") -> "np.ndarray[Any, Any]":
    """The schema id of every row of a column of bytes: -1 where there is none (a GUID, or other bytes), -2 for null."""
    _need_numpy()
    import numpy as np
    import pyarrow as pa

    column = _bytes_column(column)
    count = len(column)
    found: np.ndarray[Any, Any] = np.full(count, _NO_ID, np.int64)
    if count:
        _, offsets_buffer, data = column.buffers()
        kind_ = np.int64 if pa.types.is_large_binary(column.type) else np.int32
        offsets = np.frombuffer(offsets_buffer, kind_)[column.offset : column.offset + count + 1].astype(
            np.int64
        )
        content = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
        starts = offsets[:-1]
        long_enough = np.flatnonzero(offsets[1:] - starts >= ID_PREFIX_BYTES)
        begins = starts[long_enough]
        ids = np.zeros(len(begins), np.int64)
        for byte in range(1, ID_PREFIX_BYTES):
            ids = ids << 8 | content[begins + byte]
        fits = (content[begins] == MAGIC_ID) & (ids <= SCHEMA_ID_MAX) if len(begins) else np.zeros(0, bool)
        found[long_enough[fits]] = ids[fits]
    if column.null_count:
        found[column.is_null().to_numpy(zero_copy_only=False)] = -2
    return found


def _need_numpy() -> None:
    need("numpy", "numpy", "a column with schemas")


def _bytes_column(column: "pa.Array | pa.ChunkedArray") -> "pa.Array":
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        column = _one_array(column)
    if not isinstance(column, pa.Array):
        raise IllegalArgumentException(f"column={shown(column)}: {kind(column)} is no Arrow array")
    if not (pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)):
        raise IllegalArgumentException(
            f"a column of {column.type} holds no bytes: give one of binary or large_binary"
        )
    return column


def _one_array(column: "pa.ChunkedArray") -> "pa.Array":
    import pyarrow as pa

    chunks: Sequence[Any] = column.chunks
    if len(chunks) == 1:
        return chunks[0]
    return pa.concat_arrays(chunks) if chunks else pa.array([], column.type)

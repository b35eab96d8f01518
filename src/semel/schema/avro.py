"""Avro payloads as Python values, and whole columns of them as Arrow.

Role.   `AvroCodec` reads and writes payloads of one schema; the serializers use it by record, `columns` by batch.
Rules.  * The bytes are fastavro's. A payload with bytes left over is refused: it was written with another schema.
        * A column is decoded record by record inside fastavro's C: a record does not say how long it is.
        * Times, dates and UUIDs of a column are cast by Arrow. No Python of ours runs per value.
        * With a reader schema, values are resolved to it as Avro says: missing fields get its defaults, others are left out.
Elsewhere. Avro's types in Arrow: `avro_types`.
"""

import io
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from semel.exceptions import SerializationException
from semel.schema.extra import need
from semel.schema.rules.avro import full_name, parsed, physical, whole
from semel.schema.rules.values import AVRO, Schema
from semel.words import shown

if TYPE_CHECKING:
    import pyarrow as pa

_PURPOSE: Final = "Avro"


class AvroCodec:
    """The payloads of one schema; `reader` is the schema they are resolved to."""

    schema_type = AVRO

    def __init__(
        self, schema: Schema, references: Mapping[str, Schema], reader: "AvroCodec | None" = None
    ) -> None:
        self._fastavro = need("fastavro", "fastavro", _PURPOSE)
        texts = {name: one.schema_str for name, one in references.items()}
        self.document = whole(schema.schema_str, texts)
        self.name = full_name(self.document)
        self.reader = reader
        self._parsed = self._parse(self.document)
        self._physical: Any = None

    def _parse(self, document: Any) -> Any:
        try:
            return self._fastavro.parse_schema(document)
        except Exception as error:  # fastavro's, and KeyError and TypeError of documents that are no schema.
            raise SerializationException(
                f"{shown(document)} is no Avro schema: {type(error).__name__}: {error}"
            ) from error

    def encode(self, value: Any) -> bytes:
        """The payload of a value."""
        return _write(self._fastavro, self._parsed, value)

    def decode(self, payload: bytes) -> Any:
        """The value of a payload."""
        reader = None if self.reader is None else self.reader._parsed
        return _read(self._fastavro, self._parsed, reader, payload)

    # Columns

    @property
    def arrow_type(self) -> "pa.DataType":
        """The type of a column of these values."""
        from semel.schema.avro_types import arrow_type

        return arrow_type((self.reader or self).document)

    def decode_rows(self, payloads: Iterable[bytes]) -> list[Any]:
        """The values behind `column_of`, one at a time, as far as they can be read."""
        reader = None if self.reader is None else self.reader._stripped()
        writer = self._stripped()
        return [_read(self._fastavro, writer, reader, payload) for payload in payloads]

    def column_of(self, rows: list[Any]) -> "pa.Array":
        """A column of what `decode_rows` gave; None is null."""
        from semel.schema.avro_types import to_logical

        return to_logical(rows, (self.reader or self).document)

    def encode_column(self, column: "pa.Array") -> list[bytes | None]:
        """The payloads of a column's values; null stays null."""
        from semel.schema.avro_types import to_physical

        schema = self._stripped()
        return [
            None if row is None else _write(self._fastavro, schema, row)
            for row in to_physical(column, self.document)
        ]

    def _stripped(self) -> Any:
        if self._physical is None:
            self._physical = self._parse(physical(self.document))
        return self._physical


def avro_name(schema_str: str) -> str | None:
    """The full name of a schema's record."""
    return full_name(parsed(schema_str))


def _read(fastavro: Any, writer: Any, reader: Any, payload: bytes) -> Any:
    content = io.BytesIO(payload)
    try:
        value = fastavro.schemaless_reader(content, writer, reader)
    except Exception as error:  # fastavro raises what its C meets: EOFError, IndexError, struct.error, …
        raise SerializationException(
            f"{len(payload)} bytes cannot be read with the Avro schema "
            f"{shown(full_name(writer) or writer)}: {type(error).__name__}: {error}"
        ) from error
    if content.tell() != len(payload):
        raise SerializationException(
            f"{len(payload) - content.tell()} of {len(payload)} bytes are left over behind a value of the Avro schema "
            f"{shown(full_name(writer) or writer)}: it was written with another schema"
        )
    return value


def _write(fastavro: Any, schema: Any, value: Any) -> bytes:
    content = io.BytesIO()
    try:
        fastavro.schemaless_writer(content, schema, value, strict_allow_default=True)
    except Exception as error:  # As above; its text names the field.
        raise SerializationException(
            f"{shown(value)} is no value of the Avro schema {shown(full_name(schema) or schema)}: {_why(error)}"
        ) from error
    return content.getvalue()


def _why(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__

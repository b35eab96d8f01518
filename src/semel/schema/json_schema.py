"""JSON payloads checked against a JSON Schema, as Python values and as columns.

Role.   `JsonCodec` reads and writes documents of one schema; the serializers use it by record, `columns` by batch.
Rules.  * Text is UTF-8 without spaces. A value is checked against the schema unless `validate` is False, on both ways.
        * References are resolved from the registry alone: no schema is fetched from the addresses in it.
        * In a column a part without one type is JSON text; see `rules.json_types`. Whole numbers above 64 bits do not fit one.
Cost.   jsonschema checks in plain Python, about 20 µs for a small record: `validate=False` where writers are trusted.
"""

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from semel.exceptions import SerializationException
from semel.schema.extra import need
from semel.schema.rules.json_types import TEXT, Fields, Items, Shape, shape
from semel.schema.rules.values import JSON, Schema
from semel.words import shown

if TYPE_CHECKING:
    import pyarrow as pa

_COMPACT: Final = (",", ":")
_SAID_MAX: Final = 300


class JsonCodec:
    """The documents of one schema."""

    schema_type = JSON

    def __init__(self, schema: Schema, references: Mapping[str, Schema], validate: bool = True) -> None:
        self.document = _parsed(schema.schema_str)
        title = self.document.get("title") if isinstance(self.document, Mapping) else None
        self.name: str | None = title if isinstance(title, str) else None
        self._validator = _validator(self.document, references) if validate else None
        self._shape = shape(self.document)

    def encode(self, value: Any) -> bytes:
        """The payload of a value."""
        try:
            text = json.dumps(value, separators=_COMPACT, ensure_ascii=False, allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise SerializationException(f"{shown(value)} is no JSON: {error}") from error
        self._check(json.loads(text), value)  # As readers see it: a tuple is a list, a key is text.
        return text

    def decode(self, payload: bytes) -> Any:
        """The value of a payload."""
        try:
            value = json.loads(payload)
        except (ValueError, RecursionError) as error:
            raise SerializationException(f"{shown(payload)} is no JSON: {error}") from error
        self._check(value, value)
        return value

    def _check(self, document: Any, given: Any) -> None:
        if self._validator is None:
            return
        try:
            error = next(self._validator.iter_errors(document), None)
        except Exception as unresolved:  # A `$ref` that leads nowhere.
            raise SerializationException(
                f"the JSON Schema cannot be applied: {str(unresolved)[:_SAID_MAX]}; register what it refers to as a reference"
            ) from unresolved
        if error is not None:
            where = "/".join(map(str, error.absolute_path)) or "the document"
            raise SerializationException(
                f"{shown(given)} breaks its JSON Schema at {where}: {str(error.message)[:_SAID_MAX]}"
            )

    # Columns

    @property
    def arrow_type(self) -> "pa.DataType":
        """The type of a column of these documents."""
        return _arrow(self._shape)

    def decode_rows(self, payloads: Iterable[bytes]) -> list[Any]:
        """The rows behind `column_of`, as far as they can be read."""
        return [_to_row(self.decode(payload), self._shape, "") for payload in payloads]

    def column_of(self, rows: list[Any]) -> "pa.Array":
        """A column of what `decode_rows` gave; None is null."""
        import pyarrow as pa

        try:
            return pa.array(rows, self.arrow_type)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise SerializationException(
                f"JSON values do not fit a column of {self.arrow_type}: {error}"
            ) from error

    def encode_column(self, column: "pa.Array") -> list[bytes | None]:
        """The payloads of a column's values; null stays null. Nulls inside are left out where the schema does not ask for them."""
        return [
            None if row is None else self.encode(_from_row(row, self._shape)) for row in column.to_pylist()
        ]


def _parsed(schema_str: str) -> Any:
    try:
        return json.loads(schema_str)
    except ValueError as error:
        raise SerializationException(f"{shown(schema_str)} is no JSON Schema: no JSON: {error}") from None


def _validator(document: Any, references: Mapping[str, Schema]) -> Any:
    jsonschema = need("jsonschema", "jsonschema", "checking values against a JSON Schema")
    referencing = need("referencing", "jsonschema", "references of a JSON Schema")
    jsonschema_of = need("referencing.jsonschema", "jsonschema", "references of a JSON Schema")
    kind = jsonschema.validators.validator_for(document, default=jsonschema.Draft7Validator)
    try:
        kind.check_schema(document)
    except jsonschema.SchemaError as error:
        raise SerializationException(
            f"{shown(document)} is no JSON Schema: {error.message[:_SAID_MAX]}"
        ) from error
    resources = [
        (
            name,
            referencing.Resource.from_contents(
                _parsed(one.schema_str), default_specification=jsonschema_of.DRAFT7
            ),
        )
        for name, one in references.items()
    ]
    return kind(document, registry=referencing.Registry().with_resources(resources))


def _arrow(found: Shape) -> "pa.DataType":
    import pyarrow as pa

    if isinstance(found, Fields):
        return pa.struct([pa.field(name, _arrow(one)) for name, one in found.of.items()])
    if isinstance(found, Items):
        return pa.list_(_arrow(found.of))
    plain = {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_(), "null": pa.null()}
    return plain.get(found, pa.string())


def _to_row(value: Any, found: Shape, where: str) -> Any:
    if value is None:
        return None
    if found == TEXT:
        return json.dumps(value, separators=_COMPACT, ensure_ascii=False)
    if isinstance(found, Fields) and isinstance(value, Mapping):
        if unknown := [name for name in value if name not in found.of]:
            raise SerializationException(
                f"{where or 'the document'} has {', '.join(map(str, unknown))}, which the JSON Schema does not name and no column "
                "would hold: name it in the schema, or read records with JSONDeserializer"
            )
        return {name: _to_row(value.get(name), one, f"{where}/{name}") for name, one in found.of.items()}
    if isinstance(found, Items) and isinstance(value, list):
        return [_to_row(one, found.of, f"{where}/{index}") for index, one in enumerate(value)]
    if found == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)  # 1.0 is an integer to a JSON Schema.
    return value


def _from_row(row: Any, found: Shape) -> Any:
    if row is None:
        return None
    if found == TEXT and isinstance(row, str):
        return _parsed_value(row)
    if isinstance(found, Fields) and isinstance(row, Mapping):
        return {
            name: _from_row(value, found.of.get(name, "")) for name, value in row.items() if value is not None
        }
    if isinstance(found, Items) and isinstance(row, list):
        return [_from_row(one, found.of) for one in row]
    return row


def _parsed_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise SerializationException(
            f"{shown(text)} is no JSON text, which this column is to hold: {error}"
        ) from None

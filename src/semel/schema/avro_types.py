"""Avro's types as Arrow's, and columns between the two.

Role.   `arrow_type` is the type of a column; `to_logical` and `to_physical` carry columns to it and from it.
Rules.  * int, long, float, double, boolean, bytes and string are what they are.
        * fixed is binary of its size. An enum is its text, a record a struct, a map a map.
        * date, time-*, timestamp-* (UTC), local-timestamp-* (no zone) and decimal are Arrow's types of that meaning; uuid is a text.
        * A union with null is nullable. A union of several others has no column: it is refused with its place and the way out.
        * So is a record that contains itself.
"""

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from semel.exceptions import SerializationException
from semel.schema.rules.avro import full_name
from semel.words import shown

_PLAIN: Final = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL: Final = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-nanos"): pa.timestamp("ns", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
}
_DECIMAL128_MAX: Final = 38
_DECIMAL256_MAX: Final = 76


def arrow_type(document: Any) -> pa.DataType:
    """The type of a column of a schema's values."""
    return _Types(document, is_logical=True).found


def to_logical(rows: list[Any], document: Any) -> pa.Array:
    """A column of what fastavro read with the stripped schema."""
    stored, logical = _Types(document, is_logical=False).found, arrow_type(document)
    try:
        column = pa.array(rows, stored)
        return column if stored == logical else column.cast(logical)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise SerializationException(f"Avro values do not fit a column of {logical}: {error}") from error


def to_physical(column: pa.Array, document: Any) -> list[Any]:
    """The values of a column as fastavro writes them with the stripped schema."""
    stored, logical = _Types(document, is_logical=False).found, arrow_type(document)
    try:
        found = column if column.type == logical else _fitted(column, logical)
        return list((found if stored == logical else found.cast(stored)).to_pylist(maps_as_pydicts="strict"))
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, KeyError, ValueError) as error:
        raise SerializationException(
            f"a column of {column.type} does not fit the Avro schema's {logical}: {error}"
        ) from error


def _fitted(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The column with the schema's fields by name, in the schema's order; nothing is dropped, and nothing made up."""
    if not pa.types.is_struct(wanted) or not pa.types.is_struct(column.type):
        return column.cast(wanted)
    given = [column.type.field(index).name for index in range(column.type.num_fields)]
    names = [wanted.field(index).name for index in range(wanted.num_fields)]
    if unknown := [name for name in given if name not in names]:
        raise SerializationException(
            f"column {', '.join(unknown)} is no field of the schema, which has {', '.join(names)}: leave it out, or register a "
            "schema that has it"
        )
    if missing := [name for name in names if name not in given and not wanted.field(name).nullable]:
        raise SerializationException(
            f"the schema's field {', '.join(missing)} is no column, and cannot be null: add it"
        )
    children = [
        _fitted(column.field(name), wanted.field(name).type)
        if name in given
        else pa.nulls(len(column), wanted.field(name).type)
        for name in names
    ]
    fields = [wanted.field(name) for name in names]
    return pa.StructArray.from_arrays(children, fields=fields, mask=column.is_null())


class _Types:
    """One walk over a schema."""

    def __init__(self, document: Any, *, is_logical: bool) -> None:
        self._is_logical = is_logical
        self._named: dict[str, pa.DataType | None] = {}
        self.found = self._type(document, "", "value")[0]

    def _type(self, schema: Any, namespace: str, where: str) -> tuple[pa.DataType, bool]:
        """The type, and whether it may be null."""
        if isinstance(schema, list):
            return self._union(schema, namespace, where)
        if isinstance(schema, str):
            return self._word(schema, namespace, where), schema == "null"
        if not isinstance(schema, Mapping):
            raise SerializationException(f"{where}: {shown(schema)} is no Avro schema")
        kind = schema.get("type")
        if isinstance(kind, Mapping | list):
            return self._type(kind, namespace, where)
        match kind:
            case "record" | "error":
                return self._record(schema, namespace, where), False
            case "array":
                item, may_be_null = self._type(schema["items"], namespace, f"{where}[]")
                return pa.list_(pa.field("item", item, may_be_null)), False
            case "map":
                item, may_be_null = self._type(schema["values"], namespace, f"{where}{{}}")
                return pa.map_(pa.string(), pa.field("value", item, may_be_null)), False
            case "enum" | "fixed":
                found = pa.string() if kind == "enum" else self._fixed(schema)
                self._named[full_name(schema, namespace) or ""] = found
                return found, False
        return self._annotated(schema, str(kind), namespace, where), kind == "null"

    def _union(self, schema: list[Any], namespace: str, where: str) -> tuple[pa.DataType, bool]:
        others = [one for one in schema if one != "null"]
        if len(others) > 1:
            raise SerializationException(
                f"{where} is a union of several types, which no Arrow column has: read records with AvroDeserializer, or give "
                "a reader schema with one of them"
            )
        found = self._type(others[0], namespace, where)[0] if others else pa.null()
        return found, len(others) < len(schema)

    def _word(self, name: str, namespace: str, where: str) -> pa.DataType:
        if name in _PLAIN:
            return _PLAIN[name]
        for candidate in (name if "." in name or not namespace else f"{namespace}.{name}", name):
            if candidate in self._named:
                found = self._named[candidate]
                if found is None:
                    raise SerializationException(
                        f"{where}: {candidate} contains itself, which no Arrow column does: read records with AvroDeserializer"
                    )
                return found
        raise SerializationException(f"{where}: nothing in the schema is called {name}")

    def _record(self, schema: Mapping[str, Any], namespace: str, where: str) -> pa.DataType:
        name = full_name(schema, namespace) or ""
        self._named[name] = None  # Under construction.
        inside = name.rpartition(".")[0]
        fields = []
        for one in schema["fields"]:
            kind, may_be_null = self._type(one["type"], inside, f"{where}.{one['name']}")
            fields.append(pa.field(one["name"], kind, may_be_null))
        found = self._named[name] = pa.struct(fields)
        return found

    def _fixed(self, schema: Mapping[str, Any]) -> pa.DataType:
        return self._decimal(schema) or pa.binary(schema["size"])

    def _annotated(self, schema: Mapping[str, Any], kind: str, namespace: str, where: str) -> pa.DataType:
        if kind == "bytes" and (decimal := self._decimal(schema)) is not None:
            return decimal
        logical = schema.get("logicalType")
        if self._is_logical and isinstance(logical, str) and (kind, logical) in _LOGICAL:
            return _LOGICAL[kind, logical]
        return self._word(kind, namespace, where)

    def _decimal(self, schema: Mapping[str, Any]) -> pa.DataType | None:
        if schema.get("logicalType") != "decimal":
            return None
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        if (
            not isinstance(precision, int)
            or not 0 < precision <= _DECIMAL256_MAX
            or not isinstance(scale, int)
        ):
            return None  # As Avro asks for: an annotation that is wrong is ignored.
        if precision <= _DECIMAL128_MAX:
            return pa.decimal128(precision, scale)
        return pa.decimal256(precision, scale)

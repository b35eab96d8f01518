"""Avro schemas as JSON documents: made whole, and stripped for columns.

Role.   `whole` puts referenced definitions into a schema; `full_name` names it; `physical` takes the annotations off for
        which Arrow has faster ways than an object per value.
Rules.  * A definition stands where its name is used first, as Avro asks for. Names without a dot belong to the namespace around.
        * `decimal` stays annotated, because its digits need the library; dates, times and UUIDs are read as the numbers and
          texts they are stored as, and cast as columns.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from semel.exceptions import SerializationException
from semel.words import shown

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED: Final = frozenset({"record", "error", "enum", "fixed"})
_STRIPPED: Final = frozenset(
    {
        "date",
        "time-millis",
        "time-micros",
        "timestamp-millis",
        "timestamp-micros",
        "timestamp-nanos",
        "local-timestamp-millis",
        "local-timestamp-micros",
        "local-timestamp-nanos",
        "uuid",
        "duration",
    }
)


def parsed(schema_str: str) -> Any:
    """The document of a schema's text. A bare word is a schema too: `string`, and so is `"string"`."""
    try:
        return json.loads(schema_str)
    except ValueError as error:
        if schema_str.strip() in PRIMITIVES:
            return schema_str.strip()
        raise SerializationException(f"{shown(schema_str)} is no Avro schema: no JSON: {error}") from None


def whole(schema_str: str, references: Mapping[str, str]) -> Any:
    """The schema with the definitions of those it refers to, each where its name is used first."""
    definitions: dict[str, Any] = {}
    for name, text in references.items():
        document = parsed(text)
        definitions[name] = document
        definitions.setdefault(full_name(document) or name, document)
    document = parsed(schema_str)
    return _Whole(definitions).of(document, "") if definitions else document


class _Whole:
    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self._defined: set[str] = set()

    def of(self, schema: Any, namespace: str) -> Any:
        if isinstance(schema, str):
            return self._named(schema, namespace)
        if isinstance(schema, list):
            return [self.of(one, namespace) for one in schema]
        if not isinstance(schema, Mapping):
            return schema
        found = dict(schema)
        kind = found.get("type")
        if kind in NAMED:
            name = full_name(found, namespace) or ""
            self._defined.add(name)
            namespace = name.rpartition(".")[0]
            if isinstance(fields := found.get("fields"), list):
                found["fields"] = [{**one, "type": self.of(one.get("type"), namespace)} for one in fields]
        elif kind == "array":
            found["items"] = self.of(found.get("items"), namespace)
        elif kind == "map":
            found["values"] = self.of(found.get("values"), namespace)
        elif kind is not None:
            found["type"] = self.of(kind, namespace)
        return found

    def _named(self, name: str, namespace: str) -> Any:
        if name in PRIMITIVES:
            return name
        spelled = name if "." in name or not namespace else f"{namespace}.{name}"
        for candidate in (spelled, name):
            if candidate in self._defined:
                return candidate
            if candidate in self._definitions:
                definition = self._definitions[candidate]
                if isinstance(definition, Mapping) and "." not in str(definition.get("name", "")):
                    definition = {"namespace": "", **definition}  # Not the one around the place it is put.
                return self.of(definition, "")
        return name


def full_name(schema: Any, namespace: str = "") -> str | None:
    """The name of a named schema, with its namespace."""
    if not isinstance(schema, Mapping) or not isinstance(schema.get("name"), str):
        return None
    name: str = schema["name"]
    if "." in name:
        return name
    inside = schema.get("namespace", namespace)
    return f"{inside}.{name}" if inside else name


def physical(schema: Any) -> Any:
    """The schema without the annotations that columns apply themselves."""
    if isinstance(schema, list):
        return [physical(one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    found = {
        name: value for name, value in schema.items() if name not in ("fields", "items", "values", "type")
    }
    if found.get("logicalType") in _STRIPPED:
        del found["logicalType"]
    for name in ("items", "values", "type"):
        if name in schema:
            found[name] = physical(schema[name])
    if "fields" in schema:
        found["fields"] = [{**one, "type": physical(one["type"])} for one in schema["fields"]]
    return found

"""The shape of a JSON Schema, for columns: which parts have one type.

Role.   `shape` walks a schema and gives a `Shape`: an object's fields, a list's items, a plain type, or text.
Rules.  * A part whose type is not one (anyOf, several types, no type, free keys) is `TEXT`:
          a column holds it as JSON text.
        * `$ref` inside the document is followed; one that leads out of it, or into itself, is TEXT.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

TEXT: Final = "json"
_PLAIN: Final = frozenset({"string", "integer", "number", "boolean", "null"})
_DEPTH_MAX: Final = 50


@dataclass(frozen=True, slots=True)
class Fields:
    """An object with known keys."""

    of: Mapping[str, "Shape"]


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    of: "Shape"


Shape: TypeAlias = str | Fields | Items


def shape(document: Any) -> Shape:
    """The shape of a schema's values."""
    return _shape(document, document, 0)


def _shape(schema: Any, root: Any, depth: int) -> Shape:
    if not isinstance(schema, Mapping) or depth > _DEPTH_MAX:
        return TEXT
    if isinstance(reference := schema.get("$ref"), str):
        found = _target(reference, root)
        return TEXT if found is None else _shape(found, root, depth + 1)
    kinds = schema.get("type")
    if isinstance(kinds, list):
        kinds = [one for one in kinds if one != "null"]
        kind = kinds[0] if len(kinds) == 1 else None
    else:
        kind = kinds
    if kind in _PLAIN:
        return str(kind)
    if kind == "array" and isinstance(schema.get("items"), Mapping):
        return Items(_shape(schema["items"], root, depth + 1))
    fields = schema.get("properties")
    if kind == "object" and isinstance(fields, Mapping) and fields and not _has_free_keys(schema):
        return Fields({str(name): _shape(one, root, depth + 1) for name, one in fields.items()})
    return TEXT


def _has_free_keys(schema: Mapping[str, Any]) -> bool:
    return isinstance(schema.get("additionalProperties"), Mapping) or "patternProperties" in schema


def _target(reference: str, root: Any) -> Any:
    if not reference.startswith("#"):
        return None
    found = root
    for part in reference.removeprefix("#").strip("/").split("/"):
        key = part.replace("~1", "/").replace("~0", "~")
        if not key:
            continue
        if not isinstance(found, Mapping) or key not in found:
            return None
        found = found[key]
    return found

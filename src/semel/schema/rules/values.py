"""Schemas as values, and the words a registry has for them.

Role.   `registry` sends and receives these; serializers and columns work with them.
Rules.  * A schema is its text, its type and its references: equal ones have one id in a registry.
        * Functions named `…_of` read a registry's JSON into these values; an answer of another shape is refused with what is missing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from semel.exceptions import IllegalArgumentException
from semel.words import shown

AVRO: Final = "AVRO"
PROTOBUF: Final = "PROTOBUF"
JSON: Final = "JSON"
SCHEMA_TYPES: Final = (AVRO, PROTOBUF, JSON)
COMPATIBILITIES: Final = (
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
    "NONE",
)
LATEST: Final = "latest"
VERSION_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class SchemaReference:
    """A schema another one uses: the name it uses, and where the registry has it."""

    name: str
    subject: str
    version: int

    def document(self) -> dict[str, Any]:
        return {"name": self.name, "subject": self.subject, "version": self.version}


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema as it is registered."""

    schema_str: str
    schema_type: str = AVRO
    references: tuple[SchemaReference, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.schema_str, str) or not self.schema_str.strip():
            raise IllegalArgumentException(
                f"schema_str={shown(self.schema_str)}: a schema is a text, not an empty one"
            )
        if self.schema_type not in SCHEMA_TYPES:
            raise IllegalArgumentException(
                f"schema_type={shown(self.schema_type)}: use {', '.join(SCHEMA_TYPES)}"
            )
        object.__setattr__(self, "references", tuple(self.references))

    def document(self) -> dict[str, Any]:
        """The body of a request that registers it or asks for it."""
        found: dict[str, Any] = {"schema": self.schema_str}
        if self.schema_type != AVRO:  # The default: old registries know no other and refuse the field.
            found["schemaType"] = self.schema_type
        if self.references:
            found["references"] = [one.document() for one in self.references]
        return found


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema in a registry. `subject` and `version` are None where it was asked for by its id."""

    schema_id: int
    schema: Schema
    subject: str | None = None
    version: int | None = None
    guid: str | None = None

    def __str__(self) -> str:
        where = "" if self.subject is None else f" ({self.subject} version {self.version})"
        return f"schema id {self.schema_id}{where}"


@dataclass(frozen=True, slots=True)
class Compatibility:
    """Whether a schema may be registered, and why not as far as the registry says it."""

    is_compatible: bool
    messages: tuple[str, ...] = field(default=())

    def __bool__(self) -> bool:
        return self.is_compatible


class AnswerShapeError(Exception):
    """An answer in a registry's name that a registry does not give."""


def schema_of(document: object) -> Schema:
    """The schema in an answer."""
    found = _mapping(document)
    references = found.get("references") or ()
    if not isinstance(references, Sequence):
        raise AnswerShapeError("`references` is no list")
    try:
        return Schema(
            _text(found, "schema"),
            str(found.get("schemaType") or AVRO),
            tuple(_reference(one) for one in references),
        )
    except IllegalArgumentException as error:
        raise AnswerShapeError(str(error)) from error


def registered_of(
    document: object, *, schema_id: int | None = None, schema: Schema | None = None
) -> RegisteredSchema:
    """A registered schema in an answer; what the question knew already need not be in it."""
    found = _mapping(document)
    guid, subject, version = found.get("guid"), found.get("subject"), found.get("version")
    return RegisteredSchema(
        schema_id=whole(found, "id") if schema_id is None else schema_id,
        schema=schema_of(found) if schema is None else schema,
        subject=None if subject is None else str(subject),
        version=None if version is None else whole(found, "version"),
        guid=None if guid is None else str(guid),
    )


def compatibility_of(document: object) -> Compatibility:
    """The verdict in an answer."""
    found = _mapping(document)
    verdict = found.get("is_compatible")
    if not isinstance(verdict, bool):
        raise AnswerShapeError("`is_compatible` is missing")
    messages = found.get("messages") or ()
    return Compatibility(verdict, tuple(map(str, messages)) if isinstance(messages, Sequence) else ())


def whole(document: Mapping[str, Any], name: str) -> int:
    """A whole number in an answer."""
    value = document.get(name)
    if type(value) is not int or not 0 <= value <= VERSION_MAX:
        raise AnswerShapeError(f"`{name}` is {shown(value)}, not a whole number")
    return value


def checked_version(given: object) -> str:
    """A version in a question: a whole number from 1 on, or `latest`."""
    if given == LATEST or (
        isinstance(given, int) and not isinstance(given, bool) and 0 < given <= VERSION_MAX
    ):
        return str(given)
    raise IllegalArgumentException(f"version={shown(given)}: use a whole number from 1 on, or {LATEST!r}")


def checked_compatibility(given: object) -> str:
    """A level in a question."""
    level = str(given).upper()
    if level not in COMPATIBILITIES:
        raise IllegalArgumentException(
            f"compatibility={shown(given)}: use one of {', '.join(COMPATIBILITIES)}"
        )
    return level


def _mapping(document: object) -> Mapping[str, Any]:
    if not isinstance(document, Mapping):
        raise AnswerShapeError(f"{shown(document)} is no object")
    return document


def _text(document: Mapping[str, Any], name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str):
        raise AnswerShapeError(f"`{name}` is {shown(value)}, not a text")
    return value


def _reference(document: object) -> SchemaReference:
    found = _mapping(document)
    return SchemaReference(_text(found, "name"), _text(found, "subject"), whole(found, "version"))

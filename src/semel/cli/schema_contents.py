"""Keys and values with a schema, as JSON: what `consume --decode` prints and `produce --schema` reads.

Role.   `Decoded` shows bytes by the schema they name; `Encoded` stores values under a topic's schema. Both are `Contents`.
Flow.   `schema_options` makes them of the options of a command.
Rules.  * `auto` leaves bytes as they are that name no schema, or an id the registry does not know: other bytes may begin with a
          zero. A registry that cannot be reached is an error, never taken for one that does not know.
        * Times are shown as ISO 8601, decimals and UUIDs as texts, bytes as base64; infinity and NaN by their names.
        * To be stored, Avro's times are numbers as they are stored; Protobuf takes its own JSON. Keys are stored as they are.
"""

import base64
import datetime as dt
import decimal
import json
import math
import uuid
from collections.abc import Mapping
from typing import Any, Final

from semel.cli.contents import as_bytes
from semel.cli.output import Json
from semel.exceptions import SerializationException
from semel.schema.codecs import Registry
from semel.schema.errors import SchemaNotFoundError
from semel.schema.rules.framing import is_framed
from semel.schema.rules.values import AVRO, JSON, PROTOBUF
from semel.schema.serializers import SchemaDeserializer
from semel.schema.writing import Writing
from semel.words import shown as short

_WANTED: Final = {"auto": None, "avro": AVRO, "json": JSON, "protobuf": PROTOBUF}


class Decoded:
    """Bytes shown as their schema says. `kind`: auto, or the one type that values must have."""

    def __init__(self, registry: Registry, kind: str) -> None:
        self._read = SchemaDeserializer(
            registry, validate=False
        ).read  # The stored value is shown, valid or not.
        self._wanted = _WANTED[kind]

    def shown(self, _topic: str, is_key: bool, data: bytes) -> Json | bytes:
        is_strict = self._wanted is not None and not is_key
        if not is_strict and not is_framed(data):
            return data
        field = "key" if is_key else "value"
        try:
            return as_json(self._read(field, data, (), wanted=self._wanted if is_strict else None))
        except SchemaNotFoundError as error:
            if is_strict:
                raise SerializationException(str(error)) from error
            return data

    def stored(self, _topic: str, _is_key: bool, value: Json | bytes) -> bytes:
        return as_bytes(value)


class Encoded:
    """Values stored under a schema: a line is JSON text, the value of a row of JSON is itself."""

    def __init__(self, writing: Writing) -> None:
        self._writing = writing

    def shown(self, _topic: str, _is_key: bool, data: bytes) -> Json | bytes:
        return data

    def stored(self, topic: str, is_key: bool, value: Json | bytes) -> bytes:
        if is_key:
            return as_bytes(value)
        written = self._writing.of(topic, "value")
        if isinstance(value, bytes):
            try:
                value = json.loads(value)
            except ValueError as error:
                raise SerializationException(
                    f"{short(value)} is not JSON: {error}; with --schema a value is JSON"
                ) from None
        return written.prefix + written.codec.encode(value)


def as_json(value: Any) -> Json:
    """A decoded value as JSON has it."""
    if hasattr(value, "DESCRIPTOR"):
        from google.protobuf import json_format

        found: Json = json_format.MessageToDict(value, preserving_proto_field_name=True)
        return found
    if isinstance(value, Mapping):
        return {str(name): as_json(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(one) for one in value]
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, decimal.Decimal | uuid.UUID) or (
        isinstance(value, float) and not math.isfinite(value)
    ):
        return str(value)
    plain: Json = value
    return plain

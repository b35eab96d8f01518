"""Records with a schema as JSON text: for people, and for commands that print and read lines.

Role.   `TextDeserializer` gives a key or value as JSON, `TextSerializer` takes JSON. `semel consume --decode` and `semel produce --schema`
        hand them to their clients.
Rules.  * `auto` leaves bytes as they are that name no schema, or an id the registry does not know: other bytes may begin with a
          zero. A registry that cannot be reached is an error, never taken for one that does not know.
        * Times are ISO 8601, decimals and UUIDs texts, bytes base64; infinity and NaN are their names.
        * On the way in, Avro's times are numbers as they are stored; Protobuf takes its own JSON.
"""

import base64
import datetime as dt
import decimal
import json
import math
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Final

from semel.exceptions import SerializationException
from semel.schema.codecs import Registry
from semel.schema.errors import SchemaNotFoundError
from semel.schema.rules.framing import header_frame, is_framed
from semel.schema.rules.values import AVRO, JSON, PROTOBUF
from semel.schema.serializers import SchemaDeserializer
from semel.schema.writing import Writing
from semel.words import shown

_WANTED: Final = {"auto": None, "avro": AVRO, "json": JSON, "protobuf": PROTOBUF}
KINDS: Final = tuple(_WANTED)


class TextDeserializer(SchemaDeserializer):
    """Keys and values as JSON text in bytes. `kind`: auto, or the one type values must have."""

    def __init__(self, schema_registry_client: Registry, kind: str = "auto") -> None:
        super().__init__(schema_registry_client, validate=False)  # The stored value is shown, valid or not.
        self._wanted = _WANTED[kind]

    def deserialize_for(
        self,
        _topic: str | None,
        field: str,
        data: bytes | None,
        headers: Iterable[tuple[str, bytes | None]] = (),
    ) -> Any:
        is_strict = self._wanted is not None and field == "value"
        headers = tuple(headers)
        if data is None or (not is_strict and not is_framed(data) and header_frame(headers, field) is None):
            return data
        try:
            value = self.read(field, data, headers, wanted=self._wanted if is_strict else None)
        except SchemaNotFoundError:
            if is_strict:
                raise
            return data
        return as_json(value)


class TextSerializer:
    """JSON text as the bytes of a schema. `writing` says which."""

    def __init__(self, writing: Writing) -> None:
        self._writing = writing

    def __call__(self, value: Any) -> bytes | None:
        return self.serialize_for(None, "value", value)

    def serialize_for(self, topic: str | None, field: str, value: Any) -> bytes | None:
        """The bytes of a line."""
        written = self._writing.of(topic, field)
        try:
            document = json.loads(value)
        except ValueError as error:
            raise SerializationException(f"the line {shown(value)} is no JSON: {error}") from None
        return None if document is None else written.prefix + written.codec.encode(document)


def as_json(value: Any) -> bytes:
    """A value as JSON text."""
    if hasattr(value, "DESCRIPTOR"):
        from google.protobuf import json_format

        value = json_format.MessageToDict(value, preserving_proto_field_name=True)
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":")).encode()


def _plain(value: Any) -> Any:
    """The value as JSON has it."""
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, decimal.Decimal | uuid.UUID):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value

"""A message as JSON, with the names and formats of Apache Kafka's tools.

Role.   `kafka_json` turns a message, or a row of an internal topic, into values that `json` writes.
Rules.  * Only the fields of the version; tagged ones are left out while they have their default.
        * Bytes are base64; topic ids are as Kafka prints them: base64 with - and _, without padding.
"""

import base64
import re
from typing import TypeAlias

from semel.core.wire.schema import BYTES, RECORDS, UUID, Field, Struct, Value, fields_of

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"


def kafka_json(message: Struct, version: int) -> dict[str, Json]:
    """The message as Kafka's JsonConverter reads and writes it."""
    out: dict[str, Json] = {}
    for field in fields_of(type(message)):
        value = getattr(message, field.name)
        if version in field.versions and (field.tag is None or not field.is_default(value)):
            out[camel(field.name)] = _json_value(field, value, version)
    return out


def _json_value(field: Field, value: Value, version: int) -> Json:
    if isinstance(value, list):
        return [_json_value(field, one, version) for one in value]
    if isinstance(value, Struct):
        return kafka_json(value, version)
    if value is not None and field.kind is UUID:
        return base64.urlsafe_b64encode(value).decode().rstrip("=")
    if value is not None and field.kind in (BYTES, RECORDS):
        return base64.b64encode(value).decode()
    plain: Json = value
    return plain


def camel(name: str) -> str:
    """Kafka's spelling of a field's name in JSON."""
    name = name.replace("enable_2pc", "enable2_pc").replace("is_kraft", "is_k_raft")
    return re.sub(r"_([a-z0-9])", lambda found: found.group(1).upper(), name)

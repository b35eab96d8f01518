"""Schemas of message classes that protoc made.

Role.   `schema_of_class` registers the files a class's file imports and gives the schema of the file itself.
Rules.  * A file is registered as its descriptor in base64. An imported file's subject is its name. confluent-kafka's Python client
          does the same, so both get the same ids.
        * Google's own files (google/protobuf/…) are known everywhere and are not registered.
"""

import base64
from collections.abc import Mapping
from typing import Any

from semel.exceptions import SerializationException
from semel.schema.registry import SchemaRegistryClient
from semel.schema.rules.values import PROTOBUF, Schema, SchemaReference
from semel.words import kind, shown


def schema_of_class(
    msg_type: Any, client: SchemaRegistryClient, conf: Mapping[str, Any] | None
) -> tuple[Schema, str]:
    """The schema of a class's file, and the name of its message."""
    descriptor = getattr(msg_type, "DESCRIPTOR", None)
    if descriptor is None or not hasattr(descriptor, "file"):
        raise SerializationException(
            f"msg_type={shown(msg_type)}: {kind(msg_type)} is neither a message class nor the text of a .proto file"
        )
    registers = (conf or {}).get("auto.register.schemas", True)
    return _schema(descriptor.file, client, registers=bool(registers)), descriptor.full_name


def _schema(file: Any, client: SchemaRegistryClient, *, registers: bool) -> Schema:
    references = []
    for used in file.dependencies:
        if used.name.startswith("google/protobuf/"):
            continue
        schema = _schema(used, client, registers=registers)
        if registers:
            client.register_schema(used.name, schema)
        version = client.lookup_schema(used.name, schema).version
        if version is None:
            raise SerializationException(f"the registry names no version of subject {used.name}")
        references.append(SchemaReference(used.name, used.name, version))
    return Schema(base64.b64encode(file.serialized_pb).decode(), PROTOBUF, tuple(references))

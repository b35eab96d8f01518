"""Schemas of keys and values, kept in a registry that speaks Confluent's protocol: the public names, nothing else.

They load lazily. Avro, Protobuf and JSON Schema need the extra `semel[schema]`; the client of the registry alone needs nothing.
"""

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from semel.schema.columns import ColumnDecoder, ColumnEncoder, schema_ids
    from semel.schema.errors import (
        IncompatibleSchemaError,
        RegistryUnreachableError,
        SchemaNotFoundError,
        SchemaRegistryError,
    )
    from semel.schema.registry import AsyncSchemaRegistryClient, SchemaRegistryClient
    from semel.schema.rules.subjects import (
        MessageField,
        SerializationContext,
        record_subject_name_strategy,
        topic_record_subject_name_strategy,
        topic_subject_name_strategy,
    )
    from semel.schema.rules.values import Compatibility, RegisteredSchema, Schema, SchemaReference
    from semel.schema.serializers import (
        AvroDeserializer,
        AvroSerializer,
        JSONDeserializer,
        JSONSerializer,
        ProtobufDeserializer,
        ProtobufSerializer,
        SchemaDeserializer,
    )

_HOMES: Final = {
    "AsyncSchemaRegistryClient": "registry",
    "AvroDeserializer": "serializers",
    "AvroSerializer": "serializers",
    "ColumnDecoder": "columns",
    "ColumnEncoder": "columns",
    "Compatibility": "rules.values",
    "IncompatibleSchemaError": "errors",
    "JSONDeserializer": "serializers",
    "JSONSerializer": "serializers",
    "MessageField": "rules.subjects",
    "ProtobufDeserializer": "serializers",
    "ProtobufSerializer": "serializers",
    "RegisteredSchema": "rules.values",
    "RegistryUnreachableError": "errors",
    "Schema": "rules.values",
    "SchemaDeserializer": "serializers",
    "SchemaNotFoundError": "errors",
    "SchemaReference": "rules.values",
    "SchemaRegistryClient": "registry",
    "SchemaRegistryError": "errors",
    "SerializationContext": "rules.subjects",
    "record_subject_name_strategy": "rules.subjects",
    "schema_ids": "columns",
    "topic_record_subject_name_strategy": "rules.subjects",
    "topic_subject_name_strategy": "rules.subjects",
}

__all__ = [
    "AsyncSchemaRegistryClient",
    "AvroDeserializer",
    "AvroSerializer",
    "ColumnDecoder",
    "ColumnEncoder",
    "Compatibility",
    "IncompatibleSchemaError",
    "JSONDeserializer",
    "JSONSerializer",
    "MessageField",
    "ProtobufDeserializer",
    "ProtobufSerializer",
    "RegisteredSchema",
    "RegistryUnreachableError",
    "Schema",
    "SchemaDeserializer",
    "SchemaNotFoundError",
    "SchemaReference",
    "SchemaRegistryClient",
    "SchemaRegistryError",
    "SerializationContext",
    "record_subject_name_strategy",
    "schema_ids",
    "topic_record_subject_name_strategy",
    "topic_subject_name_strategy",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'semel.schema' has no attribute {name!r}")
    return getattr(importlib.import_module(f"semel.schema.{home}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

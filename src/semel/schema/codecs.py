"""Which codec reads a schema: one table, and the codecs made so far.

Role.   `Codecs` gives the codec of a schema a record names, or of one about to be written; serializers, columns and Spark's helpers
        hold one each.
Rules.  * A codec is made once per schema, up to `CODECS_MAX`; then the oldest goes.
        * Any thread may ask; two that miss at once may both make it, and one is kept.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from semel.exceptions import SerializationException
from semel.schema.registry import AsyncSchemaRegistryClient, SchemaRegistryClient
from semel.schema.rules.framing import Frame
from semel.schema.rules.values import AVRO, JSON, PROTOBUF, RegisteredSchema, Schema
from semel.schema.settings import RegistrySettings

if TYPE_CHECKING:
    import pyarrow as pa

CODECS_MAX: Final = 1000
Registry = SchemaRegistryClient | AsyncSchemaRegistryClient | RegistrySettings
"""A registry as a user names it: a client, settings, or a URL."""


class Codec(Protocol):
    """Payloads of one schema."""

    schema_type: str
    name: str | None
    """The full name of the record."""

    def encode(self, value: Any) -> bytes: ...
    def decode(self, payload: bytes) -> Any: ...
    @property
    def arrow_type(self) -> "pa.DataType": ...
    def decode_rows(self, payloads: Iterable[bytes]) -> list[Any]: ...
    def column_of(self, rows: list[Any]) -> "pa.Array": ...
    def encode_column(self, column: "pa.Array") -> list[bytes | None]: ...


def client_of(given: Registry) -> SchemaRegistryClient:
    """The blocking client behind what a user gave."""
    if isinstance(given, SchemaRegistryClient):
        return given
    if isinstance(given, AsyncSchemaRegistryClient):
        return given.blocking
    return SchemaRegistryClient(given)


def codec_of(
    schema: Schema,
    references: Mapping[str, Schema],
    *,
    reader: Schema | None = None,
    message: str | None = None,
    validate: bool = True,
) -> Codec:
    """The codec of a schema. `reader`: Avro's values are resolved to it; `message`: of a Protobuf file; `validate`: JSON."""
    if schema.schema_type == AVRO:
        from semel.schema.avro import AvroCodec

        if reader is not None and reader.schema_type != AVRO:
            raise SerializationException(
                f"the reader schema is {reader.schema_type}, the values are Avro: they do not meet"
            )
        return AvroCodec(schema, references, None if reader is None else AvroCodec(reader, {}))
    if schema.schema_type == PROTOBUF:
        from semel.schema.protobuf import ProtobufCodec

        return ProtobufCodec(schema, references, message)
    from semel.schema.json_schema import JsonCodec

    return JsonCodec(schema, references, validate)


class Codecs:
    """The codecs made so far, of the schemas of one registry."""

    def __init__(self, registry: Registry, *, reader: Schema | None = None, validate: bool = True) -> None:
        self.client = client_of(registry)
        self._reader = reader
        self._validate = validate
        self._made: dict[tuple[object, str | None], Codec] = {}

    def framed(self, frame: Frame, *, wanted: str | None = None, message: str | None = None) -> Codec:
        """The codec of the schema a record names; `wanted` is the type it must have."""
        key = (frame.guid if frame.schema_id is None else frame.schema_id, message)
        codec = self._made.get(key)
        if codec is None:
            codec = self._keep(key, self.client.get_framed(frame), message)
        if wanted is not None and codec.schema_type != wanted:
            raise SerializationException(
                f"{frame} is a schema of {_NAMES[codec.schema_type]}, not of {_NAMES[wanted]}: use "
                f"{_DESERIALIZERS[codec.schema_type]}, or SchemaDeserializer, which reads all of them"
            )
        return codec

    def of(self, schema: Schema, *, message: str | None = None) -> Codec:
        """The codec of a schema to write."""
        key = (schema, message)
        found = self._made.get(key)
        if found is None:
            found = self._keep(key, RegisteredSchema(0, schema), message)
        return found

    def _keep(
        self, key: tuple[object, str | None], registered: RegisteredSchema, message: str | None
    ) -> Codec:
        schema = registered.schema
        try:
            codec = codec_of(
                schema,
                self.client.get_references(schema),
                reader=self._reader if schema.schema_type == AVRO else None,
                message=message,
                validate=self._validate,
            )
        except SerializationException as error:
            if registered.schema_id > 0:
                raise SerializationException(f"schema id {registered.schema_id}: {error}") from error
            raise
        if len(self._made) >= CODECS_MAX:
            self._made.pop(next(iter(self._made)), None)
        self._made[key] = codec
        return codec


_NAMES: Final = {AVRO: "Avro", PROTOBUF: "Protobuf", JSON: "JSON"}
_DESERIALIZERS: Final = {AVRO: "AvroDeserializer", PROTOBUF: "ProtobufDeserializer", JSON: "JSONDeserializer"}

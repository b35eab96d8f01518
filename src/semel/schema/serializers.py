"""Serializers and deserializers for keys and values with a schema: for `value.serializer` and its kin.

Role.   A producer or consumer is given one; names and arguments are confluent-kafka's. `SchemaDeserializer` reads
        whatever type the record's schema has.
Flow.   A producer calls `serialize_for` with the record's topic, a consumer `deserialize_for` with the record's headers. Called as
        functions they take confluent-kafka's context, or none where the subject needs no topic.
Rules.  * A record's own schema is trusted: its id, or its GUID in front of the payload or in the header `__value_schema_id`.
        * None is no key, or a tombstone: it stays None and has no schema.
        * The registry is asked at the first record of a schema, on the thread that sends or reads. On an event loop call
          `prepare` on a thread first.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from semel.exceptions import SerializationException
from semel.schema.codecs import Codecs, Registry
from semel.schema.rules.framing import Frame, header_frame, read_prefix
from semel.schema.rules.subjects import MessageField
from semel.schema.rules.values import AVRO, JSON, PROTOBUF, Schema
from semel.schema.writing import Writing
from semel.words import kind, shown

ToDict = Callable[[Any, Any], Any]
"""(object, context) -> the value its schema describes."""
FromDict = Callable[[Any, Any], Any]
"""(value, context) -> object."""
Headers = Iterable[tuple[str, bytes | None]]


class _Context:
    """A record's part, for a user's `to_dict` and `from_dict`."""

    __slots__ = ("field", "headers", "topic")

    def __init__(self, topic: str | None, field: str, headers: Headers = ()) -> None:
        self.topic = topic
        self.field = field
        self.headers = headers


class _Serializer:
    """The common part: the subject's schema, then the payload."""

    def __init__(self, writing: Writing, to_dict: ToDict | None) -> None:
        self._writing = writing
        self._to_dict = to_dict

    def __call__(self, obj: Any, ctx: Any = None) -> bytes | None:
        """The bytes of an object; `ctx` says the topic and the field."""
        topic, field = getattr(ctx, "topic", None), getattr(ctx, "field", None)
        return self.serialize_for(topic, MessageField.VALUE if field is None else str(field), obj)

    def serialize_for(self, topic: str | None, field: str, value: Any) -> bytes | None:
        """The bytes of a record's key or value."""
        if value is None:
            return None
        written = self._writing.of(topic, field)
        if self._to_dict is not None:
            value = self._to_dict(value, _Context(topic, field))
        return written.prefix + written.codec.encode(value)

    def prepare(self, topic: str | None = None, field: str = MessageField.VALUE) -> int:
        """Ask the registry now, and not at the first record; gives the schema's id."""
        return self._writing.of(topic, field).registered.schema_id


class AvroSerializer(_Serializer):
    """Values of an Avro schema, as dicts; with `to_dict` anything it makes a dict of."""

    def __init__(
        self,
        schema_registry_client: Registry,
        schema_str: str | Schema | None = None,
        to_dict: ToDict | None = None,
        conf: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(Writing(schema_registry_client, _schema(schema_str, AVRO), conf), to_dict)


class JSONSerializer(_Serializer):
    """JSON documents that keep to a JSON Schema. `conf`: also `validate`, true unless it is said."""

    def __init__(
        self,
        schema_str: str | Schema | None,
        schema_registry_client: Registry,
        to_dict: ToDict | None = None,
        conf: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(Writing(schema_registry_client, _schema(schema_str, JSON), conf), to_dict)


class ProtobufSerializer(_Serializer):
    """Protobuf messages: of a class protoc made, or mappings for a message of a .proto file.

    `msg_type` is the class, the text of the .proto file, or a `Schema` with references; `message` names the message of a text, else
    it is the first one. Files that a class's file imports are registered under their names, as confluent-kafka does.
    """

    def __init__(
        self,
        msg_type: Any,
        schema_registry_client: Registry,
        conf: Mapping[str, Any] | None = None,
        *,
        message: str | None = None,
    ) -> None:
        codecs = Codecs(schema_registry_client)
        if msg_type is None or isinstance(msg_type, str | Schema):
            schema = _schema(msg_type, PROTOBUF)
        else:
            from semel.schema.generated import schema_of_class

            schema, message = schema_of_class(msg_type, codecs.client, conf)
        super().__init__(Writing(codecs.client, schema, conf, message=message), None)


class SchemaDeserializer:
    """Any record with a schema: Avro and JSON as Python values, Protobuf as a message."""

    wanted: ClassVar[str | None] = None

    def __init__(
        self,
        schema_registry_client: Registry,
        *,
        from_dict: FromDict | None = None,
        reader: Schema | None = None,
        message: str | None = None,
        validate: bool = True,
    ) -> None:
        self._codecs = Codecs(schema_registry_client, reader=reader, validate=validate)
        self._from_dict = from_dict
        self._message = message

    def __call__(self, data: bytes | None, ctx: Any = None) -> Any:
        """The object of bytes; `ctx` says topic, field and headers, where they are known."""
        headers = getattr(ctx, "headers", None) or ()
        topic, field = getattr(ctx, "topic", None), getattr(ctx, "field", None)
        return self.deserialize_for(topic, MessageField.VALUE if field is None else str(field), data, headers)

    def deserialize_for(
        self, topic: str | None, field: str, data: bytes | None, headers: Headers = ()
    ) -> Any:
        """The object of a record's key or value."""
        if data is None:
            return None
        value = self.read(field, data, headers, wanted=self.wanted)
        return value if self._from_dict is None else self._from_dict(value, _Context(topic, field, headers))

    def read(self, field: str, data: bytes, headers: Headers, *, wanted: str | None) -> Any:
        """The value as its codec gives it; `wanted` is the type its schema must have."""
        frame, payload = framed(data, field, headers)
        return self._codecs.framed(frame, wanted=wanted, message=self._message).decode(payload)


class AvroDeserializer(SchemaDeserializer):
    """Avro values as dicts, resolved to `schema_str` where it is given; `from_dict` makes objects of them."""

    wanted = AVRO

    def __init__(
        self,
        schema_registry_client: Registry,
        schema_str: str | Schema | None = None,
        from_dict: FromDict | None = None,
    ) -> None:
        super().__init__(schema_registry_client, from_dict=from_dict, reader=_schema(schema_str, AVRO))


class JSONDeserializer(SchemaDeserializer):
    """JSON documents, checked against the schema they name unless `validate` is False."""

    wanted = JSON

    def __init__(
        self,
        schema_registry_client: Registry,
        from_dict: FromDict | None = None,
        *,
        validate: bool = True,
    ) -> None:
        super().__init__(schema_registry_client, from_dict=from_dict, validate=validate)


class ProtobufDeserializer(SchemaDeserializer):
    """Protobuf messages: of the class given, or of one made of the record's own schema."""

    wanted = PROTOBUF

    def __init__(self, schema_registry_client: Registry, message_type: Any = None) -> None:
        super().__init__(schema_registry_client)
        self._class = message_type

    def deserialize_for(
        self, topic: str | None, field: str, data: bytes | None, headers: Headers = ()
    ) -> Any:
        found = super().deserialize_for(topic, field, data, headers)
        if found is None or self._class is None:
            return found
        if found.DESCRIPTOR.full_name != self._class.DESCRIPTOR.full_name:
            raise SerializationException(
                f"the record is a {found.DESCRIPTOR.full_name}, not a {self._class.DESCRIPTOR.full_name}"
            )
        return self._class.FromString(found.SerializeToString())


def framed(data: bytes, field: str, headers: Headers) -> tuple[Frame, bytes]:
    """The schema of stored bytes, and the payload: the prefix may stand in a header of the record."""
    said = header_frame(headers, field) if headers else None
    if said is None:
        frame = read_prefix(data)
        return frame, data[frame.payload_at :]
    frame = read_prefix(said)
    # Protobuf's message indexes stand behind the GUID, also in the header.
    return frame, said[frame.payload_at :] + data


def _schema(given: str | Schema | None, schema_type: str) -> Schema | None:
    if given is None:
        return None
    if isinstance(given, str):
        return Schema(given, schema_type)
    # confluent-kafka's own `Schema` has these attributes too.
    text, found = getattr(given, "schema_str", None), getattr(given, "schema_type", None)
    if isinstance(text, str) and found is not None:
        if found != schema_type:
            raise SerializationException(f"{shown(given)} is a schema of {found}, not of {schema_type}")
        return given if isinstance(given, Schema) else Schema(text, schema_type)
    raise SerializationException(f"schema_str={shown(given)}: {kind(given)} is neither a text nor a Schema")

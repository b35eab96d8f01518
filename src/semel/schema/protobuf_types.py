"""Protobuf's types as Arrow's, and messages between the two.

Role.   `arrow_type` is the type of a column of messages; `reader` and `writer` carry one message to a row and back.
Rules.  * Numbers keep their width and sign; bytes, strings and bools are themselves.
        * An enum is its name, or its digits where it has no name. A message is a struct, a repeated field a list, a map a map.
        * A field that knows whether it was set (a message, an optional one, a member of a oneof) is null where it was not.
        * google.protobuf.Timestamp is timestamp[ns, UTC], Duration duration[ns]; wrappers are their value, or null.
        * A message that contains itself has no column: it is refused with its place.
Cost.   One Python call per message and field: the library has no columns.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from semel.exceptions import SerializationException

_SCALARS: Final = {
    FieldDescriptor.CPPTYPE_INT32: pa.int32(),
    FieldDescriptor.CPPTYPE_INT64: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT32: pa.uint32(),
    FieldDescriptor.CPPTYPE_UINT64: pa.uint64(),
    FieldDescriptor.CPPTYPE_DOUBLE: pa.float64(),
    FieldDescriptor.CPPTYPE_FLOAT: pa.float32(),
    FieldDescriptor.CPPTYPE_BOOL: pa.bool_(),
    FieldDescriptor.CPPTYPE_ENUM: pa.string(),
    FieldDescriptor.CPPTYPE_STRING: pa.string(),
}
_TIMESTAMP: Final = "google.protobuf.Timestamp"
_DURATION: Final = "google.protobuf.Duration"
_WRAPPERS: Final = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_NANOS: Final = 1_000_000_000

Read = Callable[[Any], Any]
Write = Callable[[Any, Any], None]


def arrow_type(descriptor: Descriptor) -> pa.DataType:
    """The type of a column of these messages."""
    return _struct(descriptor, ())


def _struct(descriptor: Descriptor, above: tuple[str, ...]) -> pa.DataType:
    name = descriptor.full_name
    if name in above:
        raise SerializationException(
            f"{name} contains itself, which no Arrow column does: read records with ProtobufDeserializer"
        )
    return pa.struct(
        [pa.field(field.name, *_field_type(field, (*above, name))) for field in descriptor.fields]
    )


def _field_type(field: FieldDescriptor, above: tuple[str, ...]) -> tuple[pa.DataType, bool]:
    if _is_map(field):
        keys, values = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
        return pa.map_(_one_type(keys, above), pa.field("value", _one_type(values, above), False)), False
    if field.is_repeated:
        return pa.list_(pa.field("item", _one_type(field, above), False)), False
    return _one_type(field, above), field.has_presence


def _one_type(field: FieldDescriptor, above: tuple[str, ...]) -> pa.DataType:
    if field.message_type is None:
        if field.type == FieldDescriptor.TYPE_BYTES:
            return pa.binary()
        return _SCALARS[field.cpp_type]
    name = field.message_type.full_name
    if name == _TIMESTAMP:
        return pa.timestamp("ns", "UTC")
    if name == _DURATION:
        return pa.duration("ns")
    if name in _WRAPPERS:
        return _one_type(field.message_type.fields_by_name["value"], above)
    return _struct(field.message_type, above)


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


# Messages to rows


def reader(descriptor: Descriptor) -> Read:
    """A function from a message to a row."""
    parts = [
        (field.name, field.has_presence and not field.is_repeated, _field_reader(field))
        for field in descriptor.fields
    ]

    def read(message: Any) -> dict[str, Any]:
        return {
            name: None if may_be_null and not message.HasField(name) else read_field(getattr(message, name))
            for name, may_be_null, read_field in parts
        }

    return read


def _field_reader(field: FieldDescriptor) -> Read:
    if _is_map(field):
        read_value = _one_reader(field.message_type.fields_by_name["value"])
        return lambda content: [(key, read_value(content[key])) for key in content]
    read_one = _one_reader(field)
    if field.is_repeated:
        return lambda content: [read_one(one) for one in content]
    return read_one


def _one_reader(field: FieldDescriptor) -> Read:
    if field.enum_type is not None:
        names = {value.number: value.name for value in reversed(field.enum_type.values)}
        return lambda number: names.get(number) or str(number)
    if field.message_type is None:
        return _same
    name = field.message_type.full_name
    if name in (_TIMESTAMP, _DURATION):
        return lambda message: message.seconds * _NANOS + message.nanos
    if name in _WRAPPERS:
        return _wrapped
    return reader(field.message_type)


def _same(value: Any) -> Any:
    return value


def _wrapped(message: Any) -> Any:
    return message.value


# Rows to messages


def rows_of(column: pa.Array, descriptor: Descriptor) -> list[Any]:
    """The rows of a column; raises where it has a field that the message has not."""
    if not pa.types.is_struct(column.type):
        raise SerializationException(
            f"a column of {column.type} holds no messages {descriptor.full_name}: give a struct"
        )
    names = {field.name for field in descriptor.fields}
    given = [column.type.field(index).name for index in range(column.type.num_fields)]
    if unknown := [name for name in given if name not in names]:
        raise SerializationException(
            f"column {', '.join(unknown)} is no field of {descriptor.full_name}, which has {', '.join(sorted(names))}: leave it out"
        )
    wanted = arrow_type(descriptor)
    fields = [wanted.field(name) for name in given]
    try:
        children = [column.field(name).cast(wanted.field(name).type) for name in given]
        fitted = pa.StructArray.from_arrays(
            [_numbers(child) for child in children],
            fields=[pa.field(field.name, _number_type(field.type)) for field in fields],
            mask=column.is_null(),
        )
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise SerializationException(
            f"a column of {column.type} does not fit {descriptor.full_name}: {error}"
        ) from error
    return list(fitted.to_pylist())


def _number_type(kind: pa.DataType) -> pa.DataType:
    """The type with times as whole numbers, which keep their nanoseconds."""
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return pa.int64()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _number_type(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _number_type(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(_number_type(kind.value_type))
    return kind


def _numbers(column: pa.Array) -> pa.Array:
    wanted = _number_type(column.type)
    return column if wanted == column.type else column.cast(wanted)


def writer(descriptor: Descriptor) -> Write:
    """A function that fills a message from a row."""
    parts = [(field.name, _field_writer(field)) for field in descriptor.fields]

    def write(message: Any, row: Mapping[str, Any]) -> None:
        for name, write_field in parts:
            value = row.get(name)
            if value is not None:
                write_field(message, value)

    return write


def _field_writer(field: FieldDescriptor) -> Write:
    name = field.name
    if _is_map(field):
        return _map_writer(name, field.message_type.fields_by_name["value"])
    if field.message_type is not None:
        fill = _filler(field.message_type)
        if not field.is_repeated:

            def write_message(message: Any, value: Any) -> None:
                inside = getattr(message, name)
                inside.SetInParent()
                fill(inside, value)

            return write_message

        def write_messages(message: Any, values: Any) -> None:
            for value in values:
                fill(getattr(message, name).add(), value)

        return write_messages
    as_value = _number_of(field)
    if field.is_repeated:
        return lambda message, values: getattr(message, name).extend(map(as_value, values))
    return lambda message, value: setattr(message, name, as_value(value))


def _map_writer(name: str, values: FieldDescriptor) -> Write:
    if values.message_type is not None:
        fill = _filler(values.message_type)

        def write_messages(message: Any, pairs: Any) -> None:
            for key, value in pairs:
                inside = getattr(message, name)[key]
                fill(inside, value)

        return write_messages
    as_value = _number_of(values)

    def write_scalars(message: Any, pairs: Any) -> None:
        for key, value in pairs:
            getattr(message, name)[key] = as_value(value)

    return write_scalars


def _filler(descriptor: Descriptor) -> Write:
    if descriptor.full_name in (_TIMESTAMP, _DURATION):
        return _fill_nanos if descriptor.full_name == _TIMESTAMP else _fill_duration
    if descriptor.full_name in _WRAPPERS:
        return lambda message, value: setattr(message, "value", value)
    return writer(descriptor)


def _fill_nanos(message: Any, value: int) -> None:
    message.seconds, message.nanos = divmod(value, _NANOS)


def _fill_duration(message: Any, value: int) -> None:
    """Seconds and nanoseconds have one sign."""
    seconds, nanos = divmod(abs(value), _NANOS)
    sign = -1 if value < 0 else 1
    message.seconds, message.nanos = sign * seconds, sign * nanos


def _number_of(field: FieldDescriptor) -> Callable[[Any], Any]:
    if field.enum_type is None:
        return _same
    numbers = {value.name: value.number for value in field.enum_type.values}

    def number(value: str) -> int:
        found: int | None = numbers.get(value)
        if found is not None:
            return found
        if value.lstrip("-").isdecimal():
            return int(value)
        raise ValueError(f"{value!r} is no {field.enum_type.full_name}, which has {', '.join(numbers)}")

    return number

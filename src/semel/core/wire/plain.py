"""The reference codec: it walks a message's table field by field, slowly, with precise errors.

Role.   The compiled codecs must agree with it byte for byte. It explains their refusals, and writes back unknown tagged
        fields, which they leave to it.
Flow.   `message` calls `read` and `write` after compiled code failed; `framing` reads the tags of headers with
        `read_tag_section`.
Rules.  * Every failure is a `WireError` that names message, version, field, byte and values.
        * Reading accepts only Kafka's encoding of a value, with two exceptions: varints may be overlong, and a tagged
          field may be present with its default.
"""

from collections.abc import Callable
from typing import Final, TypeVar

from semel.core.wire.primitives import Reader, Writer
from semel.core.wire.schema import (
    BOOL,
    BYTES,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    UUID,
    Field,
    Kind,
    Struct,
    Value,
    fields_of,
    size_min,
)
from semel.errors import InvariantError, UnsupportedVersionError
from semel.types import BytesLike

S = TypeVar("S", bound=Struct)
HEADER_TAGS_MAX: Final = 1000
"""Tagged fields in a header. Kafka defines two; a header is read before the row limit of its API is known."""

_READ: Final[dict[Kind, Callable[[Reader], Value]]] = {
    INT8: Reader.int8,
    INT16: Reader.int16,
    INT32: Reader.int32,
    INT64: Reader.int64,
    FLOAT64: Reader.float64,
    BOOL: Reader.boolean,
    UUID: Reader.uuid,
}
_READ_SIZED: Final[dict[Kind, Callable[..., Value]]] = {
    STRING: Reader.string,
    BYTES: Reader.bytes_,
    RECORDS: Reader.records,
}
_WRITE: Final[dict[Kind, Callable[[Writer, Value], None]]] = {
    INT8: Writer.int8,
    INT16: Writer.int16,
    INT32: Writer.int32,
    INT64: Writer.int64,
    FLOAT64: Writer.float64,
    BOOL: Writer.boolean,
    UUID: Writer.uuid,
}
_WRITE_SIZED: Final[dict[Kind, Callable[..., None]]] = {
    STRING: Writer.string,
    BYTES: Writer.bytes_,
    RECORDS: Writer.records,
}


def read(
    cls: type[S], data: BytesLike, position: int, *, version: int, flexible: bool, open_end: bool = False
) -> S:
    """The message in `data` from `position` on; it must fill the buffer unless `open_end`."""
    reader = Reader(data, position, title=f"{cls.__name__} v{version}")
    message = _read_struct(reader, cls, version, flexible)
    if reader.position != reader.end and not open_end:
        reader.fail(f"{reader.end - reader.position} bytes are left over")
    return message


def write(message: Struct, *, version: int, flexible: bool) -> list[BytesLike]:
    """The message as a list of pieces; record bytes are separate pieces, the caller's own objects."""
    writer = Writer(title=f"{type(message).__name__} v{version}")
    _write_struct(writer, message, version, flexible)
    return writer.parts


def _read_struct(reader: Reader, cls: type[S], version: int, flexible: bool) -> S:
    values: dict[str, Value] = {}
    for field in fields_of(cls):
        if version in field.versions and field.tag is None:
            reader.path.append(f".{field.name}")
            values[field.name] = _read_field(reader, field, version, flexible)
            reader.path.pop()
    message = cls(**values)
    if flexible:
        reader.path.append(".tags")
        count = reader.unsigned_varint()
        reader.path.pop()
        _read_tags(reader, message, count, version)
    return message


def read_tag_section(reader: Reader) -> tuple[tuple[int, bytes], ...]:
    """Read a section of unknown tagged fields, as in headers."""
    reader.path.append(".tags")
    count = reader.unsigned_varint()
    reader.path.pop()
    if count > HEADER_TAGS_MAX:
        reader.fail(f"{count} tagged fields in a header, at most {HEADER_TAGS_MAX} are read")
    nothing = _NoFields()
    _read_tags(reader, nothing, count, 0)
    return nothing.unknown_tags


class _NoFields(Struct):
    """A struct with unknown tagged fields only."""


def _read_tags(reader: Reader, target: Struct, count: int, version: int) -> None:
    known = {field.tag: field for field in fields_of(type(target)) if version in field.versions}
    unknown: list[tuple[int, bytes]] = []
    last = -1
    for _ in range(count):
        reader.path.append(".tags")
        tag = reader.unsigned_varint()
        if tag <= last:
            reader.fail(f"tag {tag} follows tag {last}, tags must rise")
        last = tag
        reader.path[-1] = f".tag {tag}"
        size = reader.unsigned_varint()
        if size > reader.end - reader.position:
            reader.fail(f"tagged field of {size} bytes, {reader.end - reader.position} are left")
        start = reader.position
        if (field := known.get(tag)) is None:
            unknown.append((tag, bytes(reader.slice(size, "tagged field"))))
        else:
            reader.path[-1] = f".{field.name}"
            setattr(target, field.name, _read_field(reader, field, version, True))
            if reader.position - start != size:
                reader.fail(f"tagged field takes {reader.position - start} bytes, its size says {size}")
        reader.path.pop()
    if unknown:
        target.unknown_tags = tuple(unknown)


def _read_field(reader: Reader, field: Field, version: int, flexible: bool) -> Value:
    nullable = version in field.null
    if not field.is_array:
        return _read_value(reader, field, version, flexible, nullable=nullable)
    least = size_min(field, flexible=flexible, version=version)
    count = reader.count(compact=flexible, nullable=nullable, size_min=least)
    if count < 0:
        return None
    values = []
    for index in range(count):
        reader.path.append(f"[{index}]")
        values.append(_read_value(reader, field, version, flexible, nullable=False))
        reader.path.pop()
    return values


def _read_value(reader: Reader, field: Field, version: int, flexible: bool, *, nullable: bool) -> Value:
    if field.kind is not None:
        if (read_fixed := _READ.get(field.kind)) is not None:
            return read_fixed(reader)
        return _READ_SIZED[field.kind](reader, compact=flexible, nullable=nullable)
    if field.struct is None:
        raise InvariantError(f"{field.name} has neither a kind nor a struct")
    if nullable:
        present, null = reader.int8(), field.null_marker
        if present == null:
            return None
        if present != 1:
            at = reader.position - 1
            reader.fail(f"a nullable struct starts with 1 or {null}, not {present}", position=at)
    return _read_struct(reader, field.struct, version, flexible)


def _write_struct(writer: Writer, message: Struct, version: int, flexible: bool) -> None:
    for field in fields_of(type(message)):
        value = getattr(message, field.name)
        writer.path.append(f".{field.name}")
        if version not in field.versions:
            if not field.ignorable and not field.is_default(value):
                where = "".join(writer.path).lstrip(".")
                raise UnsupportedVersionError(
                    f"{writer.title}: {where} exists in versions {field.versions} only and is {value!r}, "
                    f"not its default {field.new_default()!r}: leave it out or use another version"
                )
        elif field.tag is None:
            _write_field(writer, field, value, version, flexible)
        writer.path.pop()
    if flexible:
        _write_tags(writer, message, version)
    elif message.unknown_tags:
        writer.fail(
            f"unknown tags {[tag for tag, _ in message.unknown_tags]} in a version without tagged fields"
        )


def _write_tags(writer: Writer, source: Struct, version: int) -> None:
    sections: dict[int, list[BytesLike]] = {tag: [raw] for tag, raw in source.unknown_tags}
    for field in fields_of(type(source)):
        value = getattr(source, field.name)
        if field.tag is None or version not in field.versions or field.is_default(value):
            continue
        if field.tag in sections:
            writer.fail(f"tag {field.tag} is {field.name} and among the unknown tags too")
        inner = Writer(title=writer.title)
        inner.path = [*writer.path, f".{field.name}"]
        _write_field(inner, field, value, version, True)
        sections[field.tag] = inner.parts
    writer.unsigned_varint(len(sections))
    for tag, parts in sorted(sections.items()):
        writer.unsigned_varint(tag)
        writer.unsigned_varint(sum(map(len, parts)))
        writer.parts += parts


def _write_field(writer: Writer, field: Field, value: Value, version: int, flexible: bool) -> None:
    nullable = version in field.null
    if not field.is_array:
        _write_value(writer, field, value, version, flexible, nullable=nullable)
    elif value is None:
        writer.null(compact=flexible, nullable=nullable)
    elif not isinstance(value, list | tuple):
        writer.fail(f"{value!r} is not a list")
    else:
        writer.length(len(value), compact=flexible)
        for index, element in enumerate(value):
            writer.path.append(f"[{index}]")
            _write_value(writer, field, element, version, flexible, nullable=False)
            writer.path.pop()


def _write_value(
    writer: Writer, field: Field, value: Value, version: int, flexible: bool, *, nullable: bool
) -> None:
    if field.kind is not None:
        if (write_fixed := _WRITE.get(field.kind)) is not None:
            write_fixed(writer, value)
        else:
            _WRITE_SIZED[field.kind](writer, value, compact=flexible, nullable=nullable)
        return
    if nullable:
        writer.int8(field.null_marker if value is None else 1)
        if value is None:
            return
    if type(value) is not field.struct:
        name = "nothing" if field.struct is None else field.struct.__name__
        writer.fail(f"{value!r} is no {name}")
    _write_struct(writer, value, version, flexible)

"""Serializers and deserializers of keys and values: callables of one argument, or the names of Java's own.

Role.   `serializer` and `deserializer` take what stands in `key.serializer` and its kin: a callable, the name of one of
        Kafka's classes (with or without its package), or nothing.
Rules.  * The bytes are Java's: numbers big-endian, a UUID as text, text in UTF-8.
        * None is no key, or a tombstone: it stays None and no callable sees it.
        * Without a setting bytes pass as they are, in both directions; text is taken as UTF-8 on the way out.
        * The built-in ones raise `SerializationException` with the value's type and the way out.
        * A callable that also has `serialize_for` or `deserialize_for` is given the record's topic and which part it is for, as
          Java's classes are: a schema registry's need both.
"""

import struct
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from semel.exceptions import ConfigException, SerializationException
from semel.types import BytesLike
from semel.words import a, kind, shown

Serializer: TypeAlias = Callable[[Any], bytes | None]
Deserializer: TypeAlias = Callable[[bytes], Any]


TopicSerialize: TypeAlias = Callable[[str, str, Any], bytes | None]
"""(topic, key or value, what) -> bytes: a serializer's method `serialize_for`, where it has one."""
TopicDeserialize: TypeAlias = Callable[[str, str, bytes, Sequence[tuple[str, bytes | None]]], Any]
"""(topic, key or value, bytes, headers) -> what: a deserializer's method `deserialize_for`, where it has one."""


def of_topic(given: Serializer) -> TopicSerialize | None:
    """The method that takes the topic."""
    return getattr(given, "serialize_for", None)


def from_topic(given: Deserializer) -> TopicDeserialize | None:
    """The method that takes topic and headers."""
    return getattr(given, "deserialize_for", None)


def plain(value: object, argument: str = "value") -> bytes:
    """Bytes as they are, text as UTF-8: a producer's default. `argument`: key or value."""
    if isinstance(value, bytes | bytearray | memoryview):
        return raw(value)
    if isinstance(value, str):
        return _utf8(value, f"{argument}=")
    raise SerializationException(
        f"{argument}={shown(value)}: {kind(value)} is neither bytes nor text: encode it, or set {argument}.serializer"
    )


def raw(value: BytesLike) -> bytes:
    """The bytes of what is like them; raises for a view that was released."""
    try:
        return bytes(value)
    except (ValueError, BufferError) as error:
        raise SerializationException(f"{shown(value)} has no bytes: {error}") from error


def _utf8(value: str, said: str = "") -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise SerializationException(
            f"{said}{shown(value)} is not text UTF-8 can write: {error.reason}"
        ) from None


def unchanged(content: bytes) -> bytes:
    """The bytes themselves: a consumer's default."""
    return content


def _bytes(value: object) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return raw(value)
    raise _not_a("bytes", value)


def _string(value: object) -> bytes:
    if isinstance(value, str):
        return _utf8(value)
    raise _not_a("a str", value)


def _number(layout: str, kinds: tuple[type, ...]) -> tuple[Serializer, Deserializer]:
    form = struct.Struct(layout)

    def write(value: object) -> bytes:
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise _not_a(" or ".join(a(one.__name__) for one in kinds), value)
        try:
            return form.pack(value)
        except (struct.error, OverflowError) as error:
            raise SerializationException(f"{value!r} does not fit {form.size} bytes") from error

    def read(content: bytes) -> int | float:
        if len(content) != form.size:
            raise SerializationException(f"{len(content)} bytes are no number of {form.size} bytes")
        value: int | float = form.unpack(content)[0]
        return value

    return write, read


def _boolean(value: object) -> bytes:
    if isinstance(value, bool):
        return b"\x01" if value else b"\x00"
    raise _not_a("a bool", value)


def _read_boolean(content: bytes) -> bool:
    if content not in (b"\x00", b"\x01"):
        raise SerializationException(f"{content[:8]!r} is not a boolean: one byte, 0 or 1")
    return content == b"\x01"


def _uuid(value: object) -> bytes:
    if isinstance(value, uuid.UUID):
        return str(value).encode()
    raise _not_a("a uuid.UUID", value)


def _read_uuid(content: bytes) -> uuid.UUID:
    try:
        return uuid.UUID(content.decode())
    except ValueError as error:
        raise SerializationException(f"{content[:40]!r} is no UUID") from error


def _read_string(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise SerializationException(f"{content[:40]!r} is no UTF-8: {error.reason}") from error


def _void(_value: object) -> None:
    return None


def _not_a(wanted: str, value: object) -> SerializationException:
    return SerializationException(f"{shown(value)}: {kind(value)} is not {wanted}: use another serializer")


_FLOATS: Final = (float, int)
_SHORT: Final = _number(">h", (int,))
_INTEGER: Final = _number(">i", (int,))
_LONG: Final = _number(">q", (int,))
_FLOAT: Final = _number(">f", _FLOATS)
_DOUBLE: Final = _number(">d", _FLOATS)
_KINDS: Final[Mapping[str, tuple[Serializer, Deserializer]]] = {
    "ByteArray": (_bytes, unchanged),
    "ByteBuffer": (_bytes, unchanged),
    "Bytes": (_bytes, unchanged),
    "String": (_string, _read_string),
    "Short": _SHORT,
    "Integer": _INTEGER,
    "Long": _LONG,
    "Float": _FLOAT,
    "Double": _DOUBLE,
    "Boolean": (_boolean, _read_boolean),
    "UUID": (_uuid, _read_uuid),
    "Void": (_void, _void),
}
_PACKAGE: Final = "org.apache.kafka.common.serialization."


def serializer(key: str, given: object) -> Serializer:
    """The callable behind a setting."""
    if given is None:
        return plain
    if callable(given):
        return given
    return _kind(key, str(given), "Serializer")[0]


def deserializer(key: str, given: object) -> Deserializer:
    """The callable behind a setting."""
    if given is None:
        return unchanged
    if callable(given):
        return given
    return _kind(key, str(given), "Deserializer")[1]


def _kind(key: str, name: str, suffix: str) -> tuple[Serializer, Deserializer]:
    short = name.removeprefix("class ").removeprefix(_PACKAGE)
    found = _KINDS.get(short.removesuffix(suffix)) if short.endswith(suffix) else None
    if found is None:
        known = ", ".join(f"{one}{suffix}" for one in _KINDS)
        raise ConfigException(f"{key}={name}: use a callable, or one of {known}")
    return found

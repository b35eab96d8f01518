"""Jute, ZooKeeper's encoding: big-endian numbers, and lengths before what has one.

Role.   `Layout`s of fields make messages of bytes and bytes of messages. `messages` says which fields a message has.
Rules.  A buffer, a string and a vector may be absent (length -1); a string that is absent reads as empty.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from struct import Struct
from typing import Any, Final, Generic, NamedTuple, TypeVar

from semel.core.zookeeper.words import Acl, Stat
from semel.errors import SemelError

T = TypeVar("T")
_INT: Final = Struct(">i")
_LONG: Final = Struct(">q")
_STAT: Final = Struct(">qqqqiiiqiiq")


class MalformedError(SemelError):
    """Bytes that are no message."""


@dataclass(slots=True)
class Reader:
    """A frame that is read from its beginning."""

    data: bytes
    position: int = 0

    def take(self, size: int) -> bytes:
        end = self.position + size
        if size < 0 or end > len(self.data):
            raise MalformedError(f"{size} bytes wanted at {self.position} of {len(self.data)}")
        taken, self.position = self.data[self.position : end], end
        return taken

    @property
    def is_at_end(self) -> bool:
        return self.position == len(self.data)


class Field(NamedTuple, Generic[T]):
    """How one value is read and written."""

    read: Callable[[Reader], T]
    write: Callable[[bytearray, T], None]


def _fixed(struct: Struct) -> Field[int]:
    def read(reader: Reader) -> int:
        value: int = struct.unpack(reader.take(struct.size))[0]
        return value

    return Field(read, lambda data, value: data.extend(struct.pack(value)))


INT: Final = _fixed(_INT)
LONG: Final = _fixed(_LONG)
BOOL: Final[Field[bool]] = Field(
    lambda reader: reader.take(1) != b"\0", lambda data, value: data.append(1 if value else 0)
)


def _read_buffer(reader: Reader) -> bytes | None:
    size = INT.read(reader)
    return None if size == -1 else reader.take(size)


def _write_buffer(data: bytearray, value: bytes | None) -> None:
    INT.write(data, -1 if value is None else len(value))
    data.extend(value or b"")


def _read_string(reader: Reader) -> str:
    try:
        return (_read_buffer(reader) or b"").decode()
    except UnicodeDecodeError as error:
        raise MalformedError(f"a text that is not UTF-8: {error}") from error


BUFFER: Final = Field(_read_buffer, _write_buffer)
STRING: Final[Field[str]] = Field(_read_string, lambda data, value: _write_buffer(data, value.encode()))


def _vector(one: Field[T]) -> Field[tuple[T, ...]]:
    def read(reader: Reader) -> tuple[T, ...]:
        count = INT.read(reader)
        if count > len(reader.data):
            raise MalformedError(f"{count} elements in {len(reader.data)} bytes")
        return tuple(one.read(reader) for _ in range(count))

    def write(data: bytearray, value: Sequence[T]) -> None:
        INT.write(data, len(value))
        for element in value:
            one.write(data, element)

    return Field(read, write)


def _write_acl(data: bytearray, acl: Acl) -> None:
    INT.write(data, acl.permissions)
    STRING.write(data, acl.scheme)
    STRING.write(data, acl.identity)


def _write_stat(data: bytearray, stat: Stat) -> None:
    data.extend(_STAT.pack(*(getattr(stat, one.name) for one in fields(stat))))


STRINGS: Final = _vector(STRING)
ACLS: Final = _vector(
    Field(lambda reader: Acl(INT.read(reader), STRING.read(reader), STRING.read(reader)), _write_acl)
)
STAT: Final[Field[Stat]] = Field(lambda reader: Stat(*_STAT.unpack(reader.take(_STAT.size))), _write_stat)


class Layout(Generic[T]):
    """The fields of a dataclass, in the order of the wire."""

    def __init__(self, kind: type[T], *codecs: Field[Any]) -> None:
        names = [one.name for one in fields(kind)]  # type: ignore[arg-type]
        if len(names) != len(codecs):
            raise TypeError(f"{kind.__name__} has {len(names)} fields and a layout of {len(codecs)}")
        self.kind: Final = kind
        self._codecs: Final = tuple(zip(names, codecs, strict=True))

    def read(self, reader: Reader) -> T:
        return self.kind(*(codec.read(reader) for _name, codec in self._codecs))

    def write(self, data: bytearray, message: T) -> None:
        for name, codec in self._codecs:
            codec.write(data, getattr(message, name))

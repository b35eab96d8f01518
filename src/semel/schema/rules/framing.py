"""The bytes that say which schema a key or value was written with: Confluent's wire format.

Role.   `read_prefix` splits stored bytes into the schema's name and the payload; `id_prefix`, `guid_prefix` and `message_indexes`
        write the same bytes.
Rules.  * Magic byte 0, then the schema's id in four bytes, big-endian; then the payload.
        * Magic byte 1, then the schema's GUID in 16 bytes. Newer clients put it into a record header, and the payload stands alone.
        * Protobuf's payload begins with the path to its message in the file: a count and so many indexes, as zigzag varints.
          The path [0], the first message of the file, is the single byte 0.
        * Bytes that break a rule are refused with what they are, never guessed at.
"""

import struct
import uuid
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from semel.exceptions import SerializationException

MAGIC_ID: Final = 0
MAGIC_GUID: Final = 1
ID_PREFIX_BYTES: Final = 5
GUID_PREFIX_BYTES: Final = 17
KEY_HEADER: Final = "__key_schema_id"
VALUE_HEADER: Final = "__value_schema_id"
SCHEMA_ID_MAX: Final = 2**31 - 1
NESTING_MAX: Final = 100
"""So deep may a Protobuf message be nested in others: protoc's own limit is 32."""

_ID: Final = struct.Struct(">bI")
_VARINT_BYTES_MAX: Final = 5


class Frame(NamedTuple):
    """Which schema, by its id or its GUID, and where the payload begins."""

    schema_id: int | None
    guid: uuid.UUID | None
    payload_at: int

    def __str__(self) -> str:
        return f"schema id {self.schema_id}" if self.guid is None else f"schema GUID {self.guid}"


def read_prefix(content: bytes) -> Frame:
    """The schema that stands in front of a payload; raises `SerializationException`."""
    magic = content[0] if content else -1
    if magic == MAGIC_ID and len(content) >= ID_PREFIX_BYTES:
        schema_id = _ID.unpack_from(content)[1]
        if schema_id > SCHEMA_ID_MAX:
            raise SerializationException(f"schema id {schema_id} is above {SCHEMA_ID_MAX}: {_UNFRAMED}")
        return Frame(schema_id, None, ID_PREFIX_BYTES)
    if magic == MAGIC_GUID and len(content) >= GUID_PREFIX_BYTES:
        return Frame(None, uuid.UUID(bytes=bytes(content[1:GUID_PREFIX_BYTES])), GUID_PREFIX_BYTES)
    raise SerializationException(_why_no_prefix(content, magic))


def is_framed(content: bytes) -> bool:
    """Whether the bytes begin as a schema's prefix does. Other bytes may do so by chance."""
    return len(content) >= ID_PREFIX_BYTES and content[0] == MAGIC_ID and content[1] < 0x80


def _why_no_prefix(content: bytes, magic: int) -> str:
    if magic in (MAGIC_ID, MAGIC_GUID):
        wanted = ID_PREFIX_BYTES if magic == MAGIC_ID else GUID_PREFIX_BYTES
        return f"{len(content)} bytes are too few for a schema's prefix of {wanted}: {_UNFRAMED}"
    begin = "nothing" if not content else f"{bytes(content[:8])!r}"
    return f"the bytes begin with {begin}, not with magic byte 0 or 1: {_UNFRAMED}"


_UNFRAMED: Final = "they were not written with a schema registry's serializer; read them without a schema"


def id_prefix(schema_id: int) -> bytes:
    """Magic byte 0 and the id."""
    if not 0 <= schema_id <= SCHEMA_ID_MAX:
        raise SerializationException(f"schema id {schema_id} is not between 0 and {SCHEMA_ID_MAX}")
    return _ID.pack(MAGIC_ID, schema_id)


def guid_prefix(guid: uuid.UUID) -> bytes:
    """Magic byte 1 and the GUID: in front of a payload, or the value of a record's header."""
    return bytes((MAGIC_GUID,)) + guid.bytes


def header_of(field: str) -> str:
    """The record header that holds the schema of a `key` or `value`."""
    return KEY_HEADER if field == "key" else VALUE_HEADER


def header_frame(headers: Iterable[tuple[str, bytes | None]], field: str) -> bytes | None:
    """The value of the record's last header of that name, if there is one."""
    name = header_of(field)
    found: bytes | None = None
    for one, content in headers:
        if one == name and content is not None:
            found = content
    return found


def message_indexes(path: Sequence[int]) -> bytes:
    """The path to a Protobuf message as bytes."""
    if list(path) == [0]:
        return b"\x00"
    return b"".join(_varint(number) for number in (len(path), *path))


def read_message_indexes(content: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """The path to a Protobuf message, and where its bytes end; raises `SerializationException`."""
    count, at = _read_varint(content, at)
    if count == 0:
        return (0,), at
    if not 0 < count <= NESTING_MAX:
        raise SerializationException(
            f"{count} message indexes: 1 to {NESTING_MAX} are possible; this is no Protobuf value"
        )
    path = []
    for _ in range(count):
        index, at = _read_varint(content, at)
        if index < 0:
            raise SerializationException(f"message index {index} is negative: this is no Protobuf value")
        path.append(index)
    return tuple(path), at


def _varint(number: int) -> bytes:
    if not 0 <= number <= SCHEMA_ID_MAX:
        raise SerializationException(f"message index {number} is not between 0 and {SCHEMA_ID_MAX}")
    rest, written = number << 1, bytearray()
    while rest > 0x7F:
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    written.append(rest)
    return bytes(written)


def _read_varint(content: bytes, at: int) -> tuple[int, int]:
    value = 0
    for index in range(_VARINT_BYTES_MAX):
        if at + index >= len(content):
            raise SerializationException(
                f"the bytes end after {len(content)}, inside the message indexes: this is no Protobuf value"
            )
        byte = content[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at + index + 1
    raise SerializationException(
        f"a message index is longer than {_VARINT_BYTES_MAX} bytes: this is no Protobuf value"
    )

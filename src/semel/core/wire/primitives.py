"""The primitive types of Kafka's protocol: integers, varints, strings, bytes, array lengths.

Role.   `Reader` reads one value after the other and never past the buffer's end; `Writer` writes them. Errors name the
        message, the field, the byte and the values.
Flow.   `plain` walks a message's table with them. `compile_read` and `compile_write` do the same work without them, for
        speed, and use them (through `plain`) for rare cases and to explain a failure.
Rules.  * Big-endian; lengths of classic strings are int16, of classic bytes and arrays int32, -1 is null;
          compact lengths are unsigned varints, one more than the length, 0 is null.
        * A length or count is checked against the bytes left before it is used.
        * Record bytes are slices of the caller's buffer; everything else is copied out of it.
"""

from collections.abc import Sized
from struct import Struct as Packing
from struct import error as PackingError  # noqa: N812  # an exception class named in lower case by the library
from typing import Final, NoReturn, cast

from semel.errors import WireError
from semel.types import BytesLike

ZERO_UUID: Final = bytes(16)
STRING_SIZE_MAX: Final = 0x7FFF
UNSIGNED_VARINT_MAX: Final = 0x7FFFFFFF
_VARINT_SIZE_MAX: Final = 5
_VARLONG_SIZE_MAX: Final = 10

_INT8: Final = Packing(">b")
_INT16: Final = Packing(">h")
_INT32: Final = Packing(">i")
_INT64: Final = Packing(">q")
_FLOAT64: Final = Packing(">d")


def unsigned_varint(value: int) -> bytes:
    """Seven bits a byte, lowest first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint(value: int) -> bytes:
    """A signed 32-bit number in zigzag: numbers near zero are short, with either sign."""
    return unsigned_varint((value << 1 ^ value >> 31) & 0xFFFFFFFF)


def varlong(value: int) -> bytes:
    """A signed 64-bit number in zigzag."""
    return unsigned_varint((value << 1 ^ value >> 63) & 0xFFFFFFFFFFFFFFFF)


class Reader:
    """A cursor over a buffer that refuses to pass its end, with the path of the current field."""

    __slots__ = ("data", "end", "path", "position", "title")

    def __init__(self, data: BytesLike, position: int = 0, *, title: str = "buffer") -> None:
        self.data = data
        self.position = position
        self.end = len(data)
        self.title = title
        self.path: list[str] = []

    def fail(self, reason: str, *, position: int | None = None) -> NoReturn:
        at = self.position if position is None else position
        raise WireError(f"{self.title}: {''.join(self.path).lstrip('.') or 'message'} at byte {at}: {reason}")

    def _take(self, packing: Packing, what: str) -> int:
        if self.end - self.position < packing.size:
            self.fail(f"{what} needs {packing.size} bytes, {max(self.end - self.position, 0)} are left")
        value: int = packing.unpack_from(self.data, self.position)[0]
        self.position += packing.size
        return value

    def int8(self) -> int:
        return self._take(_INT8, "int8")

    def int16(self) -> int:
        return self._take(_INT16, "int16")

    def int32(self) -> int:
        return self._take(_INT32, "int32")

    def int64(self) -> int:
        return self._take(_INT64, "int64")

    def float64(self) -> float:
        return float(self._take(_FLOAT64, "float64"))

    def boolean(self) -> bool:
        value = self.int8()
        if value not in (0, 1):
            self.fail(f"a boolean is 0 or 1, not {value & 0xFF}", position=self.position - 1)
        return value == 1

    def uuid(self) -> bytes:
        return bytes(self.slice(16, "uuid"))

    def unsigned_varint(self) -> int:
        start, value = self.position, self._varint_bits(_VARINT_SIZE_MAX, "unsigned varint")
        if value > UNSIGNED_VARINT_MAX:
            self.fail(f"unsigned varint {value} is above {UNSIGNED_VARINT_MAX}", position=start)
        return value

    def varint(self) -> int:
        start, bits = self.position, self._varint_bits(_VARINT_SIZE_MAX, "varint")
        if bits >> 32:
            self.fail("varint has more than 32 bits", position=start)
        return bits >> 1 ^ -(bits & 1)

    def varlong(self) -> int:
        start, bits = self.position, self._varint_bits(_VARLONG_SIZE_MAX, "varlong")
        if bits >> 64:
            self.fail("varlong has more than 64 bits", position=start)
        return bits >> 1 ^ -(bits & 1)

    def _varint_bits(self, size_max: int, what: str) -> int:
        start = position = self.position
        value = shift = 0
        while True:
            if position - start == size_max:
                self.fail(f"{what} is longer than {size_max} bytes")
            if position >= self.end:
                self.fail(f"{what} is cut off after {position - start} bytes")
            byte = self.data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                self.position = position
                return value

    def slice(self, size: int, what: str) -> BytesLike:
        """The next `size` bytes, not copied where the buffer is a memoryview."""
        if size > self.end - self.position:
            self.fail(f"{what} of {size} bytes, {max(self.end - self.position, 0)} are left")
        start = self.position
        self.position += size
        return self.data[start : self.position]

    def length(self, *, compact: bool, nullable: bool, what: str, short: bool = False) -> int:
        """A length or count; -1 is null. `short`: classic strings count in int16."""
        start = self.position
        length = self.unsigned_varint() - 1 if compact else self.int16() if short else self.int32()
        if length < -1 or (length == -1 and not nullable):
            self.fail(
                f"{what} of length {length}{'' if length < -1 else ' (null)'} is not allowed", position=start
            )
        return length

    def string(self, *, compact: bool, nullable: bool) -> str | None:
        start = self.position
        length = self.length(compact=compact, nullable=nullable, what="string", short=True)
        if length < 0:
            return None
        if length > STRING_SIZE_MAX:
            self.fail(f"string of {length} bytes is longer than {STRING_SIZE_MAX}", position=start)
        raw = self.slice(length, "string")
        try:
            return str(raw, "utf-8")
        except UnicodeDecodeError as fault:
            self.fail(
                f"string of {length} bytes is not UTF-8: {fault.reason} at its byte {fault.start}",
                position=start,
            )

    def bytes_(self, *, compact: bool, nullable: bool) -> bytes | None:
        length = self.length(compact=compact, nullable=nullable, what="bytes")
        return None if length < 0 else bytes(self.slice(length, "bytes"))

    def records(self, *, compact: bool, nullable: bool) -> memoryview | None:
        length = self.length(compact=compact, nullable=nullable, what="records")
        return None if length < 0 else memoryview(self.slice(length, "records"))

    def count(self, *, compact: bool, nullable: bool, size_min: int) -> int:
        """The element count of an array; refused if the bytes left cannot hold that many."""
        start = self.position
        count = self.length(compact=compact, nullable=nullable, what="array")
        if count > 0 and count * size_min > self.end - self.position:
            left = self.end - self.position
            self.fail(
                f"array of {count} elements needs at least {count * size_min} bytes, {left} are left",
                position=start,
            )
        return count


class Writer:
    """A list of pieces, with the path of the current field."""

    __slots__ = ("parts", "path", "title")

    def __init__(self, *, title: str = "buffer") -> None:
        self.parts: list[BytesLike] = []
        self.title = title
        self.path: list[str] = []

    def fail(self, reason: str) -> NoReturn:
        raise WireError(
            f"{self.title}: {''.join(self.path).lstrip('.') or 'message'} cannot be written: {reason}"
        )

    def fixed(self, packing: Packing, value: object, what: str) -> None:
        try:
            self.parts.append(packing.pack(value))
        except PackingError:
            self.fail(f"{value!r} is no {what}")

    def int8(self, value: int) -> None:
        self.fixed(_INT8, value, "int8")

    def int16(self, value: int) -> None:
        self.fixed(_INT16, value, "int16")

    def int32(self, value: int) -> None:
        self.fixed(_INT32, value, "int32")

    def int64(self, value: int) -> None:
        self.fixed(_INT64, value, "int64")

    def float64(self, value: float) -> None:
        self.fixed(_FLOAT64, value, "float64")

    def boolean(self, value: bool) -> None:
        self.parts.append(b"\x01" if value else b"\x00")

    def uuid(self, value: bytes) -> None:
        if not isinstance(value, bytes) or len(value) != len(ZERO_UUID):
            self.fail(f"{value!r} is not a uuid: 16 bytes are")
        self.parts.append(value)

    def unsigned_varint(self, value: int) -> None:
        self.parts.append(unsigned_varint(value))

    def length(self, length: int, *, compact: bool, short: bool = False) -> None:
        """-1 is null."""
        if compact:
            self.unsigned_varint(length + 1)
        elif short:
            self.int16(length)
        else:
            self.int32(length)

    def string(self, value: str | None, *, compact: bool, nullable: bool) -> None:
        if value is None:
            self.null(compact=compact, nullable=nullable, short=True)
            return
        if not isinstance(value, str):
            self.fail(f"{value!r} is not a string")
        try:
            raw = value.encode()
        except UnicodeEncodeError as fault:
            self.fail(f"{value!r} is not Unicode text: {fault.reason}")
        if len(raw) > STRING_SIZE_MAX:
            self.fail(f"a string of {len(raw)} bytes is longer than {STRING_SIZE_MAX}")
        self.length(len(raw), compact=compact, short=True)
        self.parts.append(raw)

    def bytes_(self, value: BytesLike | None, *, compact: bool, nullable: bool) -> None:
        if value is None:
            self.null(compact=compact, nullable=nullable)
        elif not isinstance(value, bytes | bytearray | memoryview):
            self.fail(f"{value!r} is not bytes")
        else:
            self.length(len(value), compact=compact)
            self.parts.append(value)

    def records(self, value: object, *, compact: bool, nullable: bool) -> None:
        """Bytes, or another object with a length that the caller can send, such as a range of a file."""
        if value is None:
            self.null(compact=compact, nullable=nullable)
        elif not isinstance(value, Sized) or isinstance(value, str):
            self.fail(f"{value!r} is not record bytes")
        else:
            self.length(len(value), compact=compact)
            self.parts.append(cast("BytesLike", value))

    def null(self, *, compact: bool, nullable: bool, short: bool = False) -> None:
        if not nullable:
            self.fail("it may not be null in this version")
        self.length(-1, compact=compact, short=short)

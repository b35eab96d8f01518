"""Requests and responses: encode and decode at a version, by code compiled on first use.

Role.   The base classes of all `messages/`, and the only access to the codecs.
Flow.   `registry` hands out the classes; handlers and the client construct them; `framing` adds header and length.
Rules.  * `decode` takes all of the buffer from `position` on; `encode` gives bytes that `decode` takes. Bytes after a
          request are ignored.
        * Compiled code decides whether bytes or values are valid; `plain` gives the reason if not. A disagreement of
          the two raises `InvariantError`.
        * Record bytes are not copied: `decode` returns slices of the buffer, and `encode_parts` returns the caller's
          own objects (any object with a length, for example a range of a file).
"""

from typing import ClassVar, Final, Generic, Self, TypeVar

from semel.core.wire import plain
from semel.core.wire.compile_read import ReadFunction, compile_reader, has_records
from semel.core.wire.compile_write import RareError, WriteFunction, compile_writer
from semel.core.wire.schema import Struct, Versions
from semel.errors import InvariantError, TooManyRowsError, UnsupportedVersionError, WireError
from semel.types import BytesLike

R_co = TypeVar("R_co", bound="Response", covariant=True)
NO_API_KEY: Final = -1
ROWS_UNBOUNDED: Final = 1 << 62
SMALL_PART_BYTES: Final = 4096  # Smaller parts are joined: cheaper than one more buffer to send.


class Schema:
    """A message's properties besides its fields, and its compiled codecs."""

    __slots__ = ("api_key", "cls", "flexible", "in_place", "readers", "versions", "view_readers", "writers")

    def __init__(self, cls: type["Message"], api_key: int, versions: str, flexible: str) -> None:
        self.cls = cls
        self.api_key = api_key
        self.versions = Versions.of(versions)
        self.flexible = Versions.of(flexible)
        self.in_place: bool | None = None
        self.readers: dict[int, ReadFunction] = {}
        self.view_readers: dict[int, ReadFunction] = {}
        self.writers: dict[int, WriteFunction] = {}

    @property
    def open_end(self) -> bool:
        """Whether unread bytes may follow. Kafka's brokers ignore them, and librdkafka sends some."""
        return issubclass(self.cls, Request)

    def reader(self, version: int) -> ReadFunction:
        """Compiled now; `decode` looks into `readers` first."""
        self.check(version)
        self.in_place = has_records(self.cls)
        made = self.readers[version] = compile_reader(
            self.cls, version=version, flexible=version in self.flexible, open_end=self.open_end
        )
        return made

    def view_reader(self, version: int) -> ReadFunction:
        """For a message with record bytes in a memoryview."""
        if (made := self.view_readers.get(version)) is None:
            flexible = version in self.flexible
            made = compile_reader(
                self.cls, version=version, flexible=flexible, open_end=self.open_end, view=True
            )
            self.view_readers[version] = made
        return made

    def writer(self, version: int) -> WriteFunction:
        self.check(version)
        made = self.writers[version] = compile_writer(
            self.cls, version=version, flexible=version in self.flexible
        )
        return made

    def check(self, version: int) -> None:
        if version not in self.versions:
            raise UnsupportedVersionError(
                f"{self.cls.__name__} has versions {self.versions}, version {version} was asked for"
            )


class Message(Struct):
    """A whole message. `schema` says which versions it has."""

    schema: ClassVar[Schema]

    def __init_subclass__(
        cls, *, key: int = NO_API_KEY, versions: str = "none", flexible: str = "none"
    ) -> None:
        super().__init_subclass__()
        cls.schema = Schema(cls, key, versions, flexible)

    @classmethod
    def decode(
        cls, data: BytesLike, version: int, position: int = 0, *, rows_max: int = ROWS_UNBOUNDED
    ) -> Self:
        """The message in `data` from `position` on. Raises `WireError` for invalid bytes.

        A message with more than `rows_max` elements of arrays and tagged fields raises `TooManyRowsError`.
        """
        schema = cls.schema
        reader = schema.readers.get(version) or schema.reader(version)
        if type(data) is not bytes:
            if not schema.in_place:
                data = bytes(data)
            elif type(data) is memoryview:
                reader = schema.view_reader(version)
        try:
            message: Self = reader(data, position, rows_max)
            return message
        except TooManyRowsError:
            raise TooManyRowsError(f"{cls.__name__} v{version} has more than {rows_max} rows") from None
        except Exception as fault:
            refused = fault
        flexible = version in schema.flexible
        plain.read(cls, data, position, version=version, flexible=flexible, open_end=schema.open_end)
        raise _disagreement(cls, version) from refused

    def encode(self, version: int) -> bytes:
        """The message's bytes. Raises `WireError` or `UnsupportedVersionError` naming the field that does not fit."""
        schema = self.schema
        writer = schema.writers.get(version) or schema.writer(version)
        out: list[BytesLike] = []
        try:
            writer(self, out)
            return b"".join(out)
        except Exception as fault:
            refused = fault
        parts = self._written_plainly(version)
        if not all(isinstance(part, bytes | bytearray | memoryview) for part in parts):
            raise WireError(f"{type(self).__name__} v{version}: its records are not bytes, use encode_parts")
        if not isinstance(refused, RareError):
            raise _disagreement(type(self), version) from refused
        return b"".join(parts)

    def encode_parts(self, version: int) -> list[BytesLike]:
        """The same bytes in pieces; the object in a `records` field is returned unchanged as one of them."""
        schema = self.schema
        writer = schema.writers.get(version) or schema.writer(version)
        out: list[BytesLike] = []
        refused: Exception | None = None
        try:
            writer(self, out)
        except Exception as fault:
            refused = fault
        if refused is not None:
            out = self._written_plainly(version)
            if not isinstance(refused, RareError):
                raise _disagreement(type(self), version) from refused
        parts: list[BytesLike] = []
        small: list[BytesLike] = []
        for part in out:
            if type(part) is bytes and len(part) < SMALL_PART_BYTES:
                small.append(part)
            else:
                if small:
                    parts.append(b"".join(small))
                    small.clear()
                parts.append(part)
        if small:
            parts.append(b"".join(small))
        return parts

    def _written_plainly(self, version: int) -> list[BytesLike]:
        """Write by the table when compiled code gave up; raises with the reason if the message is invalid."""
        return plain.write(self, version=version, flexible=version in self.schema.flexible)


def _disagreement(cls: type[Message], version: int) -> InvariantError:
    return InvariantError(f"{cls.__name__} v{version}: compiled code refused what the table accepts")


class Row(Message):
    """A key or value in an internal topic, or a message inside another message's bytes."""


class Response(Message):
    """A response."""


class Request(Message, Generic[R_co]):
    """A request; the type parameter is its response, so that a client's `send` has a result type."""

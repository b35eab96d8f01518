"""Frames on a connection: a length, a header, a message.

Role.   `FrameReader` cuts a stream of bytes into frames; the functions put headers on messages and take them off.
Flow.   `net.listener` and `net.connection` feed a `FrameReader` as an asyncio `BufferedProtocol` does: `get_buffer`,
        then `buffer_updated`, which returns the frames that are complete.
Rules.  * A length below zero or above `socket.request.max.bytes` is refused once its four bytes are there, before
          memory is reserved for the frame.
        * Each frame has its own `bytearray`: record batches are patched in place and slices of it stay valid.
        * The readers of one loop may share a `ReceiveBuffer`: an incomplete frame is copied out of it before the next
          read, and its remaining bytes are received straight into the frame's own buffer.
        * Announced frames have bounded memory. One peer's announced frame reserves at most `TRUSTED_FRAME_BYTES` or
          twice the bytes received, whichever is more; all peers of a loop about `TRUSTED_BYTES_MAX`. Beyond that a
          frame begins small and grows as bytes arrive.
        * After an error the connection must be closed.
"""

from struct import Struct as Packing
from typing import Final, NamedTuple, NoReturn

from semel.core.wire import registry
from semel.core.wire.message import Message
from semel.core.wire.plain import read_tag_section
from semel.core.wire.primitives import Reader
from semel.errors import FrameTooLargeError, WireError
from semel.types import BytesLike

SOCKET_REQUEST_MAX_BYTES: Final = 104_857_600  # Kafka's default of socket.request.max.bytes.
TRUSTED_FRAME_BYTES: Final = 1 << 20
TRUSTED_BYTES_MAX: Final = 64 << 20
_FRAME_BYTES_MIN: Final = 4096
RECEIVE_BUFFER_BYTES: Final = 64 << 10  # A few requests of a producer's usual 16 KiB.
_LENGTH: Final = Packing(">i")
_REQUEST_START: Final = Packing(">hhih")  # API key, version, correlation id, length of the client id.
_HEADERS_KNOWN_MAX: Final = 1024
_FRAMED_REQUEST_START: Final = Packing(">ihhih")
_FRAMED_RESPONSE: Final = Packing(">ii")
_FRAMED_RESPONSE_FLEXIBLE: Final = Packing(">iix")


class RequestHeader(NamedTuple):
    """The header of a request."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None = None


def read_request_header(frame: BytesLike) -> tuple[RequestHeader, int]:
    """The header, and where the request begins. Raises for an unknown API, because the end of its header is unknown."""
    if len(frame) < _REQUEST_START.size:
        raise WireError(f"request header: {len(frame)} bytes, at least {_REQUEST_START.size} are needed")
    api_key, api_version, correlation_id, size = _REQUEST_START.unpack_from(frame, 0)
    flexible = registry.api(api_key).request_header(api_version) == registry.REQUEST_HEADER_FLEXIBLE
    position = _REQUEST_START.size + max(size, 0)
    if size < 0 or position > len(frame) or (flexible and (position == len(frame) or frame[position])):
        return _read_request_header(frame, flexible=flexible)
    try:
        client_id = str(frame[_REQUEST_START.size : position], "utf-8")
    except UnicodeDecodeError:
        return _read_request_header(frame, flexible=flexible)
    return RequestHeader(api_key, api_version, correlation_id, client_id), position + (1 if flexible else 0)


def _read_request_header(frame: BytesLike, *, flexible: bool) -> tuple[RequestHeader, int]:
    """The slow path: a null client id, tagged fields, or the error for an invalid header."""
    reader = Reader(frame, title="request header")
    api_key, api_version, correlation_id = reader.int16(), reader.int16(), reader.int32()
    reader.path.append("client_id")
    client_id = reader.string(compact=False, nullable=True)
    if flexible:
        read_tag_section(reader)
    return RequestHeader(api_key, api_version, correlation_id, client_id), reader.position


class RequestHeaders:
    """Reads request headers with a cache: a client's repeated headers differ only in the correlation id."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, int, bytes], tuple[str | None, int]] = {}

    def read(self, frame: bytearray) -> tuple[int, int, int, str | None, int]:
        """API key, version, correlation id, client id, and where the request begins; as `read_request_header`."""
        if len(frame) < _REQUEST_START.size:
            read_request_header(frame)  # Raises.
        api_key, version, correlation_id, size = _REQUEST_START.unpack_from(frame, 0)
        # Includes the byte behind the client id, which in a flexible header says that there are no tags.
        rest = bytes(frame[_REQUEST_START.size : _REQUEST_START.size + size + 1])
        known = self._known.get((api_key, version, size, rest))
        if known is not None:
            return api_key, version, correlation_id, *known
        header, position = read_request_header(frame)
        if size >= 0 and len(rest) == size + 1 and position <= _REQUEST_START.size + size + 1:
            if len(self._known) >= _HEADERS_KNOWN_MAX:
                self._known.clear()
            self._known[api_key, version, size, rest] = header.client_id, position
        return api_key, version, correlation_id, header.client_id, position


def read_response_header(frame: BytesLike, header_version: int) -> tuple[int, int]:
    """The correlation id, and where the response begins."""
    if header_version == registry.RESPONSE_HEADER:
        if len(frame) >= _LENGTH.size:
            return _LENGTH.unpack_from(frame, 0)[0], _LENGTH.size
    elif len(frame) > _LENGTH.size and not frame[_LENGTH.size]:
        return _LENGTH.unpack_from(frame, 0)[0], _LENGTH.size + 1
    reader = Reader(frame, title="response header")
    correlation_id = reader.int32()
    if header_version == registry.RESPONSE_HEADER_FLEXIBLE:
        read_tag_section(reader)
    return correlation_id, reader.position


def request_frame(header: RequestHeader, request: Message) -> bytes:
    """Length, header and request."""
    key, version, correlation_id, client_id = header
    body = request.encode(version)
    client = b"" if client_id is None else client_id.encode()
    size = -1 if client_id is None else len(client)
    flexible = registry.api(key).request_header(version) == registry.REQUEST_HEADER_FLEXIBLE
    length = _REQUEST_START.size + len(client) + flexible + len(body)
    start = _FRAMED_REQUEST_START.pack(length, key, version, correlation_id, size)
    return b"".join((start, client, b"\0" if flexible else b"", body))


def request_frame_parts(header: RequestHeader, request: Message) -> list[BytesLike]:
    """The same in pieces, record bytes as they were given; see `Message.encode_parts`."""
    key, version, correlation_id, client_id = header
    parts = request.encode_parts(version)
    client = b"" if client_id is None else client_id.encode()
    size = -1 if client_id is None else len(client)
    flexible = registry.api(key).request_header(version) == registry.REQUEST_HEADER_FLEXIBLE
    length = _REQUEST_START.size + len(client) + flexible + sum(map(len, parts))
    start = _FRAMED_REQUEST_START.pack(length, key, version, correlation_id, size)
    parts[0] = b"".join((start, client, b"\0" if flexible else b"", parts[0]))
    return parts


def response_frame(correlation_id: int, response: Message, version: int) -> bytes:
    """Length, header and response."""
    body = response.encode(version)
    if registry.api(response.schema.api_key).response_header(version) == registry.RESPONSE_HEADER:
        return _FRAMED_RESPONSE.pack(4 + len(body), correlation_id) + body
    return _FRAMED_RESPONSE_FLEXIBLE.pack(5 + len(body), correlation_id) + body


def response_frame_parts(correlation_id: int, response: Message, version: int) -> list[BytesLike]:
    """The same in pieces, record bytes as they were given; see `Message.encode_parts`."""
    parts = response.encode_parts(version)
    size = sum(map(len, parts))
    if registry.api(response.schema.api_key).response_header(version) == registry.RESPONSE_HEADER:
        start = _FRAMED_RESPONSE.pack(4 + size, correlation_id)
    else:
        start = _FRAMED_RESPONSE_FLEXIBLE.pack(5 + size, correlation_id)
    parts.insert(0, start)
    return parts


class ReceiveBuffer:
    """The buffer bytes are received into. All connections of a loop share one: each reads and cuts in one step."""

    __slots__ = ("data", "trusted_bytes", "view")

    def __init__(self, size_bytes: int = RECEIVE_BUFFER_BYTES) -> None:
        self.data = bytearray(size_bytes)
        self.view = memoryview(self.data)
        self.trusted_bytes = 0
        """Bytes that readers have reserved for announced frames that have not arrived."""


class FrameReader:
    """Cuts frames out of a stream of arbitrary chunks."""

    __slots__ = (
        "_buffer",
        "_frame",
        "_frame_filled",
        "_frame_size",
        "_length",
        "_trusted_bytes",
        "frame_max_bytes",
        "peer",
    )

    def __init__(
        self,
        frame_max_bytes: int = SOCKET_REQUEST_MAX_BYTES,
        *,
        buffer: ReceiveBuffer | None = None,
        peer: str = "a peer",
    ) -> None:
        self.frame_max_bytes = frame_max_bytes
        self.peer = peer
        self._buffer = buffer or ReceiveBuffer()
        self._length = b""  # The received part of an incomplete length.
        self._frame: bytearray | None = None  # An incomplete frame.
        self._frame_size = 0
        self._frame_filled = 0
        self._trusted_bytes = 0

    @property
    def pending_bytes(self) -> int:
        """Bytes of a frame that is not complete, its length included."""
        return len(self._length) if self._frame is None else _LENGTH.size + self._frame_filled

    def get_buffer(self, sizehint: int = -1) -> memoryview:
        """Where the next bytes go; never empty. They must be there when `buffer_updated` is called next."""
        del sizehint  # asyncio's hint; the frame's own length is the better one.
        if self._frame is None:
            if not self._length:
                return self._buffer.view
            self._buffer.data[: len(self._length)] = self._length
            return self._buffer.view[len(self._length) :]
        if self._frame_filled == len(self._frame):
            grown = bytearray(min(self._frame_size, 2 * self._frame_filled))
            grown[: self._frame_filled] = self._frame
            self._frame = grown
        return memoryview(self._frame)[self._frame_filled :]

    def buffer_updated(self, count: int) -> list[bytearray]:
        """`count` bytes were put into the buffer; the frames that are complete now, without their lengths."""
        if self._frame is None:
            return self._cut(len(self._length) + count)
        self._frame_filled += count
        if self._frame_filled < self._frame_size:
            return []
        frame = self._frame
        self.forget()
        return [frame]

    def forget(self) -> None:
        """Let go of the frame that has begun: it is complete, or its peer is gone."""
        self._frame = None
        self._buffer.trusted_bytes -= self._trusted_bytes
        self._trusted_bytes = 0

    def feed(self, data: BytesLike) -> list[bytearray]:
        """The frames completed by `data`, for callers that receive bytes without a buffer."""
        frames: list[bytearray] = []
        rest = memoryview(data)
        while rest:
            buffer = self.get_buffer()
            count = min(len(buffer), len(rest))
            buffer[:count] = rest[:count]
            rest = rest[count:]
            frames += self.buffer_updated(count)
        return frames

    def _cut(self, filled: int) -> list[bytearray]:
        frames: list[bytearray] = []
        data = self._buffer.data
        position = 0
        while filled - position >= _LENGTH.size:
            size: int = _LENGTH.unpack_from(data, position)[0]
            if not 0 <= size <= self.frame_max_bytes:
                self._refuse(size)
            start = position + _LENGTH.size
            position = start + size
            if position > filled:
                self._begin_frame(size, start, filled)
                position = filled
                break
            frames.append(data[start:position])
        self._length = bytes(data[position:filled])
        return frames

    def _begin_frame(self, size: int, start: int, filled: int) -> None:
        came = filled - start
        begun = min(size, max(_FRAME_BYTES_MIN, 2 * came))
        if begun < size and self._buffer.trusted_bytes < TRUSTED_BYTES_MAX:
            begun = min(size, max(TRUSTED_FRAME_BYTES, begun))
            self._trusted_bytes = begun
            self._buffer.trusted_bytes += begun
        self._frame = bytearray(begun)
        self._frame[:came] = self._buffer.view[start:filled]
        self._frame_size = size
        self._frame_filled = came

    def _refuse(self, size: int) -> NoReturn:
        if size < 0:
            raise WireError(f"{self.peer} announced a frame of {size} bytes: this is no Kafka connection")
        raise FrameTooLargeError(
            f"{self.peer} announced a frame of {size} bytes, socket.request.max.bytes allows {self.frame_max_bytes}"
        )

"""One end of a ZooKeeper connection: frames in, whole and in order; frames out.

Role.   `FrameProtocol` is the asyncio protocol of a client's `session`, and of the simulated server.
Rules.  A frame that is longer than its reader takes, or negative, aborts the connection.
"""

import asyncio
from collections.abc import Callable
from struct import Struct
from typing import Final, cast

_LENGTH: Final = Struct(">i")
FRAME_MAX_BYTES: Final = 0xFFFFF
"""ZooKeeper's jute.maxbuffer at a server."""
ANSWER_MAX_BYTES: Final = 4 << 20
"""The same at Kafka's client: a list of children may be longer than any request."""


class FrameProtocol(asyncio.Protocol):
    """The protocol; `on_frame` may close the connection, and hears nothing more then."""

    def __init__(
        self,
        on_frame: Callable[[bytes], None],
        on_lost: Callable[[], None],
        on_made: Callable[[asyncio.Transport], None] | None = None,
        *,
        frame_max_bytes: int = FRAME_MAX_BYTES,
    ) -> None:
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._on_made = on_made
        self._frame_max_bytes = frame_max_bytes
        self._transport: asyncio.Transport | None = None
        self._data = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by its class.
        if self._on_made is not None:
            self._on_made(self._transport)

    def data_received(self, data: bytes) -> None:
        self._data += data
        while self._transport is not None and len(self._data) >= _LENGTH.size:
            size: int = _LENGTH.unpack_from(self._data)[0]
            if not 0 <= size <= self._frame_max_bytes:
                self._transport.abort()
                return
            end = _LENGTH.size + size
            if len(self._data) < end:
                return
            payload = bytes(self._data[_LENGTH.size : end])
            del self._data[:end]
            if self._transport.is_closing():
                return
            self._on_frame(payload)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc  # Whichever way it went.
        self._transport = None
        self._on_lost()

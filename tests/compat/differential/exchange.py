"""A plain client for one broker: a request out, its answer in, as messages; and what was learned on the way.

The two brokers of the differential test give different ids to the same things. `Side` remembers its own under the
names the table uses, so that later requests can use them and answers can be compared under those names.
"""

import socket
import struct
from dataclasses import dataclass, field
from typing import Final

from semel.core.wire import framing
from semel.core.wire.framing import RequestHeader
from semel.core.wire.message import Message
from semel.core.wire.primitives import ZERO_UUID
from semel.core.wire.registry import BY_KEY, ApiKey

_PATIENCE_SECONDS: Final = 20.0
CLOSED: Final = "the connection was closed"


@dataclass
class Side:
    """One broker, and what is known of it."""

    name: str
    address: tuple[str, int]
    topic_ids: dict[str, bytes] = field(default_factory=dict)
    """By a name of the table's choice: a topic created again keeps its old id under another one."""
    numbers: dict[str, int] = field(default_factory=dict)
    """Producer ids and session ids."""
    texts: dict[str, str] = field(default_factory=dict)
    """Member ids."""
    _socket: socket.socket | None = None
    _correlation_id: int = 0

    def ask(self, request: Message, version: int, *, answered: bool = True) -> Message | str:
        """The answer, or that there was none because the broker hung up."""
        self._correlation_id += 1
        key = request.schema.api_key
        frame = framing.request_frame(
            RequestHeader(key, version, self._correlation_id, "differential"), request
        )
        if not answered:
            return self._send(frame) or "sent"
        found = self.ask_bytes(frame)
        if isinstance(found, str):
            return found
        api = BY_KEY[ApiKey(key)]
        correlation_id, position = framing.read_response_header(found, api.response_header(version))
        assert correlation_id == self._correlation_id
        return api.response.decode(found, version, position)

    def ask_bytes(self, frame: bytes) -> bytes | str:
        """The same in bytes, for requests no message stands for."""
        return self._send(frame) or self._receive()

    def _send(self, frame: bytes) -> str:
        if self._socket is None:
            self._socket = socket.create_connection(self.address, timeout=_PATIENCE_SECONDS)
        try:
            self._socket.sendall(frame)
        except (ConnectionResetError, BrokenPipeError):
            self.close()
            return CLOSED
        return ""

    def _receive(self) -> bytes | str:
        size = self._read(4)
        content = None if size is None else self._read(struct.unpack(">i", size)[0])
        return CLOSED if content is None else content

    def _read(self, size: int) -> bytes | None:
        assert self._socket is not None
        content = bytearray()
        while len(content) < size:
            try:
                piece = self._socket.recv(size - len(content))
            except ConnectionResetError:
                piece = b""
            except TimeoutError:
                self.close()
                raise TimeoutError(f"{self.name} did not answer within {_PATIENCE_SECONDS} seconds") from None
            if not piece:
                self.close()
                return None
            content += piece
        return bytes(content)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def topic_label(self, topic_id: bytes) -> str:
        """What the table calls this id."""
        if topic_id == ZERO_UUID:
            return "none"
        return next((name for name, known in self.topic_ids.items() if known == topic_id), "new")

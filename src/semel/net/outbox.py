"""The way out of a connection: pieces in order, written when the other end takes them.

Role.   `Outbox` collects what is to be sent and writes it to a transport in as few calls as possible; ranges of
        files go by the kernel where it can.
Flow.   `inbound.InboundConnection` puts pieces in and flushes; the transport's water marks say when to stop.
Rules.  * Pieces leave in the order they came in; a file's range is read only when its turn has come.
        * While the transport is paused, or its socket full, nothing is written, so memory holds at most what was put
          in, one chunk of a file and the transport's own buffer.
        * One flush sends at most `TURN_BYTES_MAX` of files; the rest waits for the next turn of the loop.
        * The transport resumes only when it is empty: the kernel can send a file only behind an empty buffer.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, cast

from semel.net.reply import FileSlice, Piece, Reply
from semel.runtime.network import FullSocket, Network
from semel.types import BytesLike

HIGH_WATER_BYTES: Final = 128 * 1024
TURN_BYTES_MAX: Final = 8 * 1024 * 1024
_COPIED_BYTES_MAX: Final = 32 * 1024  # Above, one more call costs less than one more copy.


class Outbox:
    """The replies that wait to be sent on one transport."""

    __slots__ = (
        "_files_waiting",
        "_full_socket",
        "_network",
        "_pieces",
        "_resume",
        "_transport",
        "paused",
        "waiting_bytes",
    )

    def __init__(self, network: Network, transport: asyncio.Transport, resume: Callable[[], object]) -> None:
        """`resume` is called when a socket that was full takes more, as the transport calls it when it has drained."""
        transport.set_write_buffer_limits(high=HIGH_WATER_BYTES, low=0)
        self._network = network
        self._transport = transport
        self._resume = resume
        self._full_socket: FullSocket | None = None
        self._pieces: deque[Piece] = deque()
        self._files_waiting = 0
        self.waiting_bytes = 0
        self.paused = False

    def put(self, reply: Reply) -> None:
        """Queue a reply; it is sent by `flush`."""
        if reply is None:
            return
        if not isinstance(reply, list):
            self._pieces.append(reply)
            self.waiting_bytes += len(reply)
            return
        self._pieces.extend(reply)
        self.waiting_bytes += sum(map(len, reply))
        if FileSlice in map(type, reply):
            self._files_waiting += sum(type(piece) is FileSlice for piece in reply)

    def flush(self) -> bool:
        """Write what the transport takes. True if nothing is left, or the transport's resuming will bring us back."""
        pieces = self._pieces
        if not pieces or self.paused:
            return True
        if not self._files_waiting:
            buffers = cast("deque[BytesLike]", pieces)
            if len(buffers) == 1:
                self._transport.write(buffers[0])
            elif self.waiting_bytes < _COPIED_BYTES_MAX:
                self._transport.write(b"".join(buffers))
            else:
                self._write(buffers)
            buffers.clear()
            self.waiting_bytes = 0
            return True
        return self._flush_with_files()

    def is_empty(self) -> bool:
        return not self._pieces

    def clear(self) -> None:
        """Send nothing any more."""
        if self._full_socket is not None:
            self._full_socket.cancel()
        self._pieces.clear()
        self._files_waiting = 0
        self.waiting_bytes = 0

    def _flush_with_files(self) -> bool:
        sent_bytes = 0
        together: list[BytesLike] = []
        while self._pieces and not self.paused:
            piece = self._pieces.popleft()
            if not isinstance(piece, FileSlice):
                self.waiting_bytes -= len(piece)
                together.append(piece)
                continue
            if together:
                self._write(together)
                together = []
            if piece.size:
                sent = self._network.send_file(
                    self._transport, piece.file, piece.position, piece.size, self._resume
                )
                if isinstance(sent, FullSocket):
                    self._pieces.appendleft(piece)
                    self._full_socket = sent
                    self.paused = True
                    return True
                sent_bytes += sent
                self.waiting_bytes -= sent
                if sent < piece.size:
                    rest = FileSlice(piece.file, piece.position + sent, piece.size - sent)
                    self._pieces.appendleft(rest)
                    if sent_bytes >= TURN_BYTES_MAX:
                        return False
                    continue
            self._files_waiting -= 1
        if together:
            self._write(together)
        return True

    def _write(self, buffers: Iterable[BytesLike]) -> None:
        """Small buffers leave in one call, large ones without being copied.

        Not by `writelines`: in some releases of Python 3.12 and 3.13 it forgets to say that the client is slow.
        """
        small: list[BytesLike] = []
        for buffer in buffers:
            if len(buffer) < _COPIED_BYTES_MAX:
                small.append(buffer)
                continue
            if small:
                self._transport.write(b"".join(small))
                small = []
            self._transport.write(buffer)
        if small:
            self._transport.write(b"".join(small))

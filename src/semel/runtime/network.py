"""Connections as `net/` sees them: asyncio transports and protocols, from the system or from memory.

Role.   The only door to the network. `RealNetwork` uses the running loop (asyncio's or uvloop); the same
        interface in memory is `memory_network.MemoryNetwork`.
Flow.   `net.listener` listens, `net.connection` connects; both get plain asyncio transports.
Rules.  * `send_file` puts bytes of a file into the stream behind what was written before. It returns how many it
          took, at least one, and never waits: the caller waits until the transport has drained and goes on.
        * Bytes go from the page cache to the socket by the kernel where transport, file and socket allow it;
          through memory, at most `FILE_CHUNK_BYTES` at a time, where they do not.
"""

import asyncio
import os
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from semel.runtime.files import File

FILE_CHUNK_BYTES: Final = 256 * 1024
_SENDFILE_MAX_BYTES: Final = 8 * 1024 * 1024  # One client must not keep the loop from the others.

P = TypeVar("P", bound=asyncio.BaseProtocol)


class Server(Protocol):
    """A listening address."""

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Where it listens: the host and the port, the chosen one if 0 was asked for."""

    def close(self) -> None:
        """Accept no more. Connections that are open stay open."""


class Network(Protocol):
    """A host's way to others."""

    async def listen(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        *,
        backlog: int = 128,
    ) -> Server:
        """Accept connections, each with a new protocol. Port 0 means any that is free."""

    async def connect(
        self, protocol_factory: Callable[[], P], host: str, port: int
    ) -> tuple[asyncio.Transport, P]:
        """Open a connection; raises `OSError` if nobody answers."""

    def send_file(self, transport: asyncio.Transport, file: File, position: int, size: int) -> int:
        """Send up to `size` bytes of a file from `position`; how many were taken."""


class RealServer:
    """A listening socket of this machine."""

    def __init__(self, server: asyncio.Server) -> None:
        self._server = server

    @property
    def addresses(self) -> list[tuple[str, int]]:
        return [socket.getsockname()[:2] for socket in self._server.sockets]

    def close(self) -> None:
        self._server.close()


class RealNetwork:
    """The network of this machine."""

    async def listen(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        *,
        backlog: int = 128,
    ) -> RealServer:
        loop = asyncio.get_running_loop()
        return RealServer(await loop.create_server(protocol_factory, host or None, port, backlog=backlog))

    async def connect(
        self, protocol_factory: Callable[[], P], host: str, port: int
    ) -> tuple[asyncio.Transport, P]:
        return await asyncio.get_running_loop().create_connection(protocol_factory, host, port)

    def send_file(self, transport: asyncio.Transport, file: File, position: int, size: int) -> int:
        sent = 0
        if transport.get_write_buffer_size() == 0 and transport.get_extra_info("sslcontext") is None:
            sent = _send_by_kernel(transport, file, position, size)
        return sent or send_through_memory(transport, file, position, size)


def send_through_memory(transport: asyncio.Transport, file: File, position: int, size: int) -> int:
    """Read a piece of the file and write it to the transport."""
    data = file.read_at(position, min(size, FILE_CHUNK_BYTES))
    if not data:
        raise EOFError(f"{file.path} ends at {file.size()}: {size} bytes from {position} cannot be sent")
    transport.write(data)
    return len(data)


def _send_by_kernel(transport: asyncio.Transport, file: File, position: int, size: int) -> int:
    """What the socket takes without waiting; 0 if it is full, or if file or socket cannot do it."""
    socket = transport.get_extra_info("socket")
    if socket is None:
        return 0
    try:
        return os.sendfile(socket.fileno(), file.fileno(), position, min(size, _SENDFILE_MAX_BYTES))
    except OSError:  # Full, no descriptor, or broken: writing the bytes waits, works or reports it.
        return 0

"""Connections as `net/` sees them: asyncio transports and protocols, from the system or from memory.

Role.   The only door to the network. `RealNetwork` uses the running loop (asyncio's or uvloop); the same
        interface in memory is `memory_network.MemoryNetwork`.
Flow.   `net.listener` listens, `net.connection` connects; both get plain asyncio transports.
Rules.  * `send_file` puts bytes of a file into the stream behind what was written before. It returns how many it
          took, and never waits: the caller goes on when the transport has drained, or, where nothing was taken
          because the socket is full, when it is told.
        * Bytes go from the page cache to the socket by the kernel where transport, file and socket allow it;
          through memory, at most `FILE_CHUNK_BYTES` at a time, where they do not. A full socket is waited for: what is
          copied instead costs twice as much as what the kernel sends.
"""

import asyncio
import contextlib
import os
import select
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

from semel.runtime.files import File

FILE_CHUNK_BYTES: Final = 256 * 1024
_SENDFILE_MAX_BYTES: Final = 8 * 1024 * 1024  # One client must not keep the loop from the others.

_HANG_UP: Final = getattr(select, "POLLRDHUP", 0)  # Linux; elsewhere only a connection that broke is noticed.

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
        send_buffer_bytes: int | None = None,
        receive_buffer_bytes: int | None = None,
    ) -> Server:
        """Accept connections, each with a new protocol. Port 0 means any that is free.

        Buffers of a given size stay so; those of none are the system's to tune.
        """

    def own_address(self) -> str:
        """The address under which others probably reach this host."""

    async def connect(
        self, protocol_factory: Callable[[], P], host: str, port: int, *, tls: ssl.SSLContext | None = None
    ) -> tuple[asyncio.Transport, P]:
        """Open a connection, with TLS if a context is given; raises `OSError` if nobody answers."""

    def send_file(
        self,
        transport: asyncio.Transport,
        file: File,
        position: int,
        size: int,
        on_writable: Callable[[], object],
    ) -> "int | FullSocket":
        """Send up to `size` bytes of a file from `position`; how many were taken, at least one.

        If the socket is full, none; then `on_writable` is called once, when it no longer is.
        """

    def hung_up(self, transports: Sequence[asyncio.Transport]) -> list[bool]:
        """Of each connection, whether its other end has closed it, or its half of it: also where nobody reads."""


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
        send_buffer_bytes: int | None = None,
        receive_buffer_bytes: int | None = None,
    ) -> RealServer:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            protocol_factory, host or None, port, backlog=backlog, start_serving=False
        )
        sizes = ((socket.SO_SNDBUF, send_buffer_bytes), (socket.SO_RCVBUF, receive_buffer_bytes))
        for listening in server.sockets:
            # A copy of the descriptor: loops hand out sockets that do not let their options be set.
            with socket.socket(fileno=os.dup(listening.fileno())) as copy:
                for option, size in sizes:
                    if size is not None:
                        copy.setsockopt(socket.SOL_SOCKET, option, size)  # Connections inherit it.
        await server.start_serving()
        return RealServer(server)

    def own_address(self) -> str:
        for family, elsewhere in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
            with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as asking:
                asking.connect((elsewhere, 9))  # Nothing is sent: the system only says which way it would go.
                return str(asking.getsockname()[0])
        return "127.0.0.1"

    async def connect(
        self, protocol_factory: Callable[[], P], host: str, port: int, *, tls: ssl.SSLContext | None = None
    ) -> tuple[asyncio.Transport, P]:
        loop = asyncio.get_running_loop()
        try:
            return await loop.create_connection(protocol_factory, host, port, ssl=tls)
        except RuntimeError:  # The interpreter ends, and lends no thread to look up a name.
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        name = None if tls is None else host
        return await loop.create_connection(protocol_factory, *found[0][4][:2], ssl=tls, server_hostname=name)

    def send_file(
        self,
        transport: asyncio.Transport,
        file: File,
        position: int,
        size: int,
        on_writable: Callable[[], object],
    ) -> "int | FullSocket":
        socket = transport.get_extra_info("socket")
        if (
            socket is not None
            and transport.get_write_buffer_size() == 0
            and transport.get_extra_info("sslcontext") is None
            and not transport.is_closing()
        ):
            try:
                sent = os.sendfile(socket.fileno(), file.fileno(), position, min(size, _SENDFILE_MAX_BYTES))
            except BlockingIOError:
                return FullSocket(socket.fileno(), on_writable)
            except OSError:  # No descriptor, or broken: writing the bytes works or reports it.
                sent = 0
            if sent:
                return sent
        return send_through_memory(transport, file, position, size)

    def hung_up(self, transports: Sequence[asyncio.Transport]) -> list[bool]:
        descriptors = [transport.get_extra_info("socket").fileno() for transport in transports]
        poll = select.poll()
        for descriptor in descriptors:
            if descriptor >= 0:
                poll.register(descriptor, _HANG_UP)
        found = {descriptor for descriptor, _events in poll.poll(0)}
        return [descriptor < 0 or descriptor in found for descriptor in descriptors]


class FullSocket:
    """A wait for a socket that can take more.

    The transport watches its socket for reading alone, and nobody else may watch the same descriptor: so another one
    of the same socket is watched, and closed with the wait. The socket is not closed while there is one.
    """

    def __init__(self, descriptor: int, on_writable: Callable[[], object]) -> None:
        self._loop = asyncio.get_running_loop()
        self._descriptor = os.dup(descriptor)
        self._on_writable = on_writable
        self._loop.add_writer(self._descriptor, self._writable)

    def cancel(self) -> None:
        """Wait no more; no matter if the wait is over."""
        if self._descriptor >= 0:
            self._loop.remove_writer(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def _writable(self) -> None:
        self.cancel()
        self._on_writable()


def send_through_memory(transport: asyncio.Transport, file: File, position: int, size: int) -> int:
    """Read a piece of the file and write it to the transport."""
    data = file.read_at(position, min(size, FILE_CHUNK_BYTES))
    if not data:
        raise EOFError(f"{file.path} ends at {file.size()}: {size} bytes from {position} cannot be sent")
    transport.write(data)
    return len(data)

"""The network interface of `net/`: asyncio transports and protocols, from the system or in memory.

Role.   The only access to the network. `RealNetwork` uses the running loop (asyncio's or uvloop); the same interface in
        memory is `memory_network.MemoryNetwork`.
Flow.   `net.listener` listens, `net.connection` connects; both get plain asyncio transports.
Rules.  * `send_file` sends bytes of a file behind earlier writes. It returns the number of bytes taken, and never
          waits. The caller continues when the transport has drained, or on the callback if the socket was full.
        * The kernel sends from the page cache if transport, file and socket allow it; otherwise bytes are copied, at
          most `FILE_CHUNK_BYTES` at a time. For a full socket the caller waits, because copying costs twice as much as
          sending by the kernel.
"""

import asyncio
import contextlib
import os
import select
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

from semel.runtime.files import File

FILE_CHUNK_BYTES: Final = 256 * 1024
_SENDFILE_MAX_BYTES: Final = 8 * 1024 * 1024  # So that one client does not hold up the loop.

_HANG_UP: Final = getattr(select, "POLLRDHUP", 0)  # Linux; elsewhere only a broken connection is noticed.

P = TypeVar("P", bound=asyncio.BaseProtocol)


class Server(Protocol):
    """A listening address."""

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Its hosts and ports; for port 0 the assigned one."""

    def close(self) -> None:
        """Stop accepting. Open connections stay open."""


class Listening(NamedTuple):
    """The options of a listening socket; its connections inherit them. A simulated network passes over them."""

    backlog: int = 128
    send_buffer_bytes: int | None = None
    """A given buffer size is fixed; without one the system tunes it."""
    receive_buffer_bytes: int | None = None


AS_USUAL: Final = Listening()


class Network(Protocol):
    """The network of one host."""

    async def listen(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        options: Listening = AS_USUAL,
    ) -> Server:
        """Accept connections, each with a new protocol. Port 0 means any free port."""

    def own_address(self) -> str:
        """The address by which other hosts probably reach this one."""

    async def connect(
        self, protocol_factory: Callable[[], P], host: str, port: int, *, tls: ssl.SSLContext | None = None
    ) -> tuple[asyncio.Transport, P]:
        """Open a connection, with TLS if a context is given; raises `OSError` without an answer."""

    def send_file(
        self,
        transport: asyncio.Transport,
        file: File,
        position: int,
        size: int,
        on_writable: Callable[[], object],
    ) -> "int | FullSocket":
        """Send up to `size` bytes of a file from `position`; returns the number of bytes taken, at least one.

        For a full socket none are taken, and `on_writable` is called once when it has room.
        """

    def hung_up(self, transports: Sequence[asyncio.Transport]) -> list[bool]:
        """For each connection, whether the peer has closed or half-closed it, even without a reader."""


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
        options: Listening = AS_USUAL,
    ) -> RealServer:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            protocol_factory, host or None, port, backlog=options.backlog, start_serving=False
        )
        sizes = (
            (socket.SO_SNDBUF, options.send_buffer_bytes),
            (socket.SO_RCVBUF, options.receive_buffer_bytes),
        )
        for listening in server.sockets:
            # A copy of the descriptor: the sockets that loops expose do not allow setting options.
            with socket.socket(fileno=os.dup(listening.fileno())) as copy:
                for option, size in sizes:
                    if size is not None:
                        copy.setsockopt(socket.SOL_SOCKET, option, size)  # Connections inherit it.
        await server.start_serving()
        return RealServer(server)

    def own_address(self) -> str:
        for family, elsewhere in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
            with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as asking:
                asking.connect((elsewhere, 9))  # No packet is sent: the system only selects the route.
                return str(asking.getsockname()[0])
        return "127.0.0.1"

    async def connect(
        self, protocol_factory: Callable[[], P], host: str, port: int, *, tls: ssl.SSLContext | None = None
    ) -> tuple[asyncio.Transport, P]:
        loop = asyncio.get_running_loop()
        try:
            return await loop.create_connection(protocol_factory, host, port, ssl=tls)
        except RuntimeError:  # The interpreter is ending and provides no thread for a name lookup.
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
            except OSError:  # No descriptor, or a broken one: writing the bytes works or raises.
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
    """A wait until a full socket has room.

    The transport watches its descriptor for reading only, and a loop allows one watcher per descriptor. So the wait
    watches a duplicate descriptor, and closes it at its end; the socket stays open until then.
    """

    def __init__(self, descriptor: int, on_writable: Callable[[], object]) -> None:
        self._loop = asyncio.get_running_loop()
        self._descriptor = os.dup(descriptor)
        self._on_writable = on_writable
        self._loop.add_writer(self._descriptor, self._writable)

    def cancel(self) -> None:
        """Cancel the wait, if it is not over."""
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

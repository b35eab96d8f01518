"""GET /metrics: the broker's counters over HTTP, for Prometheus.

Role.   `MetricsListener` opens a port on the runtime's network and answers scrapers; nobody else.
Flow.   `app` starts it where it was asked for and closes it with the broker; the text comes from `metrics_page`.
Rules.  * One request per connection, which is then closed. Only GET /metrics is answered with the page.
        * Bounds: `CONNECTIONS_MAX` scrapers, `HEAD_BYTES_MAX` of a request, `LIFE_SECONDS` for a connection, one page at a time.
        * Whatever a scraper does, and whatever goes wrong with a page, the broker goes on: an error is logged and answered with 500.
        * There is no login: listen where only those who may look can connect.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, cast

from semel.broker.metrics_text import CONTENT_TYPE
from semel.errors import ConfigError
from semel.runtime.bundle import Runtime
from semel.runtime.network import Server

CONNECTIONS_MAX: Final = 16
HEAD_BYTES_MAX: Final = 8192
LIFE_SECONDS: Final = 30.0
PATH: Final = "/metrics"
_PORT_MAX: Final = 65535
_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
}
_log: Final = logging.getLogger(__name__)


def address_of(text: str) -> tuple[str, int]:
    """Host and port of HOST:PORT; raises `ConfigError` if it is none. IPv6 hosts stand in brackets."""
    host, colon, port = text.rpartition(":")
    if (
        not colon
        or not port.isdecimal()
        or int(port) > _PORT_MAX
        or (":" in host and not (host.startswith("[") and host.endswith("]")))
    ):
        raise ConfigError(
            f"metrics={text}: expected HOST:PORT with a port from 0 (any that is free) to {_PORT_MAX}, as 127.0.0.1:9404"
        )
    return host.strip("[]"), int(port)


class MetricsListener:
    """A port for scrapers."""

    def __init__(self, runtime: Runtime, page: Callable[[], Awaitable[bytes]]) -> None:
        self.runtime = runtime
        self._page = page
        self._writing = asyncio.Lock()
        self._scrapers: dict[int, _Scraper] = {}
        self._server: Server | None = None

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; the address, with the port that was chosen if 0 was asked for."""
        try:
            self._server = await self.runtime.network.listen(lambda: _Scraper(self), host, port)
        except OSError as error:
            reason = error.strerror or str(error)
            raise ConfigError(
                f"cannot serve metrics on {host}:{port}: {reason}; choose another address (port 0 picks a free one)"
            ) from error
        return self._server.addresses[0]

    def close(self) -> None:
        """Answer nobody any more."""
        if self._server is not None:
            self._server.close()
        for scraper in list(self._scrapers.values()):
            scraper.abort()

    # From connections.

    def opened(self, scraper: "_Scraper") -> bool:
        """Whether there is room for one more."""
        if len(self._scrapers) >= CONNECTIONS_MAX:
            _log.warning("turning a scraper away: %d are being answered", len(self._scrapers))
            return False
        self._scrapers[id(scraper)] = scraper
        return True

    def closed(self, scraper: "_Scraper") -> None:
        self._scrapers.pop(id(scraper), None)

    async def answer(self, request_line: str) -> bytes:
        """The whole answer to a request."""
        method, _, rest = request_line.partition(" ")
        target, _, protocol = rest.partition(" ")
        if not protocol.startswith("HTTP/1."):
            return _answer(400, b"this is no HTTP request\n")
        if target.partition("?")[0] != PATH:
            return _answer(404, f"metrics are at {PATH}\n".encode())
        if method != "GET":
            return _answer(405, b"only GET is answered\n", "Allow: GET\r\n")
        try:
            async with self._writing:
                return _answer(200, await self._page())
        except Exception:  # The broker must not suffer from who looks at it.
            _log.exception("the metrics could not be written")
            return _answer(500, b"the metrics could not be written: see the broker's log\n")


def _answer(status: int, body: bytes, more: str = "") -> bytes:
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {CONTENT_TYPE}\r\n"
        f"Content-Length: {len(body)}\r\n{more}Connection: close\r\n\r\n"
    )
    return head.encode() + body


class _Scraper(asyncio.Protocol):
    """One connection: a request, its answer, the end."""

    def __init__(self, listener: MetricsListener) -> None:
        self._listener = listener
        self._head = bytearray()
        self._is_asked = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if not self._listener.opened(self):
            self._is_asked = True
            self._transport.abort()
            return
        self._timer = self._listener.runtime.tasks.call_later(LIFE_SECONDS, self.abort)

    def data_received(self, data: bytes) -> None:
        if self._is_asked:
            return  # One request is answered; a body, or more of them, is not looked at.
        self._head += data[: HEAD_BYTES_MAX + 1]
        if b"\r\n\r\n" in self._head or b"\n\n" in self._head:
            self._is_asked = True
            line = bytes(self._head).splitlines()[0].decode("latin-1")
            self._head.clear()
            self._listener.runtime.tasks.spawn(self._send(line), name="scrape")
        elif len(self._head) > HEAD_BYTES_MAX:
            self._is_asked = True
            self._finish(_answer(431, b"the request's head is too long\n"))

    async def _send(self, line: str) -> None:
        self._finish(await self._listener.answer(line))

    def _finish(self, answer: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(answer)
            self._transport.close()

    def eof_received(self) -> bool:
        return self._is_asked  # Who has asked and closed its half still gets its answer.

    def abort(self) -> None:
        self._transport.abort()

    def connection_lost(self, _error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._listener.closed(self)

"""GET /metrics, /health and /ready: the broker's counters over HTTP for Prometheus, and its state for supervisors.

Role.   `MetricsListener` opens a port on the runtime's network and answers scrapers and probes; nobody else.
Flow.   `app` starts it where it was asked for, before any log is recovered, and closes it last. The text comes from `metrics.page`
        once clients are served, the state from `metrics.readiness`.
Rules.  * One request per connection, which is then closed. Only GET /metrics is answered with the page; HEAD gets the head of it.
        * A probe is answered at once, in the turn of the loop in which it has come: it waits for no page.
        * Bounds: `CONNECTIONS_MAX` connections, `HEAD_BYTES_MAX` and `HEAD_SECONDS` for a request, `LIFE_SECONDS` for a connection,
          one page at a time. Scrapers that wait together share a page.
        * A connection that has not asked must not starve a scraper: where there is no room, it is closed for the newcomer. The
          client address with the most connections gives way first, and there the connection that is oldest. Next in turn is
          an answer that its scraper does not read. A scraper that waits for its page keeps its place.
        * No scraper and no error of a page stops the broker: the error is logged and answered with 500.
        * There is no login: listen where only those who may look can connect.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from enum import IntEnum
from typing import Final, TypeAlias, cast

from semel.broker.metrics.text import CONTENT_TYPE
from semel.errors import ConfigError
from semel.runtime.bundle import Runtime
from semel.runtime.network import Server
from semel.runtime.repeats import Repeats

CONNECTIONS_MAX: Final = 64
HEAD_BYTES_MAX: Final = 8192
HEAD_SECONDS: Final = 10.0
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
    503: "Service Unavailable",
}
_METHODS: Final = ("GET", "HEAD")
_JSON: Final = "application/json"
Probe: TypeAlias = Callable[[], tuple[int, bytes]]
"""Gives a status of HTTP, and JSON."""
_NO_PROBES: Final[Mapping[str, Probe]] = {}
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
    """A port for scrapers and probes."""

    def __init__(
        self,
        runtime: Runtime,
        page: Callable[[], Awaitable[bytes]] | None,
        probes: Mapping[str, Probe] = _NO_PROBES,
    ) -> None:
        """`probes` are answered by their paths."""
        self.runtime = runtime
        self.page = page
        """None while the broker does not serve: then there is nothing to count."""
        self._probes = probes
        self._writing = asyncio.Lock()
        self._next_page: asyncio.Task[bytes] | None = None
        """The page of all who wait while another one is written."""
        self._scrapers: dict[int, _Scraper] = {}
        """By age: the oldest comes first."""
        self._crowd = _Crowd()
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
        """Whether there is room for one more, or another connection made room."""
        if len(self._scrapers) >= CONNECTIONS_MAX:
            crowding = self._crowding()
            self._crowd.noticed(self.runtime.clock.monotonic(), scraper if crowding is None else crowding)
            if crowding is None:
                return False
            self.closed(crowding)  # At once: the next newcomer must not choose it again.
            crowding.abort()
        self._scrapers[id(scraper)] = scraper
        return True

    def _crowding(self) -> "_Scraper | None":
        """The connection that gives way to a newcomer; None if every scraper waits for its page."""
        of_host = Counter(one.host for one in self._scrapers.values())
        idle = [one for one in self._scrapers.values() if one.stage is not _Stage.WAITING]
        return min(idle, key=lambda one: (one.stage, -of_host[one.host]), default=None)

    def closed(self, scraper: "_Scraper") -> None:
        self._scrapers.pop(id(scraper), None)

    def answer(self, request_line: str) -> bytes | Awaitable[bytes]:
        """The whole answer to a request; that with the page must be waited for."""
        method, _, rest = request_line.partition(" ")
        target, _, protocol = rest.partition(" ")
        if not protocol.startswith("HTTP/1."):
            return _answer(400, b"this is no HTTP request\n")
        path = target.partition("?")[0]
        probe = self._probes.get(path)
        if probe is None and path != PATH:
            return _answer(404, f"here are {', '.join([PATH, *self._probes])}\n".encode())
        if method not in _METHODS:
            return _answer(405, b"only GET and HEAD are answered\n", "Allow: GET, HEAD\r\n")
        is_head = method == "HEAD"
        if probe is None:
            return self._page_answer(self.page, is_head=is_head)
        status, body = probe()
        return _answer(status, body, content_type=_JSON, is_head=is_head)

    async def _page_answer(self, page: Callable[[], Awaitable[bytes]] | None, *, is_head: bool) -> bytes:
        if page is None:
            return _answer(503, b"the broker does not serve now: /ready says why\n", is_head=is_head)
        try:
            return _answer(200, await self._shared_page(page), is_head=is_head)
        except Exception:  # The broker must not suffer from who looks at it.
            _log.exception("the metrics could not be written")
            return _answer(500, b"the metrics could not be written: see the broker's log\n", is_head=is_head)

    async def _shared_page(self, page: Callable[[], Awaitable[bytes]]) -> bytes:
        """A page that is begun after this call; all who wait for it get the same."""
        if self._next_page is None:
            self._next_page = self.runtime.tasks.spawn(
                self._written(page), name="metrics page", on_failure=_told_to_scrapers
            )
        return await asyncio.shield(self._next_page)

    async def _written(self, page: Callable[[], Awaitable[bytes]]) -> bytes:
        async with self._writing:
            self._next_page = None  # A scraper that asks from here on gets a newer one.
            return await page()


def _told_to_scrapers(_name: str, _error: BaseException) -> None:
    """Each scraper that waits for the page logs the error and answers it."""


def _answer(
    status: int, body: bytes, more: str = "", *, content_type: str = CONTENT_TYPE, is_head: bool = False
) -> bytes:
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\n{more}Connection: close\r\n\r\n"
    )
    return head.encode() + (b"" if is_head else body)


class _Stage(IntEnum):
    """Where a connection is, in the order in which connections give way to newcomers."""

    IDLE = 0
    """It has not asked, or only by half."""
    ANSWERED = 1
    """Its answer is written and not read yet."""
    WAITING = 2
    """It has asked and waits for its answer."""


class _Crowd:
    """Says that connections are closed for want of room: at once, then once in a while, with their count."""

    def __init__(self) -> None:
        self._repeats = Repeats()

    def noticed(self, now: float, closed: "_Scraper") -> None:
        count = self._repeats.due(now)
        if not count:
            return
        _log.warning(
            "%d connections to the metrics are open: closed %d of them since the last such line, last one of %s (%s)",
            CONNECTIONS_MAX,
            count,
            closed.host,
            closed.stage.name.lower(),
        )


class _Scraper(asyncio.Protocol):
    """One connection: a request, its answer, the end."""

    def __init__(self, listener: MetricsListener) -> None:
        self._listener = listener
        self._head = bytearray()
        self._timer: asyncio.TimerHandle | None = None
        self.stage = _Stage.IDLE
        self.host = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        peer = self._transport.get_extra_info("peername")
        self.host = str(peer[0]) if peer else ""  # Of a client that is gone already there is none.
        if not self._listener.opened(self):
            self.abort()
            return
        self._timer = self._listener.runtime.tasks.call_later(HEAD_SECONDS, self.abort)

    def data_received(self, data: bytes) -> None:
        if self.stage is not _Stage.IDLE:
            return  # One request is answered; a body, or more of them, is not looked at.
        self._head += data[: HEAD_BYTES_MAX + 1]
        if b"\r\n\r\n" in self._head or b"\n\n" in self._head:
            self._asked()
            line = bytes(self._head).splitlines()[0].decode("latin-1")
            self._head.clear()
            answer = self._listener.answer(line)
            if isinstance(answer, bytes):
                self._finish(answer)
            else:
                self._listener.runtime.tasks.spawn(self._send(answer), name="scrape")
        elif len(self._head) > HEAD_BYTES_MAX:
            self._asked()
            self._finish(_answer(431, b"the request's head is too long\n"))

    def _asked(self) -> None:
        self.stage = _Stage.WAITING
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._listener.runtime.tasks.call_later(LIFE_SECONDS, self.abort)

    async def _send(self, answer: Awaitable[bytes]) -> None:
        self._finish(await answer)

    def _finish(self, answer: bytes) -> None:
        self.stage = _Stage.ANSWERED
        if not self._transport.is_closing():
            self._transport.write(answer)
            self._transport.close()

    def eof_received(self) -> bool:
        return self.stage is not _Stage.IDLE  # A scraper that has closed its half still gets its answer.

    def abort(self) -> None:
        self._transport.abort()

    def connection_lost(self, _error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._listener.closed(self)

"""A session of ZooKeeper, over one connection after the other.

Role.   ZooKeeper's bytes at the client's end: connect or go on, ask, be told of watches. `client` decides when and where to
        connect; actors of a simulation decide it themselves.
Rules.  * An answer that does not come raises `DisconnectedError`: whether a write was carried out is unknown then.
        * A refusal raises `ZooKeeperError` with ZooKeeper's code; a session that is over raises `SessionOverError`, and the next
          `connect` begins a new one.
        * A ping goes every third of the timeout. A server that is silent for two thirds is given up.
        * Watches go with the connection: their owner sets them again. `on_answer` is told an answer before any later event.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from semel.cluster.zookeeper.frames import ANSWER_MAX_BYTES, FRAME_MAX_BYTES, FrameProtocol
from semel.core.zookeeper.wire.frames import (
    connect_request_frame,
    read_answer,
    read_connect_response,
    read_event,
    read_reply_header,
    request_frame,
)
from semel.core.zookeeper.wire.jute import MalformedError
from semel.core.zookeeper.wire.messages import (
    AUTH_XID,
    EVENT_XID,
    PASSWORD_BYTES,
    PING_XID,
    SET_WATCHES_XID,
    Answer,
    Auth,
    ConnectRequest,
    ConnectResponse,
    Done,
    Ping,
    Request,
    SetWatches,
    WatchEvent,
)
from semel.core.zookeeper.words import ZooKeeperCode
from semel.errors import DisconnectedError, SemelError
from semel.runtime.bundle import Runtime

_ANSWERS_PENDING_MAX: Final = 1000


class ZooKeeperError(SemelError):
    """ZooKeeper refused."""

    def __init__(self, reason: ZooKeeperCode, request: Request) -> None:
        super().__init__(f"{reason.name}: {request}")
        self.reason = reason
        self.request = request


class RequestTooLargeError(SemelError):
    """A request that a server would answer by closing the connection."""


class SessionOverError(SemelError):
    """The session has expired, or was closed."""


@dataclass(slots=True)
class Session:
    """One client's session and its present connection."""

    runtime: Runtime
    address: tuple[str, int]
    timeout_ms: int
    on_event: Callable[[WatchEvent], None] = lambda _event: None
    on_answer: Callable[[Request, ZooKeeperCode], None] = lambda _request, _code: None
    on_lost: Callable[[], None] = lambda: None
    """Told that the connection has ended, whoever ended it."""
    connect_ms: int = 0
    """For how long a server may take to greet; 0: for as long as the session would live."""
    session_id: int = 0
    password: bytes = bytes(PASSWORD_BYTES)
    last_zxid: int = 0
    granted_ms: int = 0
    _transport: asyncio.Transport | None = None
    _greeting: asyncio.Future[bytes] | None = None
    _waiting: dict[int, tuple[Request, asyncio.Future[Answer]]] = field(default_factory=dict)
    _xid: int = 0
    _pinging: asyncio.Task[None] | None = None
    _connections: int = 0
    _heard_at: float = 0.0
    _is_reached: bool = False
    """Whether anybody listened at the address."""

    @property
    def is_connected(self) -> bool:
        return self._transport is not None and self._greeting is None

    async def connect(self) -> None:
        """Open a connection; the session begins or goes on. Raises `DisconnectedError`, `SessionOverError`."""
        self.disconnect()
        self._is_reached = False
        try:
            async with asyncio.timeout(self._greeting_ms / 1000):
                response = await self._shake_hands()
        except (OSError, TimeoutError, MalformedError) as error:
            self.disconnect()
            raise DisconnectedError(self._trouble(error)) from error
        if response.is_expired:
            self.disconnect()
            self.session_id, self.password, self.last_zxid = 0, bytes(PASSWORD_BYTES), 0
            raise SessionOverError("the session is over")
        self.session_id, self.password = response.session_id, response.password or b""
        self.granted_ms = response.timeout_ms
        self._heard_at = self.runtime.clock.monotonic()
        self._pinging = asyncio.get_running_loop().create_task(self._ping(), name="zookeeper pings")

    async def ask(self, request: Request) -> Answer:
        """The answer; raises `ZooKeeperError`, `DisconnectedError`."""
        if self._transport is None or self._greeting is not None:
            raise DisconnectedError("not connected")
        if len(self._waiting) >= _ANSWERS_PENDING_MAX:
            raise DisconnectedError(f"{_ANSWERS_PENDING_MAX} requests wait for their answers")
        match request:
            case Auth():
                xid = AUTH_XID
            case SetWatches():
                xid = SET_WATCHES_XID
            case _:
                self._xid += 1
                xid = self._xid
        frame = request_frame(xid, request)
        if len(frame) > FRAME_MAX_BYTES:
            raise RequestTooLargeError(
                f"{len(frame)} bytes for {getattr(request, 'path', type(request).__name__)}: ZooKeeper takes "
                f"{FRAME_MAX_BYTES} (its jute.maxbuffer)"
            )
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[xid] = request, future
        self._transport.write(frame)
        return await future

    def disconnect(self) -> None:
        """Close the connection; the session lives on until it times out."""
        pinging, self._pinging = self._pinging, None
        if pinging is not None and pinging is not asyncio.current_task():
            pinging.cancel()
        self._connections += 1
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
            self.on_lost()
        greeting, self._greeting = self._greeting, None
        if greeting is not None and not greeting.done():
            greeting.set_exception(ConnectionResetError("the connection broke before the greeting"))
            greeting.exception()
        waiting, self._waiting = self._waiting, {}
        for _request, future in waiting.values():
            if not future.done():
                future.set_exception(DisconnectedError("the connection broke before the answer"))
                future.exception()  # Its owner may be gone.

    async def _shake_hands(self) -> ConnectResponse:
        number = self._connections
        greeting = self._greeting = asyncio.get_running_loop().create_future()

        def lost() -> None:
            if number == self._connections:
                self.disconnect()

        transport, _protocol = await self.runtime.network.connect(
            lambda: FrameProtocol(self._take, lost, frame_max_bytes=ANSWER_MAX_BYTES), *self.address
        )
        if number != self._connections:  # Lost already.
            transport.abort()
            raise ConnectionResetError("the connection broke before the greeting")
        self._is_reached = True
        self._transport = transport
        asked = ConnectRequest(0, self.last_zxid, self.timeout_ms, self.session_id, self.password)
        transport.write(connect_request_frame(asked))
        response = read_connect_response(await greeting)
        self._greeting = None
        return response

    @property
    def _greeting_ms(self) -> int:
        return self.connect_ms or self.timeout_ms

    def _trouble(self, error: Exception) -> str:
        host, port = self.address
        if not self._is_reached:
            why = (
                f"no answer within {self._greeting_ms} ms" if isinstance(error, TimeoutError) else str(error)
            )
            return f"{host}:{port} cannot be reached ({why})"
        did = {
            TimeoutError: f"was silent for {self._greeting_ms} ms",
            MalformedError: "spoke another protocol",
        }.get(type(error), "closed the connection")
        return (
            f"{host}:{port} took the connection and {did} where ZooKeeper greets: another server may listen at that port, or "
            "ZooKeeper's ensemble has no quorum yet"
        )

    def _take(self, payload: bytes) -> None:
        self._heard_at = self.runtime.clock.monotonic()
        if self._greeting is not None and not self._greeting.done():
            self._greeting.set_result(payload)
            return
        header, rest = read_reply_header(payload)
        if header.zxid > 0:
            self.last_zxid = header.zxid
        if header.xid == EVENT_XID:
            self.on_event(read_event(rest))
            return
        if header.xid == PING_XID or header.xid not in self._waiting:
            return
        request, future = self._waiting.pop(header.xid)
        self.on_answer(request, header.code)
        if future.done():
            return
        if header.code is ZooKeeperCode.OK:
            future.set_result(Done() if header.xid == AUTH_XID else read_answer(request, rest))
        else:
            future.set_exception(ZooKeeperError(header.code, request))

    async def _ping(self) -> None:
        third = self.granted_ms / 3000
        while self._transport is not None:
            await asyncio.sleep(third)
            if self.runtime.clock.monotonic() - self._heard_at > 2 * third:
                self.disconnect()
            elif self._transport is not None:
                self._transport.write(request_frame(PING_XID, Ping()))

"""The client's end of one connection: requests out, replies matched to them in order.

Role.   `Connection` sends requests of `core.wire` and returns their decoded responses. Brokers use it towards each
        other, clients towards brokers.
Flow.   `connect` opens it; `send` writes a request and waits for its answer; any number of tasks may send at a time.
Rules.  * A broker answers in order. An answer that carries another correlation id than the oldest request is proof
          that the two sides have lost each other: the connection is closed.
        * An answer that does not come in time closes the connection, because what follows would be stuck behind it.
          Whether the request was carried out is unknown then, as after every loss.
        * At most `in_flight_max` requests wait for an answer; more wait for their turn, first come, first served.
        * While the broker does not read, nothing more is written.
"""

import asyncio
import ssl
from collections import deque
from typing import TypeVar, cast

from semel.core.wire import registry
from semel.core.wire.framing import (
    SOCKET_REQUEST_MAX_BYTES,
    FrameReader,
    RequestHeader,
    read_response_header,
    request_frame,
    request_frame_parts,
)
from semel.core.wire.message import Request, Response
from semel.errors import DisconnectedError, HandshakeError, RequestTimedOutError, WireError
from semel.runtime.bundle import Runtime

R = TypeVar("R", bound=Response)

_CORRELATION_ID_MAX = 2**31 - 1


class _Pending:
    """A request that waits for its answer."""

    __slots__ = ("answer", "correlation_id", "name")

    def __init__(self, name: str, correlation_id: int, answer: asyncio.Future[bytearray]) -> None:
        self.name = name
        self.correlation_id = correlation_id
        self.answer = answer


class Connection(asyncio.BufferedProtocol):
    """A connection to one broker. Made by `connect`."""

    def __init__(
        self, broker: str, *, client_id: str | None, response_max_bytes: int, in_flight_max: int
    ) -> None:
        self._broker = broker
        self._client_id = client_id
        self._reader = FrameReader(response_max_bytes, peer=broker)
        self._pending: deque[_Pending] = deque()
        self._places = asyncio.Semaphore(in_flight_max)
        self._writable = asyncio.Event()
        self._writable.set()
        self._ended = asyncio.Event()
        self._next_correlation_id = 0
        self._failure: DisconnectedError | WireError | None = None

    # For the owner.

    async def send(self, request: Request[R], version: int, *, timeout_ms: int) -> R:
        """The broker's answer to `request`. Raises `DisconnectedError` or `RequestTimedOutError`."""
        api = registry.api(request.schema.api_key)
        frame = await self._exchange(api.name, request, version, timeout_ms)
        _, position = read_response_header(frame, api.response_header(version))
        response: R = api.response.decode(frame, version, position)  # type: ignore[assignment]  # the registry pairs them
        return response

    async def send_unanswered(self, request: Request[R], version: int) -> None:
        """Send a request that the broker will not answer (acks=0)."""
        await self._until_writable(registry.api(request.schema.api_key).name)
        self._write(request, version)

    def close(self) -> None:
        """End the connection. Requests without an answer raise `DisconnectedError`."""
        self._fail(DisconnectedError(f"the connection to {self._broker} was closed by this side"))

    async def finish(self) -> None:
        """End the connection once everything written has left: for requests nobody answers."""
        if self._failure is None:
            self._transport.close()
            await self._ended.wait()

    async def until_closed(self) -> None:
        """Return once the connection has ended."""
        await self._ended.wait()

    @property
    def is_open(self) -> bool:
        return self._failure is None

    @property
    def in_flight(self) -> int:
        """How many requests wait for an answer."""
        return len(self._pending)

    # Requests.

    async def _exchange(self, name: str, request: Request[R], version: int, timeout_ms: int) -> bytearray:
        is_sent = False
        try:
            async with asyncio.timeout(timeout_ms / 1000), self._places:
                await self._until_writable(name)
                correlation_id = self._write(request, version)
                is_sent = True
                answer: asyncio.Future[bytearray] = asyncio.get_running_loop().create_future()
                self._pending.append(_Pending(name, correlation_id, answer))
                return await answer
        except TimeoutError:
            what = "no answer" if is_sent else "not even sent, the broker takes no more,"
            timed_out = RequestTimedOutError(f"{name} to {self._broker}: {what} within {timeout_ms} ms")
            if is_sent:
                self._fail(timed_out)
            raise timed_out from None

    def _write(self, request: Request[R], version: int) -> int:
        correlation_id = self._next_correlation_id
        header = RequestHeader(request.schema.api_key, version, correlation_id, self._client_id)
        if request.schema.api_key == registry.ApiKey.PRODUCE:
            self._transport.writelines(request_frame_parts(header, request))  # Records are not copied.
        else:
            self._transport.write(request_frame(header, request))
        self._next_correlation_id = 0 if correlation_id == _CORRELATION_ID_MAX else correlation_id + 1
        return correlation_id

    async def _until_writable(self, name: str) -> None:
        while self._failure is None and not self._writable.is_set():
            await self._writable.wait()
        if self._failure is not None:
            raise DisconnectedError(f"{name} was not sent: {self._failure}")

    # From the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(
            "asyncio.Transport", transport
        )  # uvloop's are no subclasses of it, only equals.

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        if self._failure is not None:
            return
        try:
            for frame in self._reader.buffer_updated(nbytes):
                self._match(frame)
        except WireError as error:
            self._fail(error)

    def _match(self, frame: bytearray) -> None:
        correlation_id, _ = read_response_header(
            frame, registry.RESPONSE_HEADER
        )  # Every header begins with the id.
        if not self._pending:
            raise WireError(
                f"{self._broker} sent an answer with correlation id {correlation_id} that nobody waits for"
            )
        oldest = self._pending[0]
        if correlation_id != oldest.correlation_id:
            raise WireError(
                f"{self._broker} answered correlation id {correlation_id}; the oldest request, {oldest.name}, "
                f"has {oldest.correlation_id}"
            )
        self._pending.popleft()
        if not oldest.answer.done():  # The caller may have been cancelled.
            oldest.answer.set_result(frame)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def eof_received(self) -> bool:
        self._fail(DisconnectedError(f"{self._broker} closed the connection"))
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        lost = DisconnectedError(f"the connection to {self._broker} was lost: {exc or 'closed'}")
        lost.__cause__ = exc
        self._fail(lost)
        self._ended.set()

    def _fail(self, error: DisconnectedError | WireError) -> None:
        """End the connection; the first reason is the one everybody hears."""
        if self._failure is not None:
            return
        self._failure = error
        self._writable.set()
        pending, self._pending = self._pending, deque()
        for request in pending:
            if not request.answer.done():
                unanswered = DisconnectedError(f"{request.name} has no answer: {error}")
                unanswered.__cause__ = error.__cause__
                request.answer.set_exception(unanswered)
        self._transport.abort()


async def connect(
    runtime: Runtime,
    host: str,
    port: int,
    *,
    client_id: str | None = None,
    response_max_bytes: int = SOCKET_REQUEST_MAX_BYTES,
    in_flight_max: int = 5,
    timeout_ms: int = 30_000,
    tls: ssl.SSLContext | None = None,
) -> Connection:
    """Open a connection to a broker. Raises `DisconnectedError` if nobody answers in time, `HandshakeError` if TLS fails."""
    broker = f"{host}:{port}"

    def made() -> Connection:
        return Connection(
            broker, client_id=client_id, response_max_bytes=response_max_bytes, in_flight_max=in_flight_max
        )

    try:
        async with asyncio.timeout(timeout_ms / 1000):
            _, connection = await runtime.network.connect(made, host, port, tls=tls)
    except ssl.SSLError as error:
        reason = getattr(error, "verify_message", None) or error.reason or error
        raise HandshakeError(f"{broker}: no TLS: {reason}") from error
    except TimeoutError:
        raise RequestTimedOutError(f"{broker}: no connection within {timeout_ms} ms") from None
    except OSError as error:
        ended = "it ended the handshake, is this a listener with TLS?"
        raise DisconnectedError(
            f"{broker}: no connection: {error if str(error) or tls is None else ended}"
        ) from error
    return connection

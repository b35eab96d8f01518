"""A lossy link in front of a broker: it knows Kafka's frames, so a test can say which answer is lost.

Role.   `FaultProxy` listens on a port of its own and passes frames on. What becomes of each exchange is a `Fate`, given
        by `harm` (the next requests of one API) or by a plan: `at` (these exchanges of one API) or `at_random` (a seed,
        weights, a bound on the number of faults). The pytest plugin's `semel_chaos` is one.
Flow.   Runs in its own thread. Answers that name the broker (Metadata, DescribeCluster, FindCoordinator) are changed to
        name the proxy, so that every connection of a client comes through here.
Rules.  * Exchanges are recorded in the order they came, with small frames whole.
        * Bounded: faults, connections, recorded exchanges, delays; a copy that arrives late is awaited before `close`.
"""

import asyncio
import contextlib
import random
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from struct import Struct
from typing import Any, Final, Self, TypeVar

from semel.core.wire import framing
from semel.core.wire.message import Request, Response
from semel.core.wire.messages.produce import ProduceRequest, ProduceResponse
from semel.core.wire.registry import ApiKey, api
from semel.errors import ErrorCode, SemelError
from semel.types import UNKNOWN_OFFSET

E = TypeVar("E", bound=Enum)

_LENGTH: Final = Struct(">i")
_CONNECTIONS_MAX: Final = 20_000
_EXCHANGES_MAX: Final = 200_000
_KEPT_BYTES_MAX: Final = 16 << 10
_FRAME_MAX_BYTES: Final = 64 << 20
_STOP_SECONDS: Final = 20
_NAMES_BROKERS: Final = frozenset({ApiKey.METADATA, ApiKey.DESCRIBE_CLUSTER, ApiKey.FIND_COORDINATOR})


class Fate(Enum):
    """What becomes of a request and its answer."""

    PASS = auto()
    CUT_BEFORE = auto()
    """The connection breaks before the broker sees the request."""
    CUT_AFTER = auto()
    """The broker has handled it; its answer is lost with the connection."""
    SILENCE = auto()
    """The broker has handled it; nothing comes back on this connection any more, which stays open."""
    DELAY = auto()
    """The answer, and those behind it, are late."""
    REPEAT = auto()
    """A copy arrives first, over another connection: a retry that overtakes."""
    LATE_COPY = auto()
    """As CUT_AFTER, and a copy arrives over another connection when the client is further on."""
    FAIL_AFTER = auto()
    """The broker has handled it; the answer to this Produce says NOT_ENOUGH_REPLICAS_AFTER_APPEND."""
    CORRUPT = auto()
    """A bit of the first batch of this Produce flips on the way, so that the broker refuses it; the answer is late."""


@dataclass(slots=True)
class Exchange:
    """One request that came through, and its answer."""

    connection: int
    key: ApiKey
    version: int
    correlation_id: int
    fate: Fate
    delay_seconds: float
    frame: bytes = b""
    """The request, unless it is large."""
    answer: bytes | None = None
    """The answer the broker gave, unless it is large."""

    def request(self) -> Request[Response]:
        _header, position = framing.read_request_header(self.frame)
        return api(self.key).request.decode(self.frame, self.version, position)

    def response(self) -> Response:
        if self.answer is None:
            raise FaultProxyError(
                f"the answer to this {self.key.name} was too large to be kept, or never came"
            )
        return _read_response(self.key, self.version, self.answer)[1]


Plan = Callable[[ApiKey, int], tuple[Fate, float]]
"""From an API and how many requests of it came before, to a fate and, for delays, seconds."""


def no_faults(_key: ApiKey, _count: int) -> tuple[Fate, float]:
    return Fate.PASS, 0.0


def at(key: ApiKey, fates: Mapping[int, Fate], delay_seconds: float = 0.05) -> Plan:
    """These fates for the n-th requests of one API, counted from 0."""
    return lambda asked, count: (fates.get(count, Fate.PASS) if asked is key else Fate.PASS, delay_seconds)


def at_random(
    seed: int,
    weights: Mapping[Fate, float],
    *,
    keys: frozenset[ApiKey] = frozenset({ApiKey.PRODUCE}),
    faults_max: int = 200,
    delay_max_seconds: float = 0.03,
) -> Plan:
    """Fates by chance: `weights` are the probabilities of each, the rest passes."""
    dice = random.Random(seed)
    fates = [*weights, Fate.PASS]
    chances = [*weights.values(), 1 - sum(weights.values())]
    left = faults_max

    def decide(key: ApiKey, _count: int) -> tuple[Fate, float]:
        nonlocal left
        if key not in keys or left <= 0:
            return Fate.PASS, 0.0
        fate = dice.choices(fates, chances)[0]
        left -= fate is not Fate.PASS
        return fate, dice.uniform(0, delay_max_seconds)

    return decide


@dataclass(slots=True)
class _Link:
    """One client's connection and the one to the broker behind it."""

    number: int
    client_reader: asyncio.StreamReader
    client: asyncio.StreamWriter
    broker_reader: asyncio.StreamReader
    broker: asyncio.StreamWriter
    pending: deque[Exchange] = field(default_factory=deque)
    silent: bool = False


class FaultProxyError(SemelError):
    """The proxy itself failed: what a test saw through it means nothing."""


class FaultProxy:
    """A running proxy; `bootstrap` is where clients go."""

    def __init__(self, bootstrap: str, plan: Plan = no_faults) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._broker = host, int(port)
        self.plan = plan
        self.exchanges: list[Exchange] = []
        self._counts: dict[ApiKey, int] = {}
        self._harms: dict[ApiKey, deque[tuple[Fate, float]]] = {}
        self._connections = 0
        self._port = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._copies: set[asyncio.Task[None]] = set()
        self._ready = threading.Event()
        self._stopping = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="fault-proxy", daemon=True)
        self.failures: list[BaseException] = []

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._port}"

    def harm(
        self, api: ApiKey | str, fate: Fate | str, *, times: int = 1, delay_seconds: float = 0.05
    ) -> None:
        """What becomes of the next requests of an API: `harm("produce", "cut_after")` loses the next answer."""
        key = api if isinstance(api, ApiKey) else _named(ApiKey, api)
        wanted = fate if isinstance(fate, Fate) else _named(Fate, fate)
        self._harms.setdefault(key, deque()).extend([(wanted, delay_seconds)] * times)

    def point_to(self, bootstrap: str) -> None:
        """The broker is elsewhere now; connections that stand are kept."""
        host, _, port = bootstrap.rpartition(":")
        self._broker = host, int(port)

    def count(self, api: ApiKey | str) -> int:
        """How many requests of an API came through."""
        return self._counts.get(api if isinstance(api, ApiKey) else _named(ApiKey, api), 0)

    def of(self, *keys: ApiKey) -> list[Exchange]:
        return [one for one in list(self.exchanges) if one.key in keys]

    def fates(self) -> list[Fate]:
        """The faults there were."""
        return [one.fate for one in list(self.exchanges) if one.fate is not Fate.PASS]

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(_STOP_SECONDS):
            raise FaultProxyError("the proxy did not start")
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(_STOP_SECONDS)
        if self._thread.is_alive():
            raise FaultProxyError("the proxy did not stop")
        if self.failures and exc[0] is None:
            raise self.failures[0]

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=_FRAME_MAX_BYTES)
        self._port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stopping.wait()
        server.close()
        if self._copies:
            await asyncio.wait(self._copies, timeout=_STOP_SECONDS / 2)
        for task in [*self._tasks, *self._copies]:
            task.cancel()
        await asyncio.gather(*self._tasks, *self._copies, return_exceptions=True)

    def _spawn(self, work: Coroutine[Any, Any, None], group: set[asyncio.Task[None]]) -> None:
        task = self._loop.create_task(work)
        group.add(task)
        task.add_done_callback(lambda done: self._done(done, group))

    def _done(self, task: asyncio.Task[None], group: set[asyncio.Task[None]]) -> None:
        group.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            self.failures.append(failure)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        if self._connections > _CONNECTIONS_MAX:
            writer.close()
            return
        self._spawn(self._link(self._connections, reader, writer), self._tasks)

    async def _link(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            broker_reader, broker = await asyncio.open_connection(*self._broker, limit=_FRAME_MAX_BYTES)
        except OSError:
            _abort(writer)  # The broker is down: so is this.
            return
        link = _Link(number, reader, writer, broker_reader, broker)
        both = [
            self._loop.create_task(self._requests(link)),
            self._loop.create_task(self._answers(link)),
        ]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in both:
                task.cancel()
            _abort(writer)
            _abort(broker)
            outcomes = await asyncio.gather(*both, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, Exception) and not isinstance(outcome, OSError | EOFError):
                raise outcome

    async def _requests(self, link: _Link) -> None:
        """From the client to the broker; returns when the connection is to end."""
        while True:
            frame = await _read_frame(link.client_reader)
            exchange = self._record(link, frame)
            if exchange.fate is Fate.CUT_BEFORE:
                return
            if exchange.fate is Fate.REPEAT:
                await self._send_copy(frame, 0)
            if exchange.fate is Fate.CORRUPT:
                frame = _corrupted(frame, exchange.version)
            link.pending.append(exchange)
            if exchange.fate is Fate.LATE_COPY:
                self._spawn(self._send_copy(frame, exchange.delay_seconds), self._copies)
            link.broker.writelines((_LENGTH.pack(len(frame)), frame))
            await link.broker.drain()

    def _record(self, link: _Link, frame: bytes) -> Exchange:
        header, _position = framing.read_request_header(frame)
        key = ApiKey(header.api_key)
        count = self._counts.get(key, 0)
        self._counts[key] = count + 1
        ordered = self._harms.get(key)
        fate, delay_seconds = ordered.popleft() if ordered else self.plan(key, count)
        kept = frame if len(frame) <= _KEPT_BYTES_MAX else b""
        exchange = Exchange(
            link.number, key, header.api_version, header.correlation_id, fate, delay_seconds, kept
        )
        if len(self.exchanges) < _EXCHANGES_MAX:
            self.exchanges.append(exchange)
        return exchange

    async def _answers(self, link: _Link) -> None:
        """From the broker to the client; returns when the connection is to end."""
        while True:
            frame = await _read_frame(link.broker_reader)
            correlation_id = _LENGTH.unpack_from(frame)[0]
            exchange = link.pending.popleft()
            while exchange.correlation_id != correlation_id:  # A request with acks=0 has no answer.
                exchange = link.pending.popleft()
            if len(frame) <= _KEPT_BYTES_MAX:
                exchange.answer = frame
            match exchange.fate:
                case Fate.CUT_AFTER | Fate.LATE_COPY:
                    return
                case Fate.SILENCE:
                    link.silent = True
                case Fate.DELAY | Fate.CORRUPT:
                    await asyncio.sleep(exchange.delay_seconds)
                case Fate.FAIL_AFTER:
                    frame = _failed(exchange.version, frame)
                case _:
                    pass
            if link.silent:
                continue
            if exchange.key in _NAMES_BROKERS:
                frame = self._named_here(exchange, frame)
            link.client.writelines((_LENGTH.pack(len(frame)), frame))
            await link.client.drain()

    async def _send_copy(self, frame: bytes, delay_seconds: float) -> None:
        """The same request over a connection of its own; its answer goes nowhere."""
        if delay_seconds:
            await asyncio.sleep(delay_seconds)
        with contextlib.suppress(OSError, EOFError):  # A broker that is down takes no copy.
            reader, writer = await asyncio.open_connection(*self._broker)
            try:
                writer.writelines((_LENGTH.pack(len(frame)), frame))
                await _read_frame(reader)
            finally:
                _abort(writer)

    def _named_here(self, exchange: Exchange, frame: bytes) -> bytes:
        correlation_id, response = _read_response(exchange.key, exchange.version, frame)
        places: list[Any] = [response] if hasattr(response, "host") else []
        places += getattr(response, "brokers", []) + getattr(response, "coordinators", [])
        for place in places:
            if place.port >= 0 and place.host:
                place.host, place.port = "127.0.0.1", self._port
        return framing.response_frame(correlation_id, response, exchange.version)[_LENGTH.size :]


def _named(kind: type[E], name: str) -> E:
    """The member of this name, in any case, with dashes or underscores."""
    found = kind.__members__.get(name.upper().replace("-", "_").replace(" ", "_"))
    if found is None:
        raise ValueError(f"{name!r} is none of {', '.join(kind.__members__).lower()}")
    return found


def _read_response(key: ApiKey, version: int, frame: bytes) -> tuple[int, Response]:
    correlation_id, position = framing.read_response_header(frame, api(key).response_header(version))
    return correlation_id, api(key).response.decode(frame, version, position)


def _corrupted(frame: bytes, version: int) -> bytes:
    damaged = bytearray(frame)
    _header, position = framing.read_request_header(damaged)
    records = ProduceRequest.decode(damaged, version, position).topic_data[0].partition_data[0].records
    if records is None:
        raise FaultProxyError("a Produce without records cannot be corrupted")
    place = frame.index(bytes(records)) + len(records) - 1
    damaged[place] ^= 1
    return bytes(damaged)


def _failed(version: int, frame: bytes) -> bytes:
    correlation_id, response = _read_response(ApiKey.PRODUCE, version, frame)
    if not isinstance(response, ProduceResponse):
        raise FaultProxyError(f"{type(response).__name__} is no answer to a Produce")
    for topic in response.responses:
        for partition in topic.partition_responses:
            partition.error_code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            partition.base_offset = UNKNOWN_OFFSET
    return framing.response_frame(correlation_id, response, version)[_LENGTH.size :]


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    size = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))[0]
    if not 0 <= size <= _FRAME_MAX_BYTES:
        raise ValueError(f"a frame of {size} bytes came through the proxy, it takes {_FRAME_MAX_BYTES}")
    return await reader.readexactly(size)


def _abort(writer: asyncio.StreamWriter) -> None:
    """Gone without a goodbye: what is still unsent is lost."""
    writer.transport.abort()

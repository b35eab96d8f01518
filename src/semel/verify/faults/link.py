"""A lossy link in front of a broker: it knows Kafka's frames, so a test can say which answer is lost.

Role.   `FaultLink` listens and passes frames on, on a real network or a simulated one. The outcome of each exchange is a `Fate`.
        Fates are given by `harm` (the next requests of one API) or by a plan: `at` (these exchanges of one API) or `at_random`
        (a seed, weights, a bound on the number of faults).
Flow.   `listen` -> a task per connection: requests one way, answers the other -> `close`. `fault_proxy.FaultProxy` runs one on
        a thread; the scenario `client_matrix` runs one on a simulated host. Answers that name brokers (Metadata,
        DescribeCluster, FindCoordinator; Produce and Fetch, of a new leader) are changed to name the link, so that every
        connection of a client comes through it; `faults.cluster` has a link for each broker and tells each the others' names.
Rules.  * Exchanges are recorded in the order they came, with small frames whole, up to `exchanges_max`; fates are counted for
          as long as it runs (`tally`).
        * Bounded: faults, connections at a time, recorded exchanges, delays; a copy that arrives late is awaited before the end.
        * Within a connection bytes stay in order: a copy overtakes over another connection.
"""

import asyncio
import contextlib
import random
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from struct import Struct
from typing import Any, Final, TypeAlias, TypeVar

from semel.core.wire import framing
from semel.core.wire.message import Request, Response
from semel.core.wire.messages.produce import ProduceRequest, ProduceResponse
from semel.core.wire.registry import ApiKey, api
from semel.errors import ErrorCode, SemelError
from semel.runtime.network import Network, Server
from semel.types import UNKNOWN_OFFSET

E = TypeVar("E", bound=Enum)

_LENGTH: Final = Struct(">i")
_CONNECTIONS_MAX: Final = 20_000
EXCHANGES_MAX: Final = 200_000
_KEPT_BYTES_MAX: Final = 16 << 10
_FRAME_MAX_BYTES: Final = 64 << 20
_COPIES_SECONDS: Final = 10
_NAMES_BROKERS: Final = frozenset({ApiKey.METADATA, ApiKey.DESCRIBE_CLUSTER, ApiKey.FIND_COORDINATOR})
_NAMES_LEADERS: Final = {ApiKey.PRODUCE: 10, ApiKey.FETCH: 16}
"""From which version on an answer may name a new leader, at its end (KIP-951)."""
_LEADERS_BYTES_MAX: Final = 4096


class Fate(Enum):
    """The outcome of a request and its answer."""

    PASS = auto()
    CUT_BEFORE = auto()
    """The connection breaks before the broker sees the request."""
    CUT_AFTER = auto()
    """The broker has handled it; its answer is lost with the connection."""
    SWALLOW = auto()
    """The broker sees neither it nor anything behind it on this connection, which stays open."""
    SILENCE = auto()
    """The broker has handled it; nothing comes back on this connection any more, which stays open."""
    LATE = auto()
    """It reaches the broker late, and so does what is behind it."""
    DELAY = auto()
    """The answer, and those behind it, are late."""
    REPEAT = auto()
    """A copy arrives first, over another connection: a retry that overtakes."""
    ECHO = auto()
    """It passes, and a copy arrives over another connection when the client is further on."""
    LATE_COPY = auto()
    """As CUT_AFTER, and a copy arrives over another connection when the client is further on."""
    OVERTAKEN = auto()
    """As CUT_BEFORE, and the request arrives over another connection when the client has sent it again."""
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
            raise FaultLinkError(
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
    keys: frozenset[ApiKey] | None = frozenset({ApiKey.PRODUCE}),
    faults_max: int = 200,
    delay_max_seconds: float = 0.03,
) -> Plan:
    """Fates by chance: `weights` are the probabilities of each, the rest passes. Of these APIs; with None, of all."""
    dice = random.Random(seed)
    fates = [*weights, Fate.PASS]
    chances = [*weights.values(), 1 - sum(weights.values())]
    left = faults_max

    def decide(key: ApiKey, _count: int) -> tuple[Fate, float]:
        nonlocal left
        if (keys is not None and key not in keys) or left <= 0:
            return Fate.PASS, 0.0
        fate = dice.choices(fates, chances)[0]
        left -= fate is not Fate.PASS
        return fate, dice.uniform(0, delay_max_seconds)

    return decide


class FaultLinkError(SemelError):
    """The link itself failed: answers seen through it mean nothing."""


Address: TypeAlias = tuple[str, int]
Naming: TypeAlias = Callable[[Address], Awaitable[Address]]
"""From where a broker says it is to where clients are to look for it."""


@dataclass(slots=True)
class _Connection:
    """One client's connection and the one to the broker behind it."""

    number: int
    client_reader: asyncio.StreamReader
    client: asyncio.StreamWriter
    broker_reader: asyncio.StreamReader
    broker: asyncio.StreamWriter
    pending: deque[Exchange] = field(default_factory=deque)
    silent: bool = False


class FaultLink:
    """A way to a broker; once it listens, clients go to `address`."""

    def __init__(
        self,
        network: Network,
        broker: Address,
        plan: Plan = no_faults,
        *,
        exchanges_max: int = EXCHANGES_MAX,
        naming: Naming | None = None,
        hosts: set[bytes] | None = None,
    ) -> None:
        self._network = network
        self._naming = naming or self._own_name
        self._hosts: set[bytes] = set() if hosts is None else hosts
        """Of brokers that were named, here or at another link of the same cluster."""
        self._server: Server | None = None
        self.broker = broker
        """Where requests go; connections that stand are kept when it changes."""
        self.plan = plan
        self.exchanges: list[Exchange] = []
        self.tally: Counter[Fate] = Counter()
        """How many requests met each fate."""
        self._exchanges_max = exchanges_max
        self.address = ("", 0)
        self.failures: list[BaseException] = []
        self._counts: dict[ApiKey, int] = {}
        self._harms: dict[ApiKey, deque[tuple[Fate, float]]] = {}
        self._connections = 0
        """How many came so far: each has a number of its own."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._copies: set[asyncio.Task[None]] = set()

    async def listen(self, host: str, port: int = 0) -> None:
        """Take connections, on the running loop."""
        self._server = await self._network.listen(self._protocol, host, port)
        self.address = self._server.addresses[0]

    async def close(self) -> None:
        """Take no more, let late copies arrive, and end every connection."""
        if self._server is not None:
            self._server.close()
        if self._copies:
            await asyncio.wait(self._copies, timeout=_COPIES_SECONDS)
        for task in [*self._tasks, *self._copies]:
            task.cancel()
        await asyncio.gather(*self._tasks, *self._copies, return_exceptions=True)

    def harm(self, key: ApiKey | str, fate: Fate | str, *, times: int, delay_seconds: float) -> None:
        """Set the fate of the next requests of an API."""
        wanted = fate if isinstance(fate, Fate) else _named(Fate, fate)
        self._harms.setdefault(_key(key), deque()).extend([(wanted, delay_seconds)] * times)

    def count(self, key: ApiKey | str) -> int:
        """How many requests of an API came through."""
        return self._counts.get(_key(key), 0)

    # Connections

    def _protocol(self) -> asyncio.StreamReaderProtocol:
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(limit=_FRAME_MAX_BYTES), self._accept)

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader = asyncio.StreamReader(limit=_FRAME_MAX_BYTES)
        transport, protocol = await self._network.connect(
            lambda: asyncio.StreamReaderProtocol(reader), *self.broker
        )
        return reader, asyncio.StreamWriter(transport, protocol, reader, asyncio.get_running_loop())

    def _spawn(self, work: Coroutine[Any, Any, None], group: set[asyncio.Task[None]]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        group.add(task)
        task.add_done_callback(lambda done: self._done(done, group))

    def _done(self, task: asyncio.Task[None], group: set[asyncio.Task[None]]) -> None:
        group.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            self.failures.append(failure)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= _CONNECTIONS_MAX:
            writer.close()
            return
        self._connections += 1
        self._spawn(self._connect(self._connections, reader, writer), self._tasks)

    async def _connect(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            broker_reader, broker = await self._open()
        except OSError:
            _abort(writer)  # The broker is down: so is this.
            return
        connection = _Connection(number, reader, writer, broker_reader, broker)
        create_task = asyncio.get_running_loop().create_task
        both = [create_task(self._requests(connection)), create_task(self._answers(connection))]
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

    # Frames

    async def _requests(self, connection: _Connection) -> None:
        """From the client to the broker; returns when the connection is to end."""
        is_swallowing = False
        while True:
            frame = await _read_frame(connection.client_reader)
            exchange = self._record(connection, frame)
            is_swallowing |= exchange.fate is Fate.SWALLOW
            if is_swallowing:
                continue
            match exchange.fate:
                case Fate.CUT_BEFORE:
                    return
                case Fate.OVERTAKEN:
                    self._spawn(self._send_copy(frame, exchange.delay_seconds), self._copies)
                    return
                case Fate.REPEAT:
                    await self._send_copy(frame, 0)
                case Fate.LATE:
                    await asyncio.sleep(exchange.delay_seconds)
                case Fate.CORRUPT:
                    frame = _corrupted(frame, exchange.version)
                case Fate.LATE_COPY | Fate.ECHO:
                    self._spawn(self._send_copy(frame, exchange.delay_seconds), self._copies)
                case _:
                    pass
            connection.pending.append(exchange)
            connection.broker.writelines((_LENGTH.pack(len(frame)), frame))
            await connection.broker.drain()

    def _record(self, connection: _Connection, frame: bytes) -> Exchange:
        header, _position = framing.read_request_header(frame)
        key = ApiKey(header.api_key)
        count = self._counts.get(key, 0)
        self._counts[key] = count + 1
        ordered = self._harms.get(key)
        fate, delay_seconds = ordered.popleft() if ordered else self.plan(key, count)
        self.tally[fate] += 1
        exchange = Exchange(
            connection.number, key, header.api_version, header.correlation_id, fate, delay_seconds
        )
        if len(self.exchanges) < self._exchanges_max:
            exchange.frame = frame if len(frame) <= _KEPT_BYTES_MAX else b""
            self.exchanges.append(exchange)
        return exchange

    async def _answers(self, connection: _Connection) -> None:
        """From the broker to the client; returns when the connection is to end."""
        while True:
            frame = await _read_frame(connection.broker_reader)
            correlation_id = _LENGTH.unpack_from(frame)[0]
            exchange = connection.pending.popleft()
            while exchange.correlation_id != correlation_id:  # A request with acks=0 has no answer.
                exchange = connection.pending.popleft()
            if len(frame) <= _KEPT_BYTES_MAX:
                exchange.answer = frame
            match exchange.fate:
                case Fate.CUT_AFTER | Fate.LATE_COPY:
                    return
                case Fate.SILENCE:
                    connection.silent = True
                case Fate.DELAY | Fate.CORRUPT:
                    await asyncio.sleep(exchange.delay_seconds)
                case Fate.FAIL_AFTER:
                    frame = _failed(exchange.version, frame)
                case _:
                    pass
            if connection.silent:
                continue
            if exchange.key in _NAMES_BROKERS or self._may_name_leaders(exchange, frame):
                frame = await self._renamed(exchange, frame)
            connection.client.writelines((_LENGTH.pack(len(frame)), frame))
            await connection.client.drain()

    async def _send_copy(self, frame: bytes, delay_seconds: float) -> None:
        """The same request over a connection of its own; its answer goes nowhere."""
        if delay_seconds:
            await asyncio.sleep(delay_seconds)
        with contextlib.suppress(OSError, EOFError):  # A broker that is down takes no copy.
            reader, writer = await self._open()
            try:
                writer.writelines((_LENGTH.pack(len(frame)), frame))
                await _read_frame(reader)
            finally:
                _abort(writer)

    async def _renamed(self, exchange: Exchange, frame: bytes) -> bytes:
        """The answer with every broker where clients are to look for it."""
        correlation_id, response = _read_response(exchange.key, exchange.version, frame)
        places: list[Any] = [response] if hasattr(response, "host") else []
        for field_name in ("brokers", "coordinators", "node_endpoints"):
            places += getattr(response, field_name, [])
        for place in places:
            if place.port >= 0 and place.host:
                self._hosts.add(place.host.encode())
                place.host, place.port = await self._naming((place.host, place.port))
        return framing.response_frame(correlation_id, response, exchange.version)[_LENGTH.size :]

    async def _own_name(self, _broker: Address) -> Address:
        return self.address

    def _may_name_leaders(self, exchange: Exchange, frame: bytes) -> bool:
        """Whether the name of a broker stands where an answer names new leaders; large answers are not read for nothing."""
        if exchange.version < _NAMES_LEADERS.get(exchange.key, exchange.version + 1):
            return False
        end = frame[-_LEADERS_BYTES_MAX:]
        return any(host in end for host in self._hosts)


def _key(key: ApiKey | str) -> ApiKey:
    return key if isinstance(key, ApiKey) else _named(ApiKey, key)


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
        raise FaultLinkError("a Produce without records cannot be corrupted")
    place = frame.index(bytes(records)) + len(records) - 1
    damaged[place] ^= 1
    return bytes(damaged)


def _failed(version: int, frame: bytes) -> bytes:
    correlation_id, response = _read_response(ApiKey.PRODUCE, version, frame)
    if not isinstance(response, ProduceResponse):
        raise FaultLinkError(f"{type(response).__name__} is not an answer to a Produce")
    for topic in response.responses:
        for partition in topic.partition_responses:
            partition.error_code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            partition.base_offset = UNKNOWN_OFFSET
    return framing.response_frame(correlation_id, response, version)[_LENGTH.size :]


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    size = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))[0]
    if not 0 <= size <= _FRAME_MAX_BYTES:
        raise ValueError(f"a frame of {size} bytes came through the link, it takes {_FRAME_MAX_BYTES}")
    return await reader.readexactly(size)


def _abort(writer: asyncio.StreamWriter) -> None:
    """Gone without a goodbye: unsent bytes are lost."""
    writer.transport.abort()

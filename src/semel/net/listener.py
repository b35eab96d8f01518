"""A listening port: accepts clients, bounds them, and ends them.

Role.   `Listener` opens a port on the runtime's network and makes an `inbound.InboundConnection` per client.
Flow.   The broker gives it a handler of frames and starts it; `close` stops accepting, lets requests that are being
        handled finish, and then ends the connections.
Rules.  * It runs unchanged on asyncio, on uvloop and in a simulation.
        * A client beyond `max.connections`, or beyond what its address may have, is turned away. The log has a
          line about the first, and then one in a while, with their count.
        * A connection on which nothing moves for `connections.max.idle.ms`, and for which nobody works, is closed.
        * A connection that is not read from, because of what is being handled for it, is asked each second whether its
          client has hung up.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from semel.core.security.identity import PLAINTEXT, Identities, ListenerName
from semel.core.wire.framing import SOCKET_REQUEST_MAX_BYTES, ReceiveBuffer
from semel.errors import ConfigError
from semel.net.inbound import Handler, InboundConnection
from semel.runtime.bundle import Runtime
from semel.runtime.network import AS_USUAL, Listening, Server
from semel.runtime.repeats import Repeats

_log: Final = logging.getLogger(__name__)
HANG_UP_SECONDS: Final = 1.0
"""How often those are asked that nobody reads from."""
GRACE_SECONDS: Final = 5.0
"""How long the requests that are being handled may take when the port is closed."""


@dataclass(frozen=True, slots=True)
class ListenerConfig:
    """Kafka's settings for connections, and our bounds on what one of them may hold."""

    name: ListenerName = PLAINTEXT
    request_max_bytes: int = SOCKET_REQUEST_MAX_BYTES  # socket.request.max.bytes
    connections_max: int = 2**31 - 1  # max.connections
    connections_per_ip_max: int = 2**31 - 1  # max.connections.per.ip
    connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    """`max.connections.per.ip.overrides`: addresses with a limit of their own."""
    idle_max_ms: int = 600_000  # connections.max.idle.ms
    in_flight_max: int = 64  # Requests of one connection that are handled at a time.
    in_flight_bytes_max: int = 64 * 1024 * 1024  # Their bytes: one more request may start below this.
    listening: Listening = AS_USUAL
    """Of the port itself; it keeps them until it is opened again."""

    def __post_init__(self) -> None:
        for name in ("request_max_bytes", "idle_max_ms", "in_flight_max", "in_flight_bytes_max"):
            value = getattr(self, name)
            if value < 1:
                raise ConfigError(f"{name} is {value}, it must be at least 1")
        if self.connections_max < 0:
            raise ConfigError(f"connections_max is {self.connections_max}, it must be at least 0")


@dataclass(slots=True)
class ListenerCounters:
    """The counts of one listener."""

    accepted: int = 0
    turned_away: int = 0
    idle_closed: int = 0
    requests: int = 0


class Listener:
    """A port and its clients."""

    def __init__(self, runtime: Runtime, handler: Handler, config: ListenerConfig | None = None) -> None:
        self.runtime = runtime
        self.handler = handler
        self.config = config or ListenerConfig()
        self.counters = ListenerCounters()
        self.identities = Identities(self.config.name)
        self.receive_buffer = ReceiveBuffer()  # All connections read through it, each in its turn.
        self._connections: dict[
            int, InboundConnection
        ] = {}  # By age; a set's order would differ between runs.
        self._per_host: Counter[str] = Counter()
        self._server: Server | None = None
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._unread: dict[int, InboundConnection] = {}
        self._hang_up_timer: asyncio.TimerHandle | None = None
        self._empty = asyncio.Event()
        self._turned_away = {"max.connections": Repeats(), "max.connections.per.ip": Repeats()}

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; the address, with the port that was chosen if 0 was asked for."""
        self._server = await self.runtime.network.listen(
            lambda: InboundConnection(self), host, port, self.config.listening
        )
        self._schedule_sweep()
        return self._server.addresses[0]

    async def close(self, *, grace_seconds: float = GRACE_SECONDS) -> None:
        """Accept no more, finish what is being handled within `grace_seconds`, and end every connection."""
        for timer in (self._sweep_timer, self._hang_up_timer):
            if timer is not None:
                timer.cancel()
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections.values()):
            connection.end()
        try:
            async with asyncio.timeout(grace_seconds):
                await self._until_empty()
        except TimeoutError:
            busy = sum(connection.is_busy for connection in self._connections.values())
            if busy and grace_seconds:
                _log.warning(
                    "%d connections are cut after %.1f s: their requests have no answer", busy, grace_seconds
                )
            for connection in list(self._connections.values()):
                connection.abort()
            await self._until_empty()

    @property
    def connections(self) -> list[InboundConnection]:
        """The clients there are, oldest first."""
        return list(self._connections.values())

    # From connections.

    def opened(self, connection: InboundConnection) -> None:
        host = connection.peer.rpartition(":")[0]
        config, here = self.config, self._per_host[host]
        here_max = config.connections_per_ip_overrides.get(host, config.connections_per_ip_max)
        if len(self._connections) >= config.connections_max:
            self._turn_away(connection, len(self._connections), "max.connections", config.connections_max)
            return
        if here >= here_max:
            self._turn_away(connection, here, "max.connections.per.ip", here_max)
            return
        self.counters.accepted += 1
        self._connections[id(connection)] = connection
        self._per_host[host] += 1

    def _turn_away(self, connection: InboundConnection, count: int, setting: str, allowed: int) -> None:
        self.counters.turned_away += 1
        if turned := self._turned_away[setting].due(self.runtime.clock.monotonic()):
            _log.warning(
                "turning %s away: %d connections are open%s, %s allows %d; %d were turned away since the last such line",
                connection.peer,
                count,
                f" from {connection.peer.rpartition(':')[0]}" if setting == "max.connections.per.ip" else "",
                setting,
                allowed,
                turned,
                extra={"peer": connection.peer},
            )
        connection.abort()

    def closed(self, connection: InboundConnection) -> None:
        if self._connections.pop(id(connection), None) is not None:
            host = connection.peer.rpartition(":")[0]
            self._per_host[host] -= 1
            if not self._per_host[host]:
                del self._per_host[host]
        if not self._connections:
            self._empty.set()

    def reads_not(self, connection: InboundConnection) -> None:
        """Nothing is read from this client for now."""
        self._unread[id(connection)] = connection
        if self._hang_up_timer is None:
            self._hang_up_timer = self.runtime.tasks.call_later(HANG_UP_SECONDS, self._look_for_hang_ups)

    def reads(self, connection: InboundConnection) -> None:
        """Its end will be read like everything else."""
        self._unread.pop(id(connection), None)

    def _look_for_hang_ups(self) -> None:
        self._hang_up_timer = None
        waiting = [one for one in self._unread.values() if not one.is_ending]
        if not waiting:
            return
        gone = self.runtime.network.hung_up([connection.transport for connection in waiting])
        for connection, has_hung_up in zip(waiting, gone, strict=True):
            if has_hung_up:
                connection.hung_up()
        self._hang_up_timer = self.runtime.tasks.call_later(HANG_UP_SECONDS, self._look_for_hang_ups)

    async def _until_empty(self) -> None:
        while self._connections:
            self._empty.clear()
            await self._empty.wait()

    def _schedule_sweep(self) -> None:
        self._sweep_timer = self.runtime.tasks.call_later(self.config.idle_max_ms / 4000, self._sweep)

    def _sweep(self) -> None:
        """Close who has been idle too long; one timer for all, so a connection costs none."""
        self._schedule_sweep()
        oldest = self.runtime.clock.monotonic() - self.config.idle_max_ms / 1000
        for connection in list(self._connections.values()):
            if connection.last_active < oldest and not connection.is_busy:
                self.counters.idle_closed += 1
                _log.debug(
                    "closing the connection of %s: idle for %d ms",
                    connection.peer,
                    self.config.idle_max_ms,
                    extra={"peer": connection.peer},
                )
                connection.abort()

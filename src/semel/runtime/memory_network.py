"""A network in memory: hosts, links with delay and faults, partitions, hosts that die, all from one seed.

Role.   `MemoryNetwork` connects simulated hosts; `HostNetwork` is the `network.Network` of one host.
Flow.   `simulation.Simulation` makes one network and gives each host its view. Faults are set on the network by
        tests and by the simulated cluster. Connections themselves are in `memory_transport`.
Rules.  * A host is known by its name; "localhost" and similar names mean the calling host.
        * A black hole loses no bytes for good: the sender retransmits until the link works again or `give_up_seconds`
          have passed, so old bytes may arrive long after new connections were made.
        * A killed process sends resets; a host without power sends nothing, and resets old connections only after its
          restart.
        * A connection attempt that is abandoned may still have been accepted by the other end.
"""

import asyncio
import contextvars
import errno
import random
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, TypeVar

from semel.errors import ConfigError
from semel.runtime.files import File
from semel.runtime.memory_transport import Break, MemoryTransport, Pipe, Signal
from semel.runtime.network import AS_USUAL, Listening, send_through_memory
from semel.runtime.simulated_loop import SimulatedLoop

Blockade: TypeAlias = Literal["black hole", "reset"]
P = TypeVar("P", bound=asyncio.BaseProtocol)

_OWN_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0", "::", ""})  # noqa: S104 - names, not a bind
_FIRST_OWN_PORT: Final = 32768
_CONNECT_SECONDS_MAX: Final = 127.0  # The total of Linux's six SYN retries.


@dataclass(frozen=True, slots=True)
class Link:
    """How bytes travel from one host to another."""

    latency_seconds: tuple[float, float] = (0.0001, 0.001)
    bytes_per_second: float = 1e9
    window_bytes: int = 128 * 1024
    segment_bytes_max: int = 16 * 1024
    split_probability: float = 0.2  # Per segment: cut at a random byte.
    stall_probability: float = 0.0  # Per segment: this and all behind it come late.
    stall_seconds: tuple[float, float] = (0.2, 5.0)
    break_probability: float = 0.0  # Per segment: the connection breaks, in one of the ways of `Break`.


@dataclass(slots=True)
class _Host:
    up: bool = True
    next_port: int = _FIRST_OWN_PORT
    servers: dict[int, "MemoryServer"] = field(default_factory=dict)
    ends: dict[int, MemoryTransport] = field(default_factory=dict)


class MemoryServer:
    """A port on which a simulated host listens."""

    def __init__(
        self, network: "MemoryNetwork", host: str, port: int, factory: Callable[[], asyncio.BaseProtocol]
    ) -> None:
        self._network = network
        self._address = (host, port)
        self._factory = factory
        self.context = contextvars.copy_context()

    @property
    def addresses(self) -> list[tuple[str, int]]:
        return [self._address]

    def accept(self, transport: MemoryTransport) -> None:
        if not transport.is_closing():
            transport.start(self._factory())

    def close(self) -> None:
        self._network.stop_listening(*self._address, self)


class MemoryNetwork:
    """All hosts and links, with their faults."""

    def __init__(self, loop: SimulatedLoop, dice: random.Random, *, give_up_seconds: float = 120.0) -> None:
        self.loop = loop
        self.dice = dice
        self.give_up_seconds = give_up_seconds
        self.context = contextvars.Context()  # Of no process: bytes in flight outlive their sender.
        self._hosts: dict[str, _Host] = {}
        self._default_link = Link()
        self._links: dict[tuple[str, str], Link] = {}
        self._blockades: dict[tuple[str, str], Blockade] = {}
        self._held: list[Pipe] = []
        self._ends_made = 0

    def at(self, host: str) -> "HostNetwork":
        """The network as seen from `host`, which is made if it is new."""
        self._hosts.setdefault(host, _Host())
        return HostNetwork(self, host)

    # Faults.

    def set_link(self, link: Link, *, between: tuple[str, str] | None = None) -> None:
        """Change how bytes travel between two hosts, or everywhere else."""
        if between is None:
            self._default_link = link
        else:
            self._links[between] = self._links[between[1], between[0]] = link

    def partition(
        self, one: str, other: str, *, how: Blockade = "black hole", both_ways: bool = True
    ) -> None:
        """Block traffic from `one` to `other`, and by default back as well."""
        self._blockades[one, other] = how
        if both_ways:
            self._blockades[other, one] = how
        if how == "reset":
            self.break_connections(one, other)

    def heal(self, one: str | None = None, other: str | None = None) -> None:
        """Remove the partitions between two hosts, around one, or all. Held bytes arrive late."""
        for pair in list(self._blockades):
            if _matches(pair, one, other):
                del self._blockades[pair]
        self._try_held()

    def break_connections(
        self, one: str | None = None, other: str | None = None, *, how: Break = Break.LOST
    ) -> int:
        """Break every connection between two hosts, of one host, or all; how many there were.

        The end at `one`, or a random one, is the sender that `how` speaks of.
        """
        broken: set[int] = set()  # The numbers of ends: each connection is met twice.
        for name in sorted(self._hosts):
            for end in list(self._hosts[name].ends.values()):
                peer = end.outgoing.target
                if end.is_closing() or end.number in broken or not _matches((name, peer.host), one, other):
                    continue
                broken |= {end.number, peer.number}
                if end.host != one and (peer.host == one or self.dice.random() < 0.5):
                    end, peer = peer, end
                end.outgoing.break_under(b"", how)
                if how is Break.LOST:
                    peer.lose(ConnectionResetError("the connection was reset by the network"))
        return len(broken) // 2

    def kill_host(self, host: str) -> None:
        """The process of `host` is killed: its system closes its ports and resets its connections."""
        state = self._hosts[host]
        state.servers.clear()
        ends, state.ends = state.ends, {}
        for end in ends.values():
            end.outgoing.signal(Signal.RESET)
            end.vanish()

    def cut_power(self, host: str) -> None:
        """`host` loses power, without a reset to its peers."""
        state = self._hosts[host]
        state.up = False
        state.servers.clear()
        ends, state.ends = state.ends, {}
        for end in ends.values():
            end.vanish()

    def power_on(self, host: str) -> None:
        self._hosts[host].up = True
        self._try_held()

    # Calls of connections.

    def link(self, source: str, target: str) -> Link:
        return self._links.get((source, target), self._default_link)

    def is_passable(self, source: str, target: str) -> bool:
        return self._hosts[target].up and (source, target) not in self._blockades

    def hold(self, pipe: Pipe) -> None:
        if pipe not in self._held:
            self._held.append(pipe)

    def forget(self, end: MemoryTransport) -> None:
        self._hosts[end.host].ends.pop(end.number, None)

    def _try_held(self) -> None:
        """After a change for the better every waiting sender repeats, each at its own moment."""
        held, self._held = self._held, []
        for pipe in held:
            self.loop.call_later(self.dice.uniform(0.0, 1.0), pipe.deliver_held, context=self.context)

    # Calls of hosts.

    def resolve(self, asking: str, name: str) -> str:
        if name in _OWN_NAMES:
            return asking
        if name not in self._hosts:
            raise OSError(
                errno.EHOSTUNREACH, f"no host is called {name!r}; known: {', '.join(sorted(self._hosts))}"
            )
        return name

    def listen(self, host: str, port: int, factory: Callable[[], asyncio.BaseProtocol]) -> MemoryServer:
        state = self._hosts[host]
        if port == 0:
            port = self._free_port(state)
        elif port in state.servers:
            raise OSError(errno.EADDRINUSE, f"port {port} of {host} is in use")
        server = state.servers[port] = MemoryServer(self, host, port, factory)
        return server

    def stop_listening(self, host: str, port: int, server: MemoryServer) -> None:
        if self._hosts[host].servers.get(port) is server:
            del self._hosts[host].servers[port]

    def obstacle(self, source: str, target: str) -> Blockade | None:
        """The blockade that prevents a handshake between `source` and `target`, if any."""
        if not self._hosts[target].up:
            return "black hole"
        return self._blockades.get((source, target)) or self._blockades.get((target, source))

    def server_at(self, host: str, port: int) -> MemoryServer | None:
        return self._hosts[host].servers.get(port)

    def join(self, source: str, server: MemoryServer, context: contextvars.Context) -> MemoryTransport:
        """Connect to `server`, which accepts at once. Returns the client's end."""
        address = server.addresses[0]
        own_address = (source, self._free_port(self._hosts[source]))
        client = self._end(source, own_address, address, context)
        accepted = self._end(address[0], address, own_address, server.context)
        client.outgoing = accepted.incoming = Pipe(self, client, accepted)
        accepted.outgoing = client.incoming = Pipe(self, accepted, client)
        self.loop.call_soon(server.accept, accepted, context=server.context)
        return client

    def _end(
        self, host: str, sockname: tuple[str, int], peername: tuple[str, int], context: contextvars.Context
    ) -> MemoryTransport:
        self._ends_made += 1
        end = MemoryTransport(
            self, number=self._ends_made, host=host, sockname=sockname, peername=peername, context=context
        )
        self._hosts[host].ends[end.number] = end
        return end

    def _free_port(self, state: _Host) -> int:
        state.next_port += 1
        return state.next_port - 1


class HostNetwork:
    """`network.Network` for one simulated host."""

    def __init__(self, network: MemoryNetwork, host: str) -> None:
        self._network = network
        self._host = host

    async def listen(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        options: Listening = AS_USUAL,
    ) -> MemoryServer:
        del options  # Accepting takes no time here, so nothing queues.
        if self._network.resolve(self._host, host) != self._host:
            raise OSError(errno.EADDRNOTAVAIL, f"{self._host} cannot listen as {host}")
        return self._network.listen(self._host, port, protocol_factory)

    def own_address(self) -> str:
        return self._host

    async def connect(
        self, protocol_factory: Callable[[], P], host: str, port: int, *, tls: ssl.SSLContext | None = None
    ) -> tuple[asyncio.Transport, P]:
        if tls is not None:
            raise ConfigError("a simulated network has no TLS: use security.protocol=PLAINTEXT there")
        network = self._network
        target = network.resolve(self._host, host)
        await self._reach(target)
        server = network.server_at(target, port)
        if server is None:
            await self._travel(target)
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"nobody listens on port {port} of {target}")
        transport = network.join(self._host, server, contextvars.copy_context())
        try:
            await self._travel(target)
        except asyncio.CancelledError:
            transport.abort()
            raise
        if transport.is_closing():
            raise ConnectionResetError(errno.ECONNRESET, f"{target} reset the connection")
        protocol = protocol_factory()
        transport.start(protocol)
        return transport, protocol

    def send_file(
        self,
        transport: asyncio.Transport,
        file: File,
        position: int,
        size: int,
        on_writable: Callable[[], object],
    ) -> int:
        del on_writable  # Memory accepts every write; the transport pauses a sender above its limit.
        return send_through_memory(transport, file, position, size)

    def hung_up(self, transports: Sequence[asyncio.Transport]) -> list[bool]:
        return [isinstance(one, MemoryTransport) and one.has_hung_up for one in transports]

    async def _reach(self, target: str) -> None:
        """Retry the handshake with growing pauses, until it succeeds or times out."""
        loop, network = self._network.loop, self._network
        deadline, pause = loop.time() + _CONNECT_SECONDS_MAX, 1.0
        while loop.time() < deadline:
            await self._travel(target)
            match network.obstacle(self._host, target):
                case None:
                    return
                case "reset":
                    raise ConnectionRefusedError(errno.ECONNREFUSED, f"{target} refuses connections")
                case "black hole":
                    await asyncio.sleep(min(pause, max(0.0, deadline - loop.time())))
                    pause *= 2
        raise TimeoutError(errno.ETIMEDOUT, f"{target} does not answer")

    async def _travel(self, target: str) -> None:
        await asyncio.sleep(
            self._network.dice.uniform(*self._network.link(self._host, target).latency_seconds)
        )


def _matches(pair: tuple[str, str], one: str | None, other: str | None) -> bool:
    return (one is None or one in pair) and (other is None or other in pair)

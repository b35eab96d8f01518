"""A ZooKeeper on a network: the shell around the pure machine, for a simulated world or a real port.

Role.   `ZooKeeperServer` reads frames, asks `core.zookeeper.machine` and writes what it gives. `run` is one process of it; the
        machine outlives the process, as an ensemble outlives one of its members.
Flow.   `run` listens -> of each connection the connect request, then one request after the other -> sessions end whose time is
        over.
Rules.  * A process that starts gives every session its whole timeout anew, as a new leader does.
        * The output of a machine is written at once and in order: a watch's event precedes the answer of the write it tells of.
        * `lose_answers` closes the connection in the place of the next answers to writes: the write happened, nobody is told.
        * Bounded: frames, connections at a time.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from semel.cluster.zookeeper.frames import FrameProtocol
from semel.core.zookeeper.machine import Close, Connected, Event, Machine, Output, Reply
from semel.core.zookeeper.wire.frames import (
    connect_response_frame,
    event_frame,
    read_connect_request,
    read_request,
    reply_frame,
)
from semel.core.zookeeper.wire.jute import MalformedError
from semel.core.zookeeper.wire.messages import Op
from semel.runtime.bundle import Runtime

_CONNECTIONS_MAX: Final = 1000
_WRITES: Final = frozenset({Op.CREATE, Op.CREATE2, Op.DELETE, Op.SET_DATA, Op.SET_ACL, Op.MULTI})


class ZooKeeperServer:
    """The server of one machine."""

    def __init__(self, machine: Machine, on_write: Callable[[int], None] | None = None) -> None:
        self.machine: Final = machine
        self.address = ("", 0)
        self._on_write = on_write
        """Told the machine's zxid after everything that may have changed it."""
        self._transports: dict[int, asyncio.Transport] = {}
        self._knows_read_only: set[int] = set()
        self._greeted: set[int] = set()
        self._count = 0
        self._answers_to_lose = 0

    def lose_answers(self, count: int) -> None:
        """The next writes happen, and their answers are lost with their connections."""
        self._answers_to_lose += count

    def expire(self, session_id: int, now_ms: int) -> None:
        """End a session now."""
        self._deliver(self.machine.expire(session_id, now_ms))

    async def run(self, runtime: Runtime, host: str, port: int) -> None:
        """Serve, until cancelled."""
        for connection in list(self._transports):  # Of the process before.
            self._drop(connection)
        self.machine.give_time(runtime.clock.monotonic_ms())
        server = await runtime.network.listen(lambda: self._protocol(runtime), host, port)
        self.address = server.addresses[0]
        try:
            while True:
                await asyncio.sleep(self.machine.sessions.tick_ms / 2000)
                self._deliver(self.machine.tick(runtime.clock.monotonic_ms()))
        finally:
            server.close()
            for transport in self._transports.values():
                transport.abort()

    def _protocol(self, runtime: Runtime) -> FrameProtocol:
        self._count += 1
        connection = self._count

        def made(transport: asyncio.Transport) -> None:
            if len(self._transports) >= _CONNECTIONS_MAX:
                transport.abort()
            else:
                self._transports[connection] = transport

        return FrameProtocol(
            lambda payload: self._take(connection, payload, runtime),
            lambda: self._drop(connection),
            made,
        )

    def _take(self, connection: int, payload: bytes, runtime: Runtime) -> None:
        clock = runtime.clock
        try:
            if connection in self._greeted:
                xid, request = read_request(payload)
                outputs = self.machine.handle(connection, xid, request, clock.monotonic_ms(), clock.now_ms())
            else:
                first, knows_read_only = read_connect_request(payload)
                self._greeted.add(connection)
                if knows_read_only:
                    self._knows_read_only.add(connection)
                outputs = self.machine.connect(connection, first, clock.monotonic_ms())
        except MalformedError:  # A client that speaks something else.
            self._transports[connection].abort()
            return
        self._deliver(outputs)

    def _drop(self, connection: int) -> None:
        self._transports.pop(connection, None)
        self._knows_read_only.discard(connection)
        self._greeted.discard(connection)
        self.machine.disconnect(connection)

    def _deliver(self, outputs: list[Output]) -> None:
        if self._on_write is not None:
            self._on_write(self.machine.zxid)
        for output in outputs:
            transport = self._transports.get(output.connection)
            if transport is None:
                continue
            match output:
                case Connected():
                    knows = output.connection in self._knows_read_only
                    transport.write(connect_response_frame(output.response, knows_read_only=knows))
                case Reply() if output.op in _WRITES and self._answers_to_lose:
                    self._answers_to_lose -= 1
                    self._drop(output.connection)
                    transport.abort()
                case Reply():
                    transport.write(reply_frame(output.header, output.op, output.answer))
                case Event():
                    transport.write(event_frame(output.zxid, output.event))
                case Close():
                    self._drop(output.connection)
                    transport.close()

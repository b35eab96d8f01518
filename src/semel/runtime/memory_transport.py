"""One TCP connection in memory: two pipes, and an asyncio transport at each end.

Role.   `Pipe` carries one direction's bytes in order, with delay, a window and faults; protocols hold a
        `MemoryTransport`, which behaves like asyncio's socket transports.
Flow.   `memory_network` makes a pair per connection. A write goes through the window into flight, lands at the
        other end after the link's delay, and is handed to the protocol in pieces of any size.
Rules.  * Bytes of one direction arrive in order and once, or the connection breaks. Two connections are not ordered:
          bytes a client sent before it gave up may arrive after its retry.
        * Bytes in flight and unread never exceed the window. More bytes wait in the write buffer, and the protocol is
          paused and resumed at the water marks.
        * A reset reaches the other end behind the bytes in flight. A half-open end notices only when it sends.
        * Protocols are called in the context of the process that made their end, never in the sender's.
"""

import asyncio
import contextvars
import zlib
from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from semel.types import BytesLike

if TYPE_CHECKING:
    from semel.runtime.memory_network import Link, MemoryNetwork

_READ_MAX_BYTES = 256 * 1024
_HIGH_WATER_BYTES = 64 * 1024


class Signal(Enum):
    """Signals between the ends, besides bytes."""

    END = auto()
    RESET = auto()


class Break(Enum):
    """How a connection breaks under the sender of a segment."""

    LOST = auto()  # The segment is lost; both ends hear of it.
    DELIVERED = auto()  # The segment arrives; its answer will not.
    HALF_OPEN = auto()  # The segment arrives; the receiver keeps the connection open.


class Pipe:
    """One direction of a connection."""

    def __init__(
        self, network: "MemoryNetwork", source: "MemoryTransport", target: "MemoryTransport"
    ) -> None:
        self._network = network
        self._loop = network.loop
        self.source = source
        self.target = target
        self.unsent: deque[bytes] = deque()
        self.unsent_bytes = 0
        self._flying: deque[bytes | Signal] = deque()
        self._held: deque[bytes | Signal] = (
            deque()
        )  # Bytes for a blocked or dead host, resent until it heals.
        self._in_flight_bytes = 0
        self._last_arrival = 0.0
        self._line_free_at = 0.0
        self._give_up_timer: asyncio.TimerHandle | None = None
        self._given_up = False

    def write(self, data: bytes) -> None:
        self.unsent.append(data)
        self.unsent_bytes += len(data)
        self.pump()

    def pump(self) -> None:
        """Send what the window allows."""
        if not self.unsent:
            self.source.drained()
            return
        link = self._network.link(self.source.host, self.target.host)
        while self.unsent:
            room = link.window_bytes - self._in_flight_bytes - self.target.unread_bytes
            if room <= 0:
                break
            data = self.unsent.popleft()
            size = min(len(data), room, link.segment_bytes_max)
            if size > 1 and self._network.dice.random() < link.split_probability:
                size = self._network.dice.randint(1, size)
            if size < len(data):
                self.unsent.appendleft(data[size:])
            self.unsent_bytes -= size
            self._in_flight_bytes += size
            self._launch_segment(data[:size], link)
        self.source.drained()

    def signal(self, signal: Signal) -> None:
        self._fly(signal, 0, self._network.link(self.source.host, self.target.host))

    def drop_unsent(self) -> None:
        self.unsent.clear()
        self.unsent_bytes = 0

    def _launch_segment(self, data: bytes, link: "Link") -> None:
        dice = self._network.dice
        if dice.random() >= link.break_probability:
            self._fly(data, len(data), link)
            return
        self.break_under(data, dice.choice(tuple(Break)))

    def break_under(self, data: bytes, how: Break) -> None:
        """Break the connection while `data` is being sent."""
        self._loop.note(f"{self} breaks: {how.name}")
        if how is Break.LOST:
            self._in_flight_bytes -= len(data)
        elif data:
            self._fly(data, len(data), self._network.link(self.source.host, self.target.host))
        if how is not Break.HALF_OPEN:
            self.signal(Signal.RESET)
        self.source.lose(ConnectionResetError("the connection was reset by the network"))

    def _fly(self, segment: bytes | Signal, size: int, link: "Link") -> None:
        network, dice = self._network, self._network.dice
        delay = dice.uniform(*link.latency_seconds)
        if dice.random() < link.stall_probability:
            delay += dice.uniform(*link.stall_seconds)
        self._line_free_at = max(self._line_free_at, self._loop.time()) + size / link.bytes_per_second
        self._last_arrival = max(self._last_arrival, self._line_free_at + delay)
        self._flying.append(segment)
        self._loop.call_at(self._last_arrival, self._arrive, context=network.context)

    def _arrive(self) -> None:
        """The oldest segment arrives: the events are interchangeable, so ties keep the order."""
        segment = self._flying.popleft()
        if not self._given_up or segment is Signal.RESET:  # A reset is a new segment, not a retransmission.
            self._held.append(segment)
            if len(self._held) == 1:
                self.deliver_held()

    def deliver_held(self) -> None:
        """Deliver held bytes, unless the link is blocked; then retry until the sender gives up."""
        while self._held:
            if not self._network.is_passable(self.source.host, self.target.host):
                self._network.hold(self)
                if self._give_up_timer is None:
                    self._give_up_timer = self._loop.call_later(
                        self._network.give_up_seconds, self._give_up, context=self._network.context
                    )
                return
            self._land(self._held.popleft())
        if self._give_up_timer is not None:
            self._give_up_timer.cancel()
            self._give_up_timer = None

    def _land(self, segment: bytes | Signal) -> None:
        if isinstance(segment, bytes):
            if self._loop.is_traced:
                self._loop.note(f"{self} {len(segment)} bytes {zlib.crc32(segment)}")
            self._in_flight_bytes -= len(segment)
            self.target.receive(segment)
        else:
            self._loop.note(f"{self} {segment.name}")
            self.target.receive_signal(segment)

    def _give_up(self) -> None:
        self._given_up = True
        self._give_up_timer = None
        self._held.clear()
        self.source.lose(TimeoutError("the other end has not answered for too long"))

    def __str__(self) -> str:
        return f"{self.source.sockname} -> {self.target.sockname}"


class MemoryTransport(asyncio.Transport):
    """One end of a connection."""

    outgoing: Pipe
    incoming: Pipe

    def __init__(
        self,
        network: "MemoryNetwork",
        *,
        number: int,
        host: str,
        sockname: tuple[str, int],
        peername: tuple[str, int],
        context: contextvars.Context,
    ) -> None:
        super().__init__(extra={"sockname": sockname, "peername": peername})
        self.number = number
        self.host = host
        self.sockname = sockname
        self.unread_bytes = 0
        self._network = network
        self._loop = network.loop
        self._context = context
        self._protocol: asyncio.BaseProtocol | None = None
        self._inbox: deque[bytes] = deque()
        self._signals: deque[Signal] = deque()
        self._reading = True
        self._delivery_scheduled = False
        self._closing = False
        self._lost = False
        self._end_asked = False
        self._end_sent = False
        self._writing_paused = False
        self._high_bytes, self._low_bytes = _HIGH_WATER_BYTES, _HIGH_WATER_BYTES // 4

    # From the network.

    def start(self, protocol: asyncio.BaseProtocol) -> None:
        """Set the end's protocol; early bytes are delivered next."""
        self._protocol = protocol
        protocol.connection_made(self)
        self._schedule_delivery()

    def receive(self, data: bytes) -> None:
        if self._lost:
            self.outgoing.signal(Signal.RESET)  # Bytes to a closed connection are refused.
            return
        self._inbox.append(data)
        self.unread_bytes += len(data)
        self._schedule_delivery()

    def receive_signal(self, signal: Signal) -> None:
        if self._lost:
            return
        if signal is Signal.RESET and self._network.dice.random() < 0.5:
            self._drop_inbox()  # Systems differ in whether bytes before a reset are delivered.
        self._signals.append(signal)
        if self._closing and signal is Signal.RESET:
            self.lose(None)  # It was flushing before a close, and the peer is gone.
        self._schedule_delivery()

    @property
    def has_hung_up(self) -> bool:
        """Whether the other end has closed or half-closed, even if its last bytes are unread."""
        return self._lost or bool(self._signals)

    def lose(self, error: Exception | None) -> None:
        """End the connection; the protocol is told once."""
        if self._lost:
            return
        self._lost = self._closing = True
        self._drop_inbox()
        self.outgoing.drop_unsent()
        self._network.forget(self)
        self._loop.call_soon(self._report_loss, error, context=self._context)

    def vanish(self) -> None:
        """The host is gone: its protocol gets no more calls."""
        self._lost = self._closing = True
        self._drop_inbox()
        self.outgoing.drop_unsent()

    def drained(self) -> None:
        """Bytes have left the write buffer."""
        if self._writing_paused and self.outgoing.unsent_bytes <= self._low_bytes:
            self._loop.call_soon(self._resume_writing, context=self._context)
        if self._lost or self.outgoing.unsent:
            return
        if self._end_asked and not self._end_sent:
            self._end_sent = True
            self.outgoing.signal(Signal.END)
        if self._closing:
            if self.unread_bytes:
                self.outgoing.signal(Signal.RESET)  # As Linux does when a socket is closed with bytes unread.
            elif not self._end_sent:
                self.outgoing.signal(Signal.END)
            self.lose(None)

    # To the protocol.

    def _schedule_delivery(self) -> None:
        waiting = bool(self._inbox or self._signals) and not self._delivery_scheduled
        if waiting and self._reading and not self._closing and self._protocol is not None:
            self._delivery_scheduled = True
            self._loop.call_soon(self._deliver, context=self._context)

    def _deliver(self) -> None:
        self._delivery_scheduled = False
        if not self._reading or self._closing:
            return
        if self._inbox:
            self._guard(self._deliver_bytes)
            self.incoming.pump()
        elif self._signals:
            match self._signals.popleft():
                case Signal.RESET:
                    self.lose(ConnectionResetError("the connection was reset by the other end"))
                case Signal.END:
                    self._guard(self._deliver_end)
        self._schedule_delivery()

    def _deliver_bytes(self) -> None:
        size = min(self.unread_bytes, _READ_MAX_BYTES)
        if self._network.dice.random() < 0.25:
            size = self._network.dice.randint(1, size)
        protocol = self._protocol
        if isinstance(protocol, asyncio.BufferedProtocol):
            buffer = memoryview(protocol.get_buffer(-1))
            if not buffer:
                raise RuntimeError("get_buffer() returned an empty buffer")
            data = self._take(min(size, len(buffer)))
            buffer[: len(data)] = data
            protocol.buffer_updated(len(data))
        elif isinstance(protocol, asyncio.Protocol):
            protocol.data_received(self._take(size))

    def _deliver_end(self) -> None:
        protocol = self._protocol
        if isinstance(protocol, asyncio.Protocol | asyncio.BufferedProtocol) and protocol.eof_received():
            return
        self.close()

    def _guard(self, call: Callable[[], None]) -> None:
        """A protocol that raises loses its connection, as on asyncio's own transports."""
        try:
            call()
        except Exception as error:
            self._loop.call_exception_handler(
                {"message": "Fatal error: a protocol call failed.", "exception": error, "transport": self}
            )
            self.abort()

    def _take(self, size: int) -> bytes:
        taken = bytearray()
        while len(taken) < size:
            data = self._inbox.popleft()
            wanted = size - len(taken)
            if len(data) > wanted:
                self._inbox.appendleft(data[wanted:])
            taken += data[:wanted]
        self.unread_bytes -= size
        return bytes(taken)

    def _drop_inbox(self) -> None:
        self._inbox.clear()
        self.unread_bytes = 0

    def _report_loss(self, error: Exception | None) -> None:
        if self._protocol is not None:
            self._protocol.connection_lost(error)

    def _resume_writing(self) -> None:
        if self._writing_paused and not self._lost and self.outgoing.unsent_bytes <= self._low_bytes:
            self._writing_paused = False
            if self._protocol is not None:
                self._protocol.resume_writing()

    # From the protocol.

    def write(self, data: BytesLike) -> None:
        if self._end_asked:
            raise RuntimeError("Cannot call write() after write_eof()")
        if self._closing:
            return
        if Signal.RESET in self._signals:  # Reading may be paused; a write still notices the reset.
            self.lose(BrokenPipeError("the connection was reset by the other end"))
            return
        if data:
            self.outgoing.write(bytes(data))
        if self.outgoing.unsent_bytes > self._high_bytes and not self._writing_paused and not self._closing:
            self._writing_paused = True
            if self._protocol is not None:
                self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        if not self._closing and not self._end_asked:
            self._end_asked = True
            self.drained()

    def can_write_eof(self) -> bool:
        return True

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self.drained()

    def abort(self) -> None:
        if not self._lost:
            self.outgoing.signal(Signal.RESET)
            self.lose(None)

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self._schedule_delivery()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = _HIGH_WATER_BYTES if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high}) must be >= low ({low}) must be >= 0")
        self._high_bytes, self._low_bytes = high, low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low_bytes, self._high_bytes

    def get_write_buffer_size(self) -> int:
        return self.outgoing.unsent_bytes

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        if self._protocol is None:
            raise RuntimeError("the connection is not made yet")
        return self._protocol

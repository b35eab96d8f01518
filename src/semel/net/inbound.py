"""The broker's end of one client connection: frames in, handled in order, replies out in the same order.

Role.   A `BufferedProtocol` that receives each frame once into its own buffer, calls the handler for each, and
        keeps the replies in the order of the requests even when handlers finish in another.
Flow.   The transport fills the buffer of `core.wire.framing.FrameReader`; complete frames go to the handler, which
        answers at once or later; replies that are ready leave through the `Outbox` together.
Rules.  * Handlers start in the order of requests. A reply waits until all earlier ones are on their way.
        * At most `in_flight_max` requests and about `in_flight_bytes_max` of their bytes are being handled; beyond
          that, and while the client does not read its replies, nothing more is read from it.
        * One turn of the loop handles requests of one client for at most about `TURN_SECONDS_MAX`; what it has sent beyond
          that waits until others have had theirs.
        * While an `Exclusive` answer is awaited, no later request of its connection begins.
        * Bytes that are no frame, and a handler that raises, close this connection and no other: earlier replies
          are still sent, later requests are dropped, and one line in the log says why.
        * A client that has closed its half still gets the replies it is owed.
        * Handlers go on when their client leaves; they may ask `is_lost` and `is_ending`, and be told by `on_end`. A client
          that is not read from because of what it is owed may leave, too: the listener looks for that.
Elsewhere. Limits, idle connections, start and stop: `listener`.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from semel.core.security.identity import ANONYMOUS
from semel.core.wire.framing import FrameReader
from semel.errors import UnsupportedVersionError, WireError
from semel.net.outbox import HIGH_WATER_BYTES, Outbox
from semel.net.reply import Exclusive, Reply

if TYPE_CHECKING:
    from semel.net.listener import Listener

_log: Final = logging.getLogger(__name__)

Handler: TypeAlias = Callable[[bytearray, "InboundConnection"], Reply | Awaitable[Reply] | Exclusive[Reply]]
TURN_SECONDS_MAX: Final = 0.01
_AT_ONCE: Final = (bytes, list, type(None), bytearray, memoryview)


class _Turn:
    """One request's place in the order of replies."""

    __slots__ = ("error", "frame_bytes", "is_done", "reply")

    def __init__(self, frame_bytes: int, reply: Reply, error: BaseException | None, *, is_done: bool) -> None:
        self.frame_bytes = frame_bytes
        self.reply = reply
        self.error = error
        self.is_done = is_done


class InboundConnection(asyncio.BufferedProtocol):
    """One client. Made by the listener for every connection it accepts."""

    def __init__(self, listener: "Listener") -> None:
        self._listener = listener
        self._config = listener.config
        self._handler = listener.handler
        self._monotonic = listener.runtime.clock.monotonic
        self._reader = FrameReader(listener.config.request_max_bytes, buffer=listener.receive_buffer)
        self.get_buffer = self._reader.get_buffer  # type: ignore[method-assign]  # one call less for every read
        self._waiting: deque[bytearray] = deque()  # Frames that were read with others and exceed the bounds.
        self._turns: deque[_Turn] = deque()
        self._turns_bytes = 0
        self._exclusive: _Turn | None = None
        self._reading = True
        self._ending = False  # No more requests; close once what is owed has been sent.
        self._has_hung_up = False
        self._flush_scheduled = False
        self._end_callbacks: dict[Callable[[], None], None] = {}  # A dict keeps the order, a set would not.
        self.is_lost = False
        self.last_active = self._monotonic()
        self.peer = "an unknown peer"
        self.identity = listener.identities.of(ANONYMOUS, "")
        """Replaced when the address is known, and by a login."""

    # From the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(
            "asyncio.Transport", transport
        )  # uvloop's are no subclasses of it, only equals.
        self.peer = _address_text(self._transport.get_extra_info("peername"))
        self._reader.peer = self.peer
        self.identity = self._listener.identities.of(ANONYMOUS, self.peer.rpartition(":")[0])
        self._outbox = Outbox(self._listener.runtime.network, self._transport, self.resume_writing)
        self._listener.opened(self)

    def buffer_updated(self, nbytes: int) -> None:
        self.last_active = self._monotonic()
        if self._ending:
            return
        try:
            frames = self._reader.buffer_updated(nbytes)
        except WireError as error:
            self._refuse(error)
            return
        if frames:
            self._waiting.extend(frames)
            self._handle_waiting()

    def eof_received(self) -> bool:
        if self._reader.pending_bytes and not self._ending:
            _log.debug(
                "%s closed inside a frame, %d bytes of it had come",
                self.peer,
                self._reader.pending_bytes,
                extra={"peer": self.peer},
            )
        self.end()
        return not self._transport.is_closing()

    def pause_writing(self) -> None:
        self._outbox.paused = True
        self._set_reading()

    def resume_writing(self) -> None:
        self._outbox.paused = False
        self.last_active = self._monotonic()
        self._handle_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self._reader.forget()
        self._listener.reads(self)
        self._waiting.clear()
        self._outbox.clear()
        self._listener.closed(self)
        if exc is not None:
            _log.debug("connection of %s broke: %s", self.peer, exc, extra={"peer": self.peer})
        self._tell_of_the_end()

    # From the listener and the handlers.

    def end(self) -> None:
        """Take no more requests; close when the replies owed have been sent."""
        self._ending = True
        self._waiting.clear()
        self._set_reading()
        self._tell_of_the_end()
        self._close_if_done()

    def abort(self) -> None:
        self._transport.abort()

    def on_end(self, callback: Callable[[], None]) -> None:
        """Call back once no more requests are taken, or the client is gone; at once if that is so."""
        if self.is_ending:
            callback()
        else:
            self._end_callbacks[callback] = None

    def not_on_end(self, callback: Callable[[], None]) -> None:
        """Do not call back any more."""
        self._end_callbacks.pop(callback, None)

    def hung_up(self) -> None:
        """The client has closed at least its half, behind requests that are not read yet: these are still answered."""
        self._has_hung_up = True
        self._tell_of_the_end()

    def _tell_of_the_end(self) -> None:
        callbacks, self._end_callbacks = self._end_callbacks, {}
        for callback in callbacks:
            callback()

    @property
    def is_ending(self) -> bool:
        """Whether nobody waits for more than the answers that are owed, or not even for these."""
        return self._ending or self.is_lost or self._has_hung_up

    @property
    def transport(self) -> asyncio.Transport:
        return self._transport

    @property
    def is_busy(self) -> bool:
        """Whether a request is being handled."""
        return bool(self._turns)

    # Requests.

    def _handle_waiting(self) -> None:
        """Hand frames to the handler as far as the bounds allow, then send what is ready."""
        waiting, turns, outbox, handler = self._waiting, self._turns, self._outbox, self._handler
        handled = 0
        monotonic = self._monotonic
        until = monotonic() + TURN_SECONDS_MAX
        is_cut_short = False
        while waiting and not self._ending and not outbox.paused:
            if turns and (self._exclusive is not None or self._is_full()):
                break
            frame = waiting.popleft()
            handled += 1
            try:
                answer = handler(frame, self)
            except Exception as error:
                self._take_turn(0, error=error, is_done=True)
                self._settle()
                self.end()
                break
            if not isinstance(answer, _AT_ONCE):
                turn = self._take_turn(len(frame))
                if isinstance(answer, Exclusive):
                    self._exclusive, answer = turn, answer.answer
                self._listener.runtime.tasks.spawn(self._await(turn, answer), name=f"request of {self.peer}")
            elif turns:
                self._take_turn(0, reply=answer, is_done=True)
            else:
                outbox.put(answer)
                if outbox.waiting_bytes >= HIGH_WATER_BYTES:
                    self._flush()  # Small requests may ask for much: see after each whether the client keeps up.
            if waiting and monotonic() > until:
                is_cut_short = True
                break
        self._listener.counters.requests += handled
        self._flush()
        if is_cut_short and not self._flush_scheduled:
            self._flush_scheduled = True
            asyncio.get_running_loop().call_soon(self._flush_later)
        if turns or waiting or not self._reading:
            self._set_reading()

    def _is_full(self) -> bool:
        """Whether as much is being handled for this client as one may have."""
        return (
            len(self._turns) >= self._config.in_flight_max
            or self._turns_bytes >= self._config.in_flight_bytes_max
        )

    def _take_turn(
        self,
        frame_bytes: int,
        *,
        reply: Reply = None,
        error: BaseException | None = None,
        is_done: bool = False,
    ) -> _Turn:
        turn = _Turn(frame_bytes, reply, error, is_done=is_done)
        self._turns.append(turn)
        self._turns_bytes += frame_bytes
        return turn

    async def _await(self, turn: _Turn, answer: Awaitable[Reply]) -> None:
        try:
            turn.reply = await answer
        except Exception as error:
            turn.error = error
        except asyncio.CancelledError as error:  # The broker is stopping.
            turn.error = error
            self._finish(turn)
            raise
        self._finish(turn)

    def _finish(self, turn: _Turn) -> None:
        turn.is_done = True
        if turn is self._exclusive:
            self._exclusive = None
        self.last_active = (
            self._monotonic()
        )  # Idle time begins when the answer leaves, not when its request came.
        self._settle()
        if not self._flush_scheduled and not self.is_lost:
            self._flush_scheduled = (
                True  # Replies that become ready in the same turn of the loop leave together.
            )
            asyncio.get_running_loop().call_soon(self._flush_later)

    # Replies.

    def _settle(self) -> None:
        """Move the replies whose turn has come to the outbox."""
        turns = self._turns
        while turns and turns[0].is_done:
            turn = turns.popleft()
            self._turns_bytes -= turn.frame_bytes
            if turn.error is not None:
                turns.clear()
                self._turns_bytes = 0
                self._refuse(turn.error)
            elif not self.is_lost:
                self._outbox.put(turn.reply)

    def _flush_later(self) -> None:
        self._flush_scheduled = False
        if not self.is_lost:
            self._handle_waiting()

    def _flush(self) -> None:
        try:
            done = self._outbox.flush()
        except (
            OSError,
            EOFError,
        ) as error:  # A file that cannot be read: half a reply is on its way already.
            _log.error(
                "closing the connection of %s: its reply cannot be read from disk: %s",
                self.peer,
                error,
                extra={"peer": self.peer},
            )
            self._outbox.clear()
            self._ending = True
            self._transport.abort()
            return
        if not done and not self._flush_scheduled:
            self._flush_scheduled = True
            asyncio.get_running_loop().call_soon(self._flush_later)
        if self._ending:
            self._close_if_done()

    def _set_reading(self) -> None:
        wanted = not (
            self._waiting
            or self._ending
            or self._outbox.paused
            or self._exclusive is not None
            or self._is_full()
        )
        if wanted != self._reading and not self._transport.is_closing():
            self._reading = wanted
            if wanted:
                self._transport.resume_reading()
                self._listener.reads(self)
            else:
                self._transport.pause_reading()
                self._listener.reads_not(self)

    # The end.

    def _refuse(self, error: BaseException) -> None:
        """Close because of what this client sent, or because its request could not be handled."""
        if self.is_lost:
            return
        if isinstance(error, WireError | UnsupportedVersionError):
            _log.warning("closing the connection of %s: %s", self.peer, error, extra={"peer": self.peer})
        elif isinstance(error, Exception):
            _log.error(
                "closing the connection of %s: its request failed",
                self.peer,
                exc_info=error,
                extra={"peer": self.peer},
            )
        self.end()

    def _close_if_done(self) -> None:
        if not self._turns and self._outbox.is_empty():
            self._transport.close()


def _address_text(address: object) -> str:
    match address:
        case (str(host), int(port), *_):
            return f"{host}:{port}"
        case _:
            return str(address)

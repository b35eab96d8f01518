"""A bad connection on purpose: a TCP proxy that loses, delays and repeats what passes through it.

Role.   Stands between a client and a broker. It knows Kafka's frames, so it can let a request be handled and then lose
        the answer, which is the case idempotence is for.
Rules.  * Lost: the broker's answer is thrown away and the connection broken. Repeated: the same produce request is
          handed to the broker a second time, on a connection of its own. Delayed: the answer comes late.
        * What passes unharmed passes unchanged and in order.
        * The target may change while running: the broker comes back on another port after a kill.
"""

import asyncio
import contextlib
import random
from dataclasses import dataclass
from struct import Struct
from typing import Final

from semel.core.wire.framing import SOCKET_REQUEST_MAX_BYTES
from semel.core.wire.registry import ApiKey
from semel.errors import FrameTooLargeError

_LENGTH: Final = Struct(">i")
_API_KEY: Final = Struct(">h")
_DELAY_SECONDS_MAX: Final = 0.02


@dataclass(slots=True)
class Harm:
    """What was done so far."""

    answers_lost: int = 0
    answers_delayed: int = 0
    requests_repeated: int = 0


class FaultyProxy:
    """A proxy that harms a share of the produce requests that pass."""

    def __init__(
        self, dice: random.Random, *, lose: float = 0.02, delay: float = 0.05, repeat: float = 0.05
    ) -> None:
        self._dice = dice
        self._lose, self._delay, self._repeat = lose, delay, repeat
        self._target: tuple[str, int] | None = None
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.harm = Harm()

    async def start(self) -> tuple[str, int]:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()[:2]
        return host, port

    def aim(self, host: str, port: int) -> None:
        """Where the broker is now."""
        self._target = (host, port)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            await self._relay(reader, writer)
        except (OSError, asyncio.IncompleteReadError, FrameTooLargeError):
            pass  # Either end is gone: the other one is told by the close below.
        finally:
            await _close(writer)

    async def _relay(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        if self._target is None:
            return
        broker, to_broker = await asyncio.open_connection(*self._target)
        kinds: asyncio.Queue[int] = asyncio.Queue()
        try:
            async with asyncio.TaskGroup() as group:
                back = group.create_task(self._answers(broker, to_client, kinds))
                group.create_task(self._requests(client, to_broker, kinds, back))
        except* (OSError, asyncio.IncompleteReadError, FrameTooLargeError):
            pass
        finally:
            await _close(to_broker)

    async def _requests(
        self,
        client: asyncio.StreamReader,
        to_broker: asyncio.StreamWriter,
        kinds: asyncio.Queue[int],
        back: asyncio.Task[None],
    ) -> None:
        try:
            while not back.done():
                frame = await _read_frame(client)
                kind = _API_KEY.unpack_from(frame, _LENGTH.size)[0]
                kinds.put_nowait(kind)
                to_broker.write(frame)
                await to_broker.drain()
                if kind == ApiKey.PRODUCE and self._dice.random() < self._repeat:
                    await self._repeat_request(frame)
        finally:
            back.cancel()

    async def _repeat_request(self, frame: bytes) -> None:
        """Deliver it again, as a network that lost the first answer would have a client do."""
        if self._target is None:
            return
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection(*self._target)
            try:
                writer.write(frame)
                await _read_frame(reader)
                self.harm.requests_repeated += 1
            finally:
                await _close(writer)

    async def _answers(
        self, broker: asyncio.StreamReader, to_client: asyncio.StreamWriter, kinds: asyncio.Queue[int]
    ) -> None:
        while True:
            frame = await _read_frame(broker)
            if await kinds.get() == ApiKey.PRODUCE:
                chance = self._dice.random()
                if chance < self._lose:
                    self.harm.answers_lost += 1
                    raise ConnectionResetError("the answer was lost on purpose")
                if chance < self._lose + self._delay:
                    self.harm.answers_delayed += 1
                    await asyncio.sleep(self._dice.random() * _DELAY_SECONDS_MAX)
            to_client.write(frame)
            await to_client.drain()


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    prefix = await reader.readexactly(_LENGTH.size)
    (size,) = _LENGTH.unpack(prefix)
    if not 0 <= size <= SOCKET_REQUEST_MAX_BYTES:
        raise FrameTooLargeError(f"a frame of {size} bytes, at most {SOCKET_REQUEST_MAX_BYTES} are relayed")
    return prefix + await reader.readexactly(size)


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()

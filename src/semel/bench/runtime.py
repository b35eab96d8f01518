"""The overhead of the runtime layer over bare calls of the operating system.

Role.   Ours is the runtime's door, the peer is the same work without it: a file, a clock, a listener that echoes.
Rules.  * The target is "nothing that shows": an indirection costs once per batch or request, never per record.
        * Both sides of the echo speak the same frames over the same loopback with the same client; the bare side
          is a `BufferedProtocol` that only echoes: no bounds, no order of late replies, no idle timeout, no counters.
"""

import asyncio
import atexit
import os
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, cast

from semel.bench.measure import Comparison, Subject
from semel.net.inbound import InboundConnection
from semel.net.listener import Listener
from semel.net.reply import Reply
from semel.runtime.bundle import real_runtime
from semel.runtime.clock import RealClock
from semel.runtime.files import RealFiles
from semel.types import BytesLike

_BATCH_BYTES: Final = 16 * 1024
_SMALL_BYTES: Final = 200
_CALLS: Final = 1000
_REQUESTS: Final = 200
_PIPELINED: Final = 10
_LENGTH: Final = struct.Struct(">i")


def comparisons() -> list[Comparison]:
    return [
        _file_write("Write a batch of 16 KiB to a file", _BATCH_BYTES),
        _file_write("Write a batch of 200 B to a file", _SMALL_BYTES),
        _clock(),
        *_echoes(),
    ]


def _file_write(title: str, size: int) -> Comparison:
    """Both write the same place again and again: the page cache's own cost is the same for both."""
    with tempfile.NamedTemporaryFile(delete=False) as made:
        path = made.name
    atexit.register(os.unlink, path)
    file = RealFiles().open(path)
    descriptor = os.open(path, os.O_RDWR)
    atexit.register(file.close)
    atexit.register(os.close, descriptor)
    data = bytes(size)

    def ours() -> None:
        write_at = file.write_at
        for _ in range(_CALLS):
            write_at(0, data)

    def bare() -> None:
        pwrite = os.pwrite
        for _ in range(_CALLS):
            pwrite(descriptor, data, 0)

    return Comparison(
        title=title,
        unit="writes",
        units_per_run=_CALLS,
        bytes_per_run=_CALLS * size,
        subjects=[Subject("RealFile.write_at", ours), Subject("os.pwrite", bare)],
        target="nothing that shows",
    )


def _clock() -> Comparison:
    def ours() -> None:
        now_ms = RealClock().now_ms
        for _ in range(_CALLS):
            now_ms()

    def bare() -> None:
        now = time.time
        for _ in range(_CALLS):
            int(now() * 1000)

    return Comparison(
        title="Read the wall clock in milliseconds",
        unit="reads",
        units_per_run=_CALLS,
        subjects=[Subject("RealClock.now_ms", ours), Subject("int(time.time() * 1000)", bare)],
        target="nothing that shows",
    )


def _echoes() -> list[Comparison]:
    loop = _BackgroundLoop()
    ours = _Client(loop.call(_listen()))
    bare = _Client(loop.call(_listen_bare()))
    found = []
    for title, size, at_a_time in (
        ("Echo a request of 200 B, one at a time", _SMALL_BYTES, 1),
        (f"Echo requests of 200 B, {_PIPELINED} at a time", _SMALL_BYTES, _PIPELINED),
        ("Echo a request of 1 MB, one at a time", 1_000_000, 1),
    ):
        requests = _REQUESTS if size == _SMALL_BYTES else _REQUESTS // 10
        found.append(
            Comparison(
                title=title,
                unit="requests",
                units_per_run=requests,
                subjects=[
                    Subject("Listener", ours.exchange(size, requests, at_a_time)),
                    Subject("bare BufferedProtocol", bare.exchange(size, requests, at_a_time)),
                ],
                target="nothing that shows",
            )
        )
    return found


async def _listen() -> tuple[str, int]:
    listener = Listener(real_runtime(), _echo)
    return await listener.start("127.0.0.1", 0)


def _echo(request: bytearray, _: InboundConnection) -> Reply:
    reply: list[BytesLike] = [_LENGTH.pack(len(request)), request]
    return reply


async def _listen_bare() -> tuple[str, int]:
    server = await asyncio.get_running_loop().create_server(_BareEcho, "127.0.0.1", 0)
    address: tuple[str, int] = server.sockets[0].getsockname()
    return address


class _BareEcho(asyncio.BufferedProtocol):
    """Frames in, the same frames out, and nothing else: what any server of frames has to do."""

    def __init__(self) -> None:
        self._buffer = bytearray(16 * 1024)
        self._filled = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        return memoryview(self._buffer)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        position = 0
        replies: list[BytesLike] = []
        while self._filled - position >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._buffer, position)
            end = position + _LENGTH.size + size
            if end > self._filled:
                break
            frame = self._buffer[position + _LENGTH.size : end]
            replies += [_LENGTH.pack(size), frame]
            position = end
        if replies:
            self._transport.write(b"".join(replies))
        self._filled -= position
        if position:
            self._buffer[: self._filled] = self._buffer[position : position + self._filled]
        if self._filled >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._buffer, 0)
            if size + _LENGTH.size > len(self._buffer):
                self._buffer = self._buffer.ljust(size + _LENGTH.size, b"\0")


class _BackgroundLoop:
    """An event loop on a thread of its own, so that the client may block."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True, name="echo servers").start()

    def call(self, coroutine: Coroutine[Any, Any, tuple[str, int]]) -> tuple[str, int]:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


class _Client:
    """A blocking client."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(4 * 1024 * 1024)
        atexit.register(self._socket.close)

    def exchange(self, size: int, requests: int, at_a_time: int) -> Callable[[], None]:
        """A run that sends `requests` frames of `size` bytes and reads their answers."""
        sent = (_LENGTH.pack(size) + bytes(size)) * at_a_time

        def run() -> None:
            for _ in range(requests // at_a_time):
                self._socket.sendall(sent)
                left = len(sent)
                while left:
                    left -= self._socket.recv_into(self._buffer, min(left, len(self._buffer)))

        return run

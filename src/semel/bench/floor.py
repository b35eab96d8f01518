"""A server that decides nothing: the least that a request costs on this loop.

Role.   `python -m semel.bench.floor REQUEST_BYTES ANSWER_BYTES FILE` takes requests of one size, writes them to a file and
        answers each with as many bytes as asked for. `profile` measures it with the loader that loads the broker.
"""

import asyncio
import os
import sys
from typing import cast

import uvloop

_BUFFER_BYTES = 1 << 16
_LENGTH_BYTES = 4


class Floor(asyncio.BufferedProtocol):
    """One connection."""

    def __init__(self, request_bytes: int, answer: bytes, file: int) -> None:
        self._request_bytes = request_bytes
        self._answer = answer
        self._file = file
        self._buffer = bytearray(_BUFFER_BYTES)
        self._position = 0
        self._owed_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> bytearray:
        del sizehint
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._position += os.pwrite(self._file, memoryview(self._buffer)[:nbytes], self._position)
        answers, self._owed_bytes = divmod(self._owed_bytes + nbytes, self._request_bytes)
        if answers:
            self._transport.write(self._answer * answers)


async def serve(request_bytes: int, answer_bytes: int, path: str) -> None:
    """Until it is killed."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    answer = (answer_bytes - _LENGTH_BYTES).to_bytes(_LENGTH_BYTES, "big") + bytes(
        answer_bytes - _LENGTH_BYTES
    )
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Floor(request_bytes, answer, file), "127.0.0.1", 0)
    print(f"floor ready on 127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))

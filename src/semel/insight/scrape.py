"""A broker's metrics page, read for commands.

Role.   `scrape` asks HOST:PORT for GET /metrics as Prometheus would; a `Scraped` answers questions about it.
Rules.  * It goes through the runtime's network, so that it works in a simulation.
        * A page that takes longer than `PATIENCE_SECONDS`, or is larger than `PAGE_BYTES_MAX`, is given up.
"""

import asyncio
from typing import TYPE_CHECKING, Final, cast

from semel.broker.metrics.counts import Gap
from semel.broker.metrics.listener import PATH
from semel.broker.metrics.text import Sample, read_gaps, read_samples
from semel.errors import DisconnectedError

if TYPE_CHECKING:
    from semel.runtime.bundle import Runtime

PATIENCE_SECONDS: Final = 10.0
PAGE_BYTES_MAX: Final = 256 << 20


class Scraped:
    """The values of a page."""

    def __init__(self, where: str, text: str) -> None:
        self.where = where
        self.gaps: list[Gap] = read_gaps(text)
        self._samples: dict[str, list[Sample]] = {}
        for sample in read_samples(text):
            self._samples.setdefault(sample.name, []).append(sample)

    @property
    def is_of_semel(self) -> bool:
        return "semel_build_info" in self._samples

    def value(self, name: str) -> float:
        """The sum of a metric's values; 0 if it is not there."""
        return sum(sample.value for sample in self._samples.get(name, ()))

    def by_topic(self, name: str) -> dict[str, int]:
        """A metric's values by their topics."""
        return {sample.labels["topic"]: int(sample.value) for sample in self._samples.get(name, ())}


async def scrape(runtime: "Runtime", host: str, port: int) -> Scraped:
    """The page at an address; raises `DisconnectedError` if there is none."""
    where = f"http://{host}:{port}{PATH}"
    reader = _Reader()
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            transport, _ = await runtime.network.connect(lambda: reader, host, port)
            transport.write(
                f"GET {PATH} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode()
            )
            answer = await reader.all()
    except TimeoutError as error:
        raise DisconnectedError(f"{where} did not answer within {PATIENCE_SECONDS:g} s") from error
    except OSError as error:
        raise DisconnectedError(f"{where} cannot be reached: {error}") from error
    finally:
        reader.abort()
    head, _, body = answer.partition(b"\r\n\r\n")
    status = head.partition(b"\r\n")[0].decode("latin-1")
    if status.split(" ")[1:2] != ["200"]:
        raise DisconnectedError(f"{where} answered {status[:100]!r}, not with metrics")
    return Scraped(where, body.decode("utf-8", errors="replace"))


class _Reader(asyncio.Protocol):
    """Takes everything up to the end of the connection."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None
        self._done: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def all(self) -> bytes:
        return await self._done

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) > PAGE_BYTES_MAX:
            self._end(OSError(f"more than {PAGE_BYTES_MAX} bytes"))

    def connection_lost(self, error: Exception | None) -> None:
        self._end(error)

    def _end(self, error: Exception | None) -> None:
        if self._done.done():
            return
        if error is not None:
            self._done.set_exception(error)
        else:
            self._done.set_result(bytes(self._received))

"""A controller played by a function, behind the real listener, and the frames that Kafka's brokers sent to theirs."""

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from semel.core.cluster.versions import ADVERTISED
from semel.core.wire import framing
from semel.core.wire.api_versions import ServedApi, api_versions_response
from semel.core.wire.message import Request, Response
from semel.core.wire.registry import BY_KEY, ApiKey
from semel.net.inbound import InboundConnection
from semel.net.listener import Listener
from semel.net.reply import Reply
from semel.net.security import PLAINTEXT, Security
from semel.runtime.bundle import Runtime
from semel.types import Address

_RECORDING: Final = (
    Path(__file__).parents[2] / "core" / "wire" / "golden" / "frames-between-brokers-3.9.2.jsonl.gz"
)
_UNKNOWN_VERSION: Final = 99
Said: TypeAlias = Response | Awaitable[Response | None] | None


def golden_frame(title: str) -> bytes:
    """A recorded frame, by the title it has in the recording."""
    rows = map(json.loads, gzip.decompress(_RECORDING.read_bytes()).splitlines())
    (frame,) = [bytes.fromhex(row["frame"]) for row in rows if row["title"] == title]
    return frame


def without_correlation(frame: bytes) -> bytes:
    """A request whose correlation id is 0: it counts the requests of a connection."""
    return frame[:4] + bytes(4) + frame[8:]


@dataclass(frozen=True)
class LinkSettings:
    """Of the links of a broker to others."""

    client_id: str = "unused"
    request_timeout_ms: int = 5000
    socket_connection_setup_timeout_ms: int = 3000
    response_max_bytes: int = 1 << 20
    security: Security = PLAINTEXT


async def silence() -> None:
    """An answer that never comes."""
    await asyncio.Event().wait()


class ScriptedController:
    """Answers what `answer` says; None closes the connection. Keeps what it was asked, as bytes and as messages."""

    def __init__(
        self,
        answer: Callable[[Any], Said],
        *,
        served: Mapping[int, tuple[int, int]] = ADVERTISED,
        api_versions_last: int = 4,
    ) -> None:
        self.answer = answer
        self.served = tuple(ServedApi(key, *versions) for key, versions in served.items())
        self.api_versions_last = api_versions_last
        self.address = Address("", 0)
        """Where it listens."""
        self.frames: list[bytes] = []
        """Of every request but ApiVersions."""
        self.introductions: list[bytes] = []
        self.asked: list[Any] = []
        self.versions: list[tuple[int, int]] = []
        self.times: list[float] = []
        self.under_way_max = 0
        self._under_way = 0

    async def listen(self, runtime: Runtime, port: int) -> Listener:
        self._runtime = runtime
        listener = Listener(runtime, self._handle)
        self.address = Address(*await listener.start("127.0.0.1", port))
        return listener

    def _handle(self, frame: bytearray, connection: InboundConnection) -> Reply | Awaitable[Reply]:
        header, position = framing.read_request_header(frame)
        key, version = header.api_key, header.api_version
        self.versions.append((key, version))
        if key == ApiKey.API_VERSIONS:
            self.introductions.append(bytes(frame))
            known = version if version <= self.api_versions_last else _UNKNOWN_VERSION
            response, answered = api_versions_response(known, self.served)
            return framing.response_frame(header.correlation_id, response, answered)
        self.frames.append(bytes(frame))
        self.times.append(self._runtime.clock.monotonic())
        request: Request[Any] = BY_KEY[key].request.decode(frame, version, position)
        self.asked.append(request)
        return self._said(self.answer(request), header.correlation_id, version, connection)

    async def _said(
        self, said: Said, correlation_id: int, version: int, connection: InboundConnection
    ) -> Reply:
        self._under_way += 1
        self.under_way_max = max(self.under_way_max, self._under_way)
        try:
            answer = await said if isinstance(said, Awaitable) else said
        finally:
            self._under_way -= 1
        if answer is None:
            connection.abort()
            return None
        return framing.response_frame(correlation_id, answer, version)


FIRST: Final = Address("127.0.0.1", 9101)
SECOND: Final = Address("127.0.0.1", 9102)

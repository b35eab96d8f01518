"""A broker played by a function from request to answer, behind the real listener, in a simulation."""

from collections.abc import Callable, Coroutine
from typing import Any

from semel.client.cluster import Cluster
from semel.client.config import ClientConfig
from semel.core.wire import framing
from semel.core.wire.api_versions import ServedApi, advertised, api_versions_response
from semel.core.wire.message import Request, Response
from semel.core.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from semel.core.wire.registry import BY_KEY, ApiKey
from semel.errors import ErrorCode
from semel.net.inbound import InboundConnection
from semel.net.listener import Listener
from semel.net.reply import Reply
from semel.runtime.bundle import Runtime
from support.net.net_worlds import in_simulation

Answer = Callable[[Request[Any]], Response | None]


class FakeBroker:
    """Answers what `answer` says; None closes the connection. Keeps what it was asked, and in which version."""

    def __init__(
        self, answer: Answer, served: tuple[ServedApi, ...] | None = None, *, oldest: bool = False
    ) -> None:
        self.answer = answer
        self.served = advertised() if served is None else served
        self.oldest = oldest  # Knows ApiVersions 0 only.
        self.asked: list[Request[Any]] = []
        self.versions: list[tuple[int, int]] = []

    async def listen(self, runtime: Runtime, port: int = 9092) -> Listener:
        listener = Listener(runtime, self.handle)
        await listener.start("127.0.0.1", port)
        return listener

    def handle(self, frame: bytearray, connection: InboundConnection) -> Reply:
        header, position = framing.read_request_header(frame)
        key, version = header.api_key, header.api_version
        self.versions.append((key, version))
        if key == ApiKey.API_VERSIONS:
            known = 99 if self.oldest and version > 0 else version
            response, answered = api_versions_response(known, self.served)
            return framing.response_frame(header.correlation_id, response, answered)
        request = BY_KEY[key].request.decode(frame, version, position)
        self.asked.append(request)
        said = self.answer(request)
        if said is None:
            connection.abort()
            return None
        return framing.response_frame(header.correlation_id, said, version)


def metadata(*topics: MetadataResponseTopic, port: int = 9092) -> MetadataResponse:
    here = MetadataResponseBroker(node_id=1, host="127.0.0.1", port=port)
    return MetadataResponse(brokers=[here], cluster_id="c", controller_id=1, topics=list(topics))


def led(name: str, leader: int = 1) -> MetadataResponseTopic:
    return MetadataResponseTopic(name=name, partitions=[MetadataResponsePartition(leader_id=leader)])


def unknown(name: str) -> MetadataResponseTopic:
    return MetadataResponseTopic(name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def told(broker: FakeBroker, story: Callable[[Cluster], Coroutine[Any, Any, None]], **settings: str) -> None:
    """Tell a story with a client of this broker."""

    async def run(runtime: Runtime) -> None:
        listener = await broker.listen(runtime)
        given = {
            "bootstrap.servers": "127.0.0.1:9092",
            **{k.replace("_", "."): v for k, v in settings.items()},
        }
        async with Cluster(runtime, ClientConfig.of(given)) as cluster:
            await story(cluster)
        await listener.close()

    in_simulation(run)

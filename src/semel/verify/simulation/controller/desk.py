"""The model controller's desk: the port where brokers wish for things.

Role.   Serves ApiVersions, AlterPartition, AllocateProducerIds and ControlledShutdown. `decide` is the controller's: it answers
        each wish in its turn.
Rules.  * Anything else closes the connection.
        * Answers leave in the order of the requests of a connection.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

from semel.core.wire import framing
from semel.core.wire.api_versions import ServedApi, api_versions_response
from semel.core.wire.message import Request, Response
from semel.core.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from semel.core.wire.messages.alter_partition import AlterPartitionRequest
from semel.core.wire.messages.api_versions import ApiVersionsRequest
from semel.core.wire.messages.controlled_shutdown import ControlledShutdownRequest
from semel.core.wire.registry import ApiKey
from semel.errors import WireError
from semel.net.inbound import InboundConnection
from semel.net.listener import Listener
from semel.net.reply import Reply
from semel.runtime.bundle import Runtime

Wish: TypeAlias = AlterPartitionRequest | AllocateProducerIdsRequest | ControlledShutdownRequest
Decide: TypeAlias = Callable[[Wish], Awaitable[Response]]
_SERVED: Final = tuple(
    ServedApi(key, *versions)
    for key, versions in (
        (ApiKey.CONTROLLED_SHUTDOWN, (0, 3)),
        (ApiKey.API_VERSIONS, (0, 4)),
        (ApiKey.ALTER_PARTITION, (0, 3)),
        (ApiKey.ALLOCATE_PRODUCER_IDS, (0, 0)),
    )
)
_REQUESTS: Final[Mapping[int, type[Request[Response]]]] = {
    ApiKey.CONTROLLED_SHUTDOWN: ControlledShutdownRequest,
    ApiKey.ALTER_PARTITION: AlterPartitionRequest,
    ApiKey.ALLOCATE_PRODUCER_IDS: AllocateProducerIdsRequest,
}


class Desk:
    """The port of one controller's process."""

    def __init__(self, runtime: Runtime, decide: Decide) -> None:
        self._decide = decide
        self._listener = Listener(runtime, self._handle)

    async def open(self, host: str, port: int) -> None:
        await self._listener.start(host, port)

    def _handle(self, frame: bytearray, _connection: InboundConnection) -> Reply | Awaitable[Reply]:
        header, position = framing.read_request_header(frame)
        if header.api_key == ApiKey.API_VERSIONS:
            asked = None
            if header.api_version <= _SERVED[1].last:
                asked = ApiVersionsRequest.decode(frame, header.api_version, position)
            answer, version = api_versions_response(header.api_version, _SERVED, request=asked)
            return framing.response_frame(header.correlation_id, answer, version)
        kind = _REQUESTS.get(header.api_key)
        if kind is None:
            raise WireError(f"API {header.api_key} is not for a controller's desk")
        wish = kind.decode(frame, header.api_version, position)
        if not isinstance(wish, Wish):
            raise TypeError(f"{wish} is no wish")
        return self._answer(wish, header)

    async def _answer(self, wish: Wish, header: framing.RequestHeader) -> Reply:
        response = await self._decide(wish)
        return framing.response_frame(header.correlation_id, response, header.api_version)

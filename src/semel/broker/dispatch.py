"""From a frame to its handler and back: the broker's side of every request.

Role.   Reads the header, checks that the API and version are served, decodes, calls the handler, frames the answer.
Flow.   `net.inbound` calls `Dispatch.__call__` for every frame, in order; what it returns is sent in that order.
Rules.  * A handler is imported, and its messages compiled, when its API is first asked for.
        * ApiVersions of a version nobody knows is answered in version 0; any other API or version that is not served
          closes the connection, as Kafka does: there is no answer a client could read.
        * An answer that is ready is framed at once, without a task: that is the hot path.
"""

import importlib
from collections.abc import Awaitable, Callable
from typing import Any, Final

from semel.broker.context import BrokerContext, RequestContext
from semel.core.wire import framing
from semel.core.wire.api_versions import ServedApi, advertised, api_versions_response
from semel.core.wire.message import Request, Response
from semel.core.wire.registry import BY_KEY, Api, ApiKey
from semel.errors import WireError
from semel.net.inbound import InboundConnection
from semel.net.reply import Reply

_HANDLERS: Final = "semel.broker.handlers."
SERVED: Final[dict[ApiKey, str]] = {
    ApiKey.PRODUCE: "produce",
    ApiKey.FETCH: "fetch",
    ApiKey.LIST_OFFSETS: "list_offsets",
    ApiKey.METADATA: "metadata",
    ApiKey.FIND_COORDINATOR: "find_coordinator",
    ApiKey.API_VERSIONS: "api_versions",
    ApiKey.CREATE_TOPICS: "create_topics",
    ApiKey.DELETE_TOPICS: "delete_topics",
    ApiKey.DELETE_RECORDS: "delete_records",
    ApiKey.INIT_PRODUCER_ID: "init_producer_id",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "offset_for_leader_epoch",
    ApiKey.DESCRIBE_CONFIGS: "describe_configs",
    ApiKey.ALTER_CONFIGS: "alter_configs",
    ApiKey.DESCRIBE_LOG_DIRS: "describe_log_dirs",
    ApiKey.CREATE_PARTITIONS: "create_partitions",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "incremental_alter_configs",
    ApiKey.DESCRIBE_CLUSTER: "describe_cluster",
    ApiKey.DESCRIBE_PRODUCERS: "describe_producers",
    ApiKey.LIST_CONFIG_RESOURCES: "list_config_resources",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "describe_topic_partitions",
}
_Handle = Callable[..., Response | Awaitable[Response | None] | None]


def import_handlers() -> None:
    """Import every handler now, for processes where a late import on another thread would be trouble."""
    for module in SERVED.values():
        importlib.import_module(_HANDLERS + module)


class _Route:
    """An API that is served: how to read its requests and who answers them."""

    __slots__ = ("api", "handle", "has_records", "name", "request")

    def __init__(self, api: Api, module: str) -> None:
        self.api = api
        self.name = api.name
        self.request: type[Request[Any]] = api.request
        self.handle: _Handle = importlib.import_module(_HANDLERS + module).handle
        self.has_records = api.key is ApiKey.FETCH


class Dispatch:
    """The handler of every frame."""

    def __init__(self, broker: BrokerContext) -> None:
        self._broker = broker
        self._routes: dict[int, _Route] = {}
        self.served: tuple[ServedApi, ...] = advertised(BY_KEY[key] for key in SERVED)

    def __call__(self, frame: bytearray, connection: InboundConnection) -> Reply | Awaitable[Reply]:
        header, position = framing.read_request_header(frame)
        version = header.api_version
        route = self._routes.get(header.api_key) or self._route(header.api_key)
        if not route.api.serves(version):
            return self._unserved(route.api, version, header.correlation_id)
        request = route.request.decode(frame, version, position)
        self._broker.metrics.requests[route.name] += 1
        context = RequestContext(version, header.client_id, connection)
        if route.api.key is ApiKey.API_VERSIONS:
            answer = route.handle(self._broker, request, context, self.served)
        else:
            answer = route.handle(self._broker, request, context)
        if answer is None or isinstance(answer, Response):
            return _framed(answer, route, version, header.correlation_id)
        return self._later(answer, route, version, header.correlation_id)

    async def _later(
        self, answer: Awaitable[Response | None], route: _Route, version: int, correlation_id: int
    ) -> Reply:
        return _framed(await answer, route, version, correlation_id)

    def _route(self, key: int) -> _Route:
        module = SERVED.get(ApiKey(key)) if key in BY_KEY else None
        if module is None:
            raise WireError(f"API {key} is not served")
        route = self._routes[key] = _Route(BY_KEY[ApiKey(key)], module)
        return route

    def _unserved(self, api: Api, version: int, correlation_id: int) -> Reply:
        if api.key is not ApiKey.API_VERSIONS:
            raise WireError(f"{api.name} version {version} is not served, {api.first} to {api.last} are")
        response, answered = api_versions_response(version, self.served)
        return framing.response_frame(correlation_id, response, answered)


def _framed(answer: Response | None, route: _Route, version: int, correlation_id: int) -> Reply:
    if answer is None:
        return None
    if route.has_records:
        return framing.response_frame_parts(correlation_id, answer, version)
    return framing.response_frame(correlation_id, answer, version)

"""From a frame to its handler and back: the broker's side of every request.

Role.   Reads the header, checks that the API and version are served, decodes, calls the handler, frames the answer.
Flow.   `net.inbound` calls `Dispatch.__call__` for every frame, in order; what it returns is sent in that order.
        `apis` has a row for every API.
Rules.  * A handler is imported, and its messages compiled, when its API is first asked for.
        * ApiVersions of a version nobody knows is answered in version 0; any other API or version that is not served
          closes the connection, as Kafka does: there is no answer a client could read.
        * An answer that is ready is framed at once, without a task: that is the hot path.
        * A request of more than `ROWS_AT_ONCE` rows is decoded and framed on a thread and handled in portions, so that
          others have their turns. One of more than `ROWS_MAX` closes the connection.
"""

import importlib
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from semel.broker import apis
from semel.broker.context import RequestContext
from semel.broker.metrics.counts import RequestCounts
from semel.broker.metrics.errors import error_counter
from semel.broker.parts import Parts
from semel.broker.produce.shortcut import ProduceShortcut
from semel.broker.turns import Turns
from semel.core.cluster.versions import ADVERTISED
from semel.core.wire import framing, portions
from semel.core.wire.api_versions import ServedApi, api_versions_response
from semel.core.wire.message import Request, Response
from semel.core.wire.messages.produce import ProduceResponse
from semel.core.wire.registry import BY_KEY, Api, ApiKey
from semel.errors import TooManyRowsError, WireError
from semel.net.inbound import InboundConnection
from semel.net.reply import Exclusive, Reply

_SHARDS: Final = ("semel.core.groups.shard", "semel.core.transactions.coordinator.shard")
"""Modules that coordinators import with their first shard."""
ROWS_AT_ONCE: Final = 250
"""Elements of arrays that a request may have and still be handled within a turn: a few milliseconds of work."""
ROWS_MAX: Final = 50_000
"""Elements of arrays that a request may have at all: five times the partitions one broker is made for."""
ROWS_WHOLE_MAX: Final = 10_000
"""The same for APIs that decide about all rows together, and so in one turn."""
BYTES_AT_ONCE: Final = 1 << 20
"""Bytes of a request without records that are decoded on the loop."""
_Answer: TypeAlias = Response | Awaitable[Response | None] | Exclusive[Response | None] | None
_Handle = Callable[..., _Answer]


def import_handlers() -> None:
    """Import every handler and what they lead to now, for processes where a late import on another thread would be trouble."""
    for module in (*(row.module for row in apis.SERVED), *_SHARDS):
        importlib.import_module(module)


class _Route(RequestCounts):
    """A version of an API that is served: how to read its requests, who answers them, and how many there were."""

    __slots__ = (
        "broker",
        "bytes_max",
        "count_codes",
        "handle",
        "has_records",
        "is_api_versions",
        "is_produce",
        "request",
        "rows",
        "rows_max",
    )

    def __init__(self, row: apis.Row, version: int, parts: Parts) -> None:
        api = row.api
        super().__init__(api.name, version, parts.metrics)
        self.broker = getattr(parts, row.view)
        self.count_codes = error_counter(api.response, version)
        self.request: type[Request[Any]] = api.request
        self.handle: _Handle = row.handler()
        if row.is_decided and parts.membership is not None:
            from semel.broker.membership.deciding import Deciding

            self.handle = Deciding(parts.membership, row).handle
        self.has_records = api.key is ApiKey.FETCH
        self.is_api_versions = api.key is ApiKey.API_VERSIONS
        self.is_produce = api.key is ApiKey.PRODUCE
        self.rows = portions.rows_of(api.key, version)
        whole = self.rows is None and not row.pauses
        self.rows_max = row.rows_max or (ROWS_WHOLE_MAX if whole else ROWS_MAX)
        self.bytes_max = row.bytes_max


class Dispatch:
    """The handler of every frame that comes through one listener."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._runtime = parts.administration.runtime
        self._metrics = parts.metrics
        self._listener = parts.config.listener
        self._routes: dict[tuple[int, int], _Route] = {}
        self._read_header = framing.RequestHeaders().read
        self._shortcut = ProduceShortcut(parts.partitions, parts.metrics)
        self._limits = None if parts.membership is None else ADVERTISED
        self.served: tuple[ServedApi, ...] = apis.advertised(
            self._listener, parts.config.values, self._limits
        )

    def __call__(
        self, frame: bytearray, connection: InboundConnection
    ) -> Reply | Awaitable[Reply] | Exclusive[Reply]:
        key, version, correlation_id, client_id, position = self._read_header(frame)
        route = self._routes.get((key, version)) or self._route(key, version)
        if route is None:
            return self._unserved(BY_KEY[ApiKey(key)], version, correlation_id)
        route.requests += 1
        if route.is_produce:
            known = self._shortcut.answer(connection.identity, frame, version, correlation_id, position)
            if known is not None:
                return known
        route.taken_apart += 1
        context = RequestContext(version, client_id, connection, connection.identity)
        if len(frame) > BYTES_AT_ONCE and not route.is_produce:
            if route.bytes_max is not None and len(frame) > route.bytes_max:
                raise WireError(
                    f"{route.name} of {len(frame)} bytes, the most a broker takes is {route.bytes_max}: ask in several requests"
                )
            return Exclusive(self._in_turns(frame, route, context, correlation_id, position))
        try:
            request = route.request.decode(frame, version, position, rows_max=ROWS_AT_ONCE)
        except TooManyRowsError:
            return Exclusive(self._in_turns(frame, route, context, correlation_id, position))
        if route.is_api_versions:
            answer = route.handle(route.broker, request, context, self.served)
        else:
            answer = route.handle(route.broker, request, context)
        if answer is None or isinstance(answer, Response):
            if route.is_produce and isinstance(answer, ProduceResponse):
                self._shortcut.learn(context.identity, frame, version, position, answer)
            return _framed(answer, route, correlation_id)
        if isinstance(answer, Exclusive):
            if route.is_produce:
                return Exclusive(_framed_later(answer.answer, route, correlation_id))
            return Exclusive(self._framed_beside(answer.answer, route, context, correlation_id))
        return _framed_later(answer, route, correlation_id)

    async def _in_turns(
        self,
        frame: bytearray,
        route: _Route,
        context: RequestContext,
        correlation_id: int,
        position: int,
    ) -> Reply:
        """The reply to a request of many rows."""
        turns = Turns(self._runtime, context.connection.peer)
        request = await turns.heavy(_decoded, frame, route, position)
        if route.rows is None:
            answer = await _awaited(route.handle(route.broker, request, context))
        else:
            answer = await self._in_portions(request, route, route.rows, context, turns)
        if answer is not None and route.count_codes is not None:
            route.count_codes(answer, route.codes)
        return await turns.heavy(_frame_of, answer, route, correlation_id)

    async def _framed_beside(
        self,
        answer: Awaitable[Response | None],
        route: _Route,
        context: RequestContext,
        correlation_id: int,
    ) -> Reply:
        """The reply of a handler that took several turns: its answer may be large."""
        made = await answer
        if made is not None and route.count_codes is not None:
            route.count_codes(made, route.codes)
        turns = Turns(self._runtime, context.connection.peer)
        return await turns.heavy(_frame_of, made, route, correlation_id)

    async def _in_portions(
        self,
        request: Request[Any],
        route: _Route,
        rows: portions.Rows,
        context: RequestContext,
        turns: Turns,
    ) -> Response | None:
        whole: Response | None = None
        for portion in portions.portions(request, rows):
            await turns.breathe()
            answer = await _awaited(route.handle(route.broker, portion.request, context))
            if whole is None:
                whole = answer
            elif answer is not None:
                portions.join(whole, answer, rows, portion.joint)
        return whole

    def _route(self, key: int, version: int) -> _Route | None:
        """The way of an API's version, or None if this version is not served."""
        row = apis.row_of(key)
        limits = self._limits
        if row is None or not row.is_on(self._listener) or (limits is not None and key not in limits):
            raise WireError(f"API {key} is not served")
        if not row.serves(version, self._listener, limits):
            return None
        route = self._routes[key, version] = _Route(row, version, self._parts)
        return route

    def _unserved(self, api: Api, version: int, correlation_id: int) -> Reply:
        if api.key is not ApiKey.API_VERSIONS:
            raise WireError(f"{api.name} version {version} is not served, {api.first} to {api.last} are")
        response, answered = api_versions_response(version, self.served)
        self._metrics.codes_of(api.name)[response.error_code] += 1
        return framing.response_frame(correlation_id, response, answered)


def _decoded(frame: bytearray, route: _Route, position: int) -> Request[Any]:
    try:
        return route.request.decode(frame, route.version, position, rows_max=route.rows_max)
    except TooManyRowsError as error:
        raise WireError(f"{error}, the most a broker takes: ask in several requests") from None


async def _awaited(answer: _Answer) -> Response | None:
    if isinstance(answer, Exclusive):
        answer = answer.answer
    return answer if answer is None or isinstance(answer, Response) else await answer


async def _framed_later(answer: Awaitable[Response | None], route: _Route, correlation_id: int) -> Reply:
    return _framed(await answer, route, correlation_id)


def _framed(answer: Response | None, route: _Route, correlation_id: int) -> Reply:
    if answer is not None and route.count_codes is not None:
        route.count_codes(answer, route.codes)
    return _frame_of(answer, route, correlation_id)


def _frame_of(answer: Response | None, route: _Route, correlation_id: int) -> Reply:
    if answer is None:
        return None
    if route.has_records:
        return framing.response_frame_parts(correlation_id, answer, route.version)
    return framing.response_frame(correlation_id, answer, route.version)

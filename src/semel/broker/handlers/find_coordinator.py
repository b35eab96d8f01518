"""FindCoordinator (10), versions 0-6: which broker coordinates a group, a transactional id or a share group.

    0    groups only
    1+   transactional ids as well
    4+   many keys in one request, each with its own answer
    6+   share groups as well

The broker that leads a key's partition coordinates it. The topic a coordinator keeps its rows in is made when it is first asked for, and the
answer waits for that. Share groups are not served: their keys are checked, and nobody coordinates them.
"""

from collections.abc import Awaitable
from typing import Any, Final

from semel.broker.context import RequestContext
from semel.broker.coordinators.host import CoordinatorHost
from semel.broker.parts import Coordinators
from semel.core.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from semel.errors import ErrorCode, Refuse
from semel.types import TopicPartition

_GROUP: Final = 0
_TRANSACTION: Final = 1
_SHARE: Final = 2
_MANY_SINCE: Final = 4
_SHARE_SINCE: Final = 6
_NOBODY: Final = -1
_UNAVAILABLE: Final = Refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator is not available.")


def handle(
    broker: Coordinators, request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    """The broker that coordinates each key, or why nobody does, in the shape the version has."""
    keys = request.coordinator_keys if context.version >= _MANY_SINCE else [request.key]
    refused = _refusal(request.key_type, context.version)
    if refused is not None:
        return _answer([_refused_key(key, refused) for key in keys], context.version)
    if request.key_type == _SHARE and not all(_is_share_key(key) for key in keys):
        flaw = Refuse(ErrorCode.INVALID_REQUEST, "a share group's key is groupId:topicId:partition")
        return _answer([_refused_key(key, flaw) for key in keys], context.version)
    if request.key_type == _SHARE:
        return _answer([_refused_key(key, _UNAVAILABLE) for key in keys], context.version)
    host = (broker.groups if request.key_type == _GROUP else broker.transactions).host
    ready = host.ensure_topic()
    if isinstance(ready, ErrorCode):
        return _answer(_found(broker, host, keys, ready, context.listener.name), context.version)
    return _later(broker, host, keys, ready, context)


async def _later(
    broker: Coordinators,
    host: CoordinatorHost[Any, Any],
    keys: list[str],
    ready: Awaitable[ErrorCode],
    context: RequestContext,
) -> FindCoordinatorResponse:
    return _answer(_found(broker, host, keys, await ready, context.listener.name), context.version)


def _found(
    broker: Coordinators, host: CoordinatorHost[Any, Any], keys: list[str], code: ErrorCode, listener: str
) -> list[Coordinator]:
    """The leaders of these keys' partitions, if the topic is there and they can be reached through this listener."""
    if code:
        return [_refused_key(key, _UNAVAILABLE) for key in keys]
    image = broker.image
    found: list[Coordinator] = []
    for key in keys:
        state = image.partition(TopicPartition(host.topic, host.partition_of(key)))
        leader = None if state is None else image.brokers.get(state.leader)
        endpoint = None if leader is None else leader.on(listener)
        if leader is None or endpoint is None:
            found.append(_refused_key(key, _UNAVAILABLE))
        else:
            found.append(
                Coordinator(
                    key=key,
                    node_id=leader.broker_id,
                    host=endpoint.host,
                    port=endpoint.port,
                    error_message="",
                )
            )
    return found


def _refused_key(key: str, refused: Refuse) -> Coordinator:
    return Coordinator(
        key=key,
        node_id=_NOBODY,
        host="",
        port=_NOBODY,
        error_code=refused.code,
        error_message=refused.reason,
    )


def _refusal(key_type: int, version: int) -> Refuse | None:
    if key_type not in (_GROUP, _TRANSACTION, _SHARE):
        return Refuse(ErrorCode.INVALID_REQUEST, f"Unknown coordinator type received in request: {key_type}")
    if key_type == _SHARE and version < _SHARE_SINCE:
        return Refuse(
            ErrorCode.INVALID_REQUEST, f"share groups need FindCoordinator {_SHARE_SINCE}, this is {version}"
        )
    return None


def _is_share_key(key: str) -> bool:
    group_id, _, rest = key.partition(":")
    topic_id, _, partition = rest.partition(":")
    return bool(group_id and topic_id) and partition.isdecimal()


def _answer(found: list[Coordinator], version: int) -> FindCoordinatorResponse:
    if version >= _MANY_SINCE:
        return FindCoordinatorResponse(coordinators=found)
    (one,) = found
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )

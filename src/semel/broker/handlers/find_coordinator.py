"""FindCoordinator (10), versions 0-6: which broker coordinates a group, a transactional id or a share group.

    0    groups only
    1+   transactional ids as well
    4+   many keys in one request, each with its own answer
    6+   share groups as well

One broker coordinates everything. The topic a coordinator keeps its rows in is made when it is first asked for, and the
answer waits for that. Share groups are not served: their keys are checked, and nobody coordinates them.
"""

from collections.abc import Awaitable
from typing import Final

from semel.broker.context import BrokerContext, RequestContext
from semel.core.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from semel.errors import ErrorCode, Refuse

_GROUP: Final = 0
_TRANSACTION: Final = 1
_SHARE: Final = 2
_MANY_SINCE: Final = 4
_SHARE_SINCE: Final = 6
_NOBODY: Final = -1
_WORDS: Final = {ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available."}


def handle(
    broker: BrokerContext, request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    """This broker, or why nobody, in the shape the version has."""
    keys = request.coordinator_keys if context.version >= _MANY_SINCE else [request.key]
    refused = _refusal(request.key_type, context.version)
    if refused is not None:
        return _answer(broker, keys, context.version, refused)
    if request.key_type == _SHARE and not all(_is_share_key(key) for key in keys):
        flaw = "a share group's key is groupId:topicId:partition"
        return _answer(broker, keys, context.version, Refuse(ErrorCode.INVALID_REQUEST, flaw))
    ready = _ready(broker, request.key_type)
    if isinstance(ready, ErrorCode):
        return _answer(broker, keys, context.version, _refused(ready))
    return _later(broker, keys, context.version, ready)


def _ready(broker: BrokerContext, key_type: int) -> ErrorCode | Awaitable[ErrorCode]:
    """Whether the coordinator of these keys can be asked; its topic is made if need be."""
    if key_type == _GROUP:
        return broker.groups.host.ensure_topic()
    if key_type == _TRANSACTION:
        return broker.transactions.host.ensure_topic()
    return ErrorCode.COORDINATOR_NOT_AVAILABLE


async def _later(
    broker: BrokerContext, keys: list[str], version: int, ready: Awaitable[ErrorCode]
) -> FindCoordinatorResponse:
    return _answer(broker, keys, version, _refused(await ready))


def _refused(code: ErrorCode) -> Refuse | None:
    return Refuse(code, _WORDS[code]) if code else None


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


def _answer(
    broker: BrokerContext, keys: list[str], version: int, refused: Refuse | None
) -> FindCoordinatorResponse:
    if refused is not None:
        code, words, node_id, host, port = refused.code, refused.reason, _NOBODY, "", _NOBODY
    else:
        code, words, node_id, host, port = ErrorCode.NONE, "", broker.node_id, broker.host, broker.port
    if version < _MANY_SINCE:
        return FindCoordinatorResponse(
            error_code=code, error_message=words, node_id=node_id, host=host, port=port
        )
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(key=key, node_id=node_id, host=host, port=port, error_code=code, error_message=words)
            for key in keys
        ]
    )

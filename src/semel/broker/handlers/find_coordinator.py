"""FindCoordinator (10), versions 0-6: which broker coordinates a group, a transactional id or a share group.

    0    groups only
    1+   transactional ids as well
    4+   many keys in one request, each with its own answer
    6+   share groups as well

This broker coordinates nothing yet and says so: COORDINATOR_NOT_AVAILABLE, which a client may try again.
"""

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


def handle(
    broker: BrokerContext, request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse:
    """Nobody, in the shape the version has."""
    refused = _refusal(request.key_type, context.version)
    if context.version < _MANY_SINCE:
        return FindCoordinatorResponse(
            error_code=refused.code, error_message=refused.reason, node_id=_NOBODY, port=_NOBODY
        )
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(
                key=key, node_id=_NOBODY, port=_NOBODY, error_code=refused.code, error_message=refused.reason
            )
            for key in request.coordinator_keys
        ]
    )


def _refusal(key_type: int, version: int) -> Refuse:
    if key_type not in (_GROUP, _TRANSACTION, _SHARE):
        return Refuse(ErrorCode.INVALID_REQUEST, f"Unknown coordinator type received in request: {key_type}")
    if key_type == _SHARE and version < _SHARE_SINCE:
        return Refuse(
            ErrorCode.INVALID_REQUEST, f"share groups need FindCoordinator {_SHARE_SINCE}, this is {version}"
        )
    return Refuse(
        ErrorCode.COORDINATOR_NOT_AVAILABLE, "This broker coordinates no groups and no transactions yet."
    )

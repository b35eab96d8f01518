"""Heartbeat (12), versions 0-4: a classic group's member is alive.

    3+   static members, by group_instance_id

While groups are being loaded every heartbeat is good: sessions begin anew when that is done.
"""

from collections.abc import Awaitable

from semel.broker.context import RequestContext
from semel.broker.parts import Coordinators
from semel.core.coordination.outcome import Ticket
from semel.core.groups.group import GroupOutcome
from semel.core.groups.shard import GroupShard
from semel.core.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from semel.errors import ErrorCode


def handle(
    broker: Coordinators,
    request: HeartbeatRequest,
    context: RequestContext,
) -> HeartbeatResponse | Awaitable[HeartbeatResponse]:
    """Count the member's session anew, and tell it whether to join again."""

    def heartbeat(shard: GroupShard, ticket: Ticket, now_ms: int) -> GroupOutcome:
        return shard.heartbeat(request, ticket, now_ms)

    return broker.groups.ask(request.group_id, heartbeat, HeartbeatResponse, _refused)


def _refused(code: ErrorCode) -> HeartbeatResponse:
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        code = ErrorCode.NONE
    return HeartbeatResponse(error_code=code)

"""SyncGroup (14), versions 0-5: the leader hands in the assignment, every member gets its part.

    3+   static members, by group_instance_id
    5+   type and name of the protocol must be given, and are answered

The answer waits until the leader has handed in the assignment and the row that holds it is committed.
"""

from collections.abc import Awaitable

from semel.broker.context import RequestContext
from semel.broker.coordinators.caller import caller_of
from semel.broker.parts import Coordinators
from semel.core.coordination.outcome import Ticket
from semel.core.groups.group import GroupOutcome
from semel.core.groups.shard import GroupShard
from semel.core.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from semel.errors import ErrorCode


def handle(
    broker: Coordinators, request: SyncGroupRequest, context: RequestContext
) -> SyncGroupResponse | Awaitable[SyncGroupResponse]:
    """Let the group's coordinator decide, now or when the assignment is there."""
    caller = caller_of(context)

    def sync(shard: GroupShard, ticket: Ticket, now_ms: int) -> GroupOutcome:
        return shard.sync(request, ticket, caller, now_ms)

    return broker.groups.ask(request.group_id, sync, SyncGroupResponse, _refused)


def _refused(code: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code)

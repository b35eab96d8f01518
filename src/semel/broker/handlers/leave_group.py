"""LeaveGroup (13), versions 0-5: members leave a classic group.

0-2  one member, by its id
3+   many, each with its own answer; static ones by their instance ids alone, as an administrator does
"""

from collections.abc import Awaitable

from semel.broker.context import RequestContext
from semel.broker.coordinators.caller import caller_of
from semel.broker.parts import Coordinators
from semel.core.coordination.outcome import Ticket
from semel.core.groups.group import GroupOutcome
from semel.core.groups.shard import GroupShard
from semel.core.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from semel.errors import ErrorCode


def handle(
    broker: Coordinators, request: LeaveGroupRequest, context: RequestContext
) -> LeaveGroupResponse | Awaitable[LeaveGroupResponse]:
    """Take the members out; the others are told by their next heartbeats."""
    caller = caller_of(context)

    def leave(shard: GroupShard, ticket: Ticket, now_ms: int) -> GroupOutcome:
        return shard.leave(request, ticket, caller, now_ms)

    return broker.groups.ask(request.group_id, leave, LeaveGroupResponse, _refused)


def _refused(code: ErrorCode) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=code)

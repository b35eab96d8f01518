"""JoinGroup (11), versions 0-9: enter a classic group's next generation.

    0    the session timeout is the rebalance timeout as well
    4+   a dynamic member without an id is sent away with one: MEMBER_ID_REQUIRED
    5+   static members, by group_instance_id
    7+   the protocol type is answered; no protocol is null, before that the empty string
    9+   a static leader that comes back is told to skip the assignment

The answer waits until the rebalance has ended.
"""

from collections.abc import Awaitable
from typing import Final

from semel.broker.context import RequestContext
from semel.broker.coordinators.caller import caller_of
from semel.broker.parts import Coordinators
from semel.core.coordination.outcome import Ticket
from semel.core.groups.group import GroupOutcome
from semel.core.groups.shard import GroupShard
from semel.core.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from semel.errors import ErrorCode
from semel.runtime.randomness import random_uuid

_NULL_SINCE: Final = 7


def handle(
    broker: Coordinators, request: JoinGroupRequest, context: RequestContext
) -> JoinGroupResponse | Awaitable[JoinGroupResponse]:
    """Let the group's coordinator decide, now or when the rebalance has ended."""
    caller = caller_of(context)
    unique = "" if request.member_id else str(random_uuid(broker.runtime.dice))

    def join(shard: GroupShard, ticket: Ticket, now_ms: int) -> GroupOutcome:
        return shard.join(request, ticket, caller, now_ms, unique=unique)

    def refused(code: ErrorCode) -> JoinGroupResponse:
        return JoinGroupResponse(error_code=code, member_id=request.member_id, protocol_name=None)

    answer = broker.groups.ask(request.group_id, join, JoinGroupResponse, refused)
    if context.version >= _NULL_SINCE:
        return answer
    return _without_null(answer) if isinstance(answer, JoinGroupResponse) else _later(answer)


async def _later(answer: Awaitable[JoinGroupResponse]) -> JoinGroupResponse:
    return _without_null(await answer)


def _without_null(response: JoinGroupResponse) -> JoinGroupResponse:
    if response.protocol_name is None:
        response.protocol_name = ""
    return response

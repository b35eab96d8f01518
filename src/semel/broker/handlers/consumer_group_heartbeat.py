"""ConsumerGroupHeartbeat (68), versions 0-1: a KIP-848 group's member joins, lives on or leaves.

0    a member that joins may leave its id out: it gets one
1    the client makes its own id; subscriptions by regular expression
"""

import base64
from collections.abc import Awaitable

from semel.broker import features
from semel.broker.context import RequestContext
from semel.broker.coordinators.caller import caller_of
from semel.broker.parts import Coordinators
from semel.core.coordination.outcome import Ticket
from semel.core.groups.consumer.checks import request_flaw
from semel.core.groups.group import GroupOutcome
from semel.core.groups.shard import GroupShard
from semel.core.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from semel.errors import ErrorCode
from semel.runtime.randomness import random_uuid


def handle(
    broker: Coordinators, request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> ConsumerGroupHeartbeatResponse | Awaitable[ConsumerGroupHeartbeatResponse]:
    """Refuse what cannot be meant, and let the group's coordinator decide the rest."""
    if not features.level(broker.image, features.GROUP_VERSION):
        return _refused(ErrorCode.UNSUPPORTED_VERSION)
    flaw = request_flaw(request, context.version, broker.groups.settings.group_consumer_assignors)
    if flaw is not None:
        return ConsumerGroupHeartbeatResponse(error_code=flaw.code, error_message=flaw.message)
    caller = caller_of(context)
    new_member_id = "" if request.member_id else _member_id(broker)

    def heartbeat(shard: GroupShard, ticket: Ticket, now_ms: int) -> GroupOutcome:
        return shard.consumer.heartbeat(request, ticket, caller, now_ms, new_member_id=new_member_id)

    return broker.groups.ask(request.group_id, heartbeat, ConsumerGroupHeartbeatResponse, _refused)


def _member_id(broker: Coordinators) -> str:
    """An id as Kafka writes them."""
    return base64.urlsafe_b64encode(random_uuid(broker.runtime.dice).bytes).rstrip(b"=").decode()


def _refused(code: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code)

"""OffsetDelete (47), version 0: forget a group's offsets of some partitions.

Offsets of topics that a member of the group reads are kept: GROUP_SUBSCRIBED_TO_TOPIC. A group with members that does not say what they
read is refused as a whole.
"""

from collections.abc import Awaitable

from semel.broker.context import RequestContext
from semel.broker.parts import Coordinators
from semel.core.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from semel.errors import ErrorCode


def handle(
    broker: Coordinators, request: OffsetDeleteRequest, context: RequestContext
) -> OffsetDeleteResponse | Awaitable[OffsetDeleteResponse]:
    """Forget what may be forgotten."""
    if not request.group_id:
        return OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    return broker.groups.ask(
        request.group_id,
        lambda shard, ticket, _now_ms: shard.delete_offsets(request, ticket),
        OffsetDeleteResponse,
        lambda code: OffsetDeleteResponse(error_code=code),
    )

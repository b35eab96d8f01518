"""AllocateProducerIds (67), version 0: a broker asks the controller for a block of producer ids.

A broker that is not the controller says so.
"""

from semel.broker.context import RequestContext
from semel.broker.parts import Membership
from semel.cluster.controller.loop import NotActiveError
from semel.core.cluster.controller import events
from semel.core.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from semel.errors import ErrorCode


async def handle(
    broker: Membership, request: AllocateProducerIdsRequest, context: RequestContext
) -> AllocateProducerIdsResponse:
    """Have the controller decide."""
    try:
        answer: AllocateProducerIdsResponse = await broker.ask_controller(events.AllocateProducerIds(request))
    except NotActiveError:
        return AllocateProducerIdsResponse(error_code=ErrorCode.NOT_CONTROLLER)
    return answer

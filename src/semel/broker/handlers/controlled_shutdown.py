"""ControlledShutdown (7), versions 0-3: a broker that stops asks the controller to move what it leads.

A broker that is not the controller answers STALE_CONTROLLER_EPOCH, as Kafka's do.
"""

from semel.broker.context import RequestContext
from semel.broker.parts import Membership
from semel.cluster.controller.loop import NotActiveError
from semel.core.cluster.controller import events
from semel.core.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from semel.errors import ErrorCode


async def handle(
    broker: Membership, request: ControlledShutdownRequest, context: RequestContext
) -> ControlledShutdownResponse:
    """Have the controller decide."""
    try:
        answer: ControlledShutdownResponse = await broker.ask_controller(events.ControlledShutdown(request))
    except NotActiveError:
        return ControlledShutdownResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)
    return answer

"""AlterPartition (56), versions 0-3: a leader asks the controller for another ISR.

A broker that is not the controller says so: the leader looks the controller up.
"""

from semel.broker.context import RequestContext
from semel.broker.parts import Membership
from semel.cluster.controller.loop import NotActiveError
from semel.core.cluster.controller import events
from semel.core.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from semel.errors import ErrorCode


async def handle(
    broker: Membership, request: AlterPartitionRequest, context: RequestContext
) -> AlterPartitionResponse:
    """Have the controller decide."""
    try:
        answer: AlterPartitionResponse = await broker.ask_controller(
            events.AlterPartitionReceived(request, context.version)
        )
    except NotActiveError:
        return AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER)
    return answer

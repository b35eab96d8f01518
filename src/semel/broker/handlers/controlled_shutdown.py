"""ControlledShutdown (7), versions 0-3: a broker that stops asks the controller to move what it leads.

This broker is never the controller of its cluster (`semel.controller.eligible=false`). Kafka's answer is then STALE_CONTROLLER_EPOCH.
"""

from semel.broker.context import RequestContext
from semel.broker.parts import Membership
from semel.core.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from semel.errors import ErrorCode


def handle(
    broker: Membership, request: ControlledShutdownRequest, context: RequestContext
) -> ControlledShutdownResponse:
    """Not here."""
    return ControlledShutdownResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)

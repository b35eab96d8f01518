"""AllocateProducerIds (67), version 0: a broker asks the controller for a block of producer ids.

This broker is never the controller of its cluster (`semel.controller.eligible=false`), and says so.
"""

from semel.broker.context import RequestContext
from semel.broker.parts import Membership
from semel.core.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from semel.errors import ErrorCode


def handle(
    broker: Membership, request: AllocateProducerIdsRequest, context: RequestContext
) -> AllocateProducerIdsResponse:
    """Not here."""
    return AllocateProducerIdsResponse(error_code=ErrorCode.NOT_CONTROLLER)

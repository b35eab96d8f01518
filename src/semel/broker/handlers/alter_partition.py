"""AlterPartition (56), versions 0-3: a leader asks the controller for another ISR.

This broker is never the controller of its cluster (`semel.controller.eligible=false`), and says so: the leader looks the controller up.
"""

from semel.broker.context import RequestContext
from semel.broker.parts import Membership
from semel.core.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from semel.errors import ErrorCode


def handle(
    broker: Membership, request: AlterPartitionRequest, context: RequestContext
) -> AlterPartitionResponse:
    """Not here."""
    return AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER)

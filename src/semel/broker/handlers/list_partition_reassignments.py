"""ListPartitionReassignments (46), version 0: partitions on their way to other brokers. On a single broker there are none."""

from semel.broker.context import RequestContext
from semel.broker.parts import Administration
from semel.core.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def handle(
    broker: Administration, request: ListPartitionReassignmentsRequest, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    """Nothing moves."""
    return ListPartitionReassignmentsResponse(error_message=None)

"""ListPartitionReassignments (46), version 0: partitions on their way to other brokers. On a single broker there are none."""

from semel.broker.context import BrokerContext, RequestContext
from semel.core.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def handle(
    broker: BrokerContext, request: ListPartitionReassignmentsRequest, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    """Nothing moves."""
    return ListPartitionReassignmentsResponse(error_message=None)

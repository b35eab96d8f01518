"""DescribeCluster (60), versions 0-2: the cluster's id, controller and brokers.

1+  the client says whether it means brokers or controllers: here are brokers
2+  fenced brokers may be asked for: there are none
"""

from typing import Final

from semel.broker.context import RequestContext
from semel.broker.parts import Administration
from semel.core.security.operations import CLUSTER_OPERATIONS, UNASKED
from semel.core.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from semel.errors import ErrorCode

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


def handle(
    broker: Administration, request: DescribeClusterRequest, context: RequestContext
) -> DescribeClusterResponse:
    """The brokers that are there."""
    if request.endpoint_type == _CONTROLLERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        )
    if request.endpoint_type != _BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"Unsupported endpoint type {request.endpoint_type}",
        )
    return DescribeClusterResponse(
        endpoint_type=_BROKERS,
        cluster_id=broker.cluster_id,
        controller_id=broker.store.image.controller_id,
        brokers=[
            DescribeClusterBroker(
                broker_id=one.broker_id, host=endpoint.host, port=endpoint.port, rack=one.rack
            )
            for one in broker.store.image.brokers.values()
            if (endpoint := one.on(context.listener.name)) is not None
        ],
        cluster_authorized_operations=CLUSTER_OPERATIONS
        if request.include_cluster_authorized_operations
        else UNASKED,
    )

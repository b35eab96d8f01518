"""ListConfigResources (74), versions 0-1: what has settings.

0    client metrics only, of which there are none
1    the kinds that are named; all of them if none is
"""

from collections.abc import Mapping

from semel.broker.context import RequestContext
from semel.broker.parts import Administration
from semel.core.metadata.config_types import ResourceType
from semel.core.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from semel.errors import ErrorCode

_CLIENT_METRICS_ONLY = 0


def handle(
    broker: Administration, request: ListConfigResourcesRequest, context: RequestContext
) -> ListConfigResourcesResponse:
    """Name what there is of each kind; client metrics there are none."""
    wanted = set(request.resource_types) or set(ResourceType)
    if context.version == _CLIENT_METRICS_ONLY:
        wanted = {ResourceType.CLIENT_METRICS}
    if not wanted <= set(ResourceType):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    names: Mapping[ResourceType, list[str]] = {
        ResourceType.BROKER: [str(broker.node_id)],
        ResourceType.TOPIC: [row.name for row in broker.store.image],
        ResourceType.BROKER_LOGGER: [str(broker.node_id)],
        ResourceType.GROUP: sorted(broker.store.image.group_configs),
    }
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind, found in names.items()
            if kind in wanted
            for name in found
        ]
    )

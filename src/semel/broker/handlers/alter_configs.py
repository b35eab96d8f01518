"""AlterConfigs (33), versions 0-2: replace all settings of a topic or a broker.

A setting that is not named goes back to its default: clients use IncrementalAlterConfigs instead.
"""

from semel.broker.context import RequestContext
from semel.broker.parts import Administration
from semel.broker.reconfiguration import Resource, alter
from semel.core.metadata.config_changes import Change
from semel.core.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from semel.errors import ErrorCode


async def handle(
    broker: Administration, request: AlterConfigsRequest, context: RequestContext
) -> AlterConfigsResponse:
    """Replace the settings of every resource that may have the new ones."""
    resources = [
        Resource(
            type=one.resource_type,
            name=one.resource_name,
            changes=[Change(config.name, config.value) for config in one.configs],
            replace=True,
        )
        for one in request.resources
    ]
    outcomes = await alter(broker, resources, validate_only=request.validate_only)
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=ErrorCode.NONE if refused is None else refused.code,
                error_message=None if refused is None else refused.reason,
                resource_type=resource.type,
                resource_name=resource.name,
            )
            for resource, refused in zip(resources, outcomes, strict=True)
        ]
    )

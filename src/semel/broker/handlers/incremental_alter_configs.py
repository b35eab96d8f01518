"""IncrementalAlterConfigs (44), versions 0-1: set, delete, append to or subtract from single settings."""

from semel.broker.context import RequestContext
from semel.broker.parts import Administration
from semel.broker.reconfiguration import Resource, alter
from semel.core.metadata.config_changes import Change
from semel.core.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from semel.errors import ErrorCode


async def handle(
    broker: Administration, request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    """Change the settings that are named and leave the others."""
    resources = [
        Resource(
            type=one.resource_type,
            name=one.resource_name,
            changes=[Change(config.name, config.value, config.config_operation) for config in one.configs],
        )
        for one in request.resources
    ]
    outcomes = await alter(broker, resources, validate_only=request.validate_only)
    return IncrementalAlterConfigsResponse(
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

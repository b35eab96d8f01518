"""IncrementalAlterConfigs: settings changed, by a broker for its own and by the controller for the rest."""

from collections.abc import Mapping

from semel.client.calls.describe_configs import Resource, config_refusal, responsible
from semel.client.calls.routing import controller, ordered, pass_on
from semel.client.cluster import Cluster
from semel.client.values.administration import OpType
from semel.core.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
)


async def alter_configs(
    cluster: Cluster, resource: Resource, name: str, changes: Mapping[str, str | None]
) -> None:
    """Set settings; None puts one back to its default."""
    configs = [
        AlterableConfig(
            name=key, config_operation=OpType.DELETE if value is None else OpType.SET, value=value
        )
        for key, value in changes.items()
    ]
    asked = AlterConfigsResource(resource_type=resource, resource_name=name, configs=configs)
    for one in await altered_configs(cluster, [asked], node_id=responsible(resource, name)):
        if one.error_code:
            raise config_refusal(cluster, resource.name, name, one.error_code, one.error_message)


async def altered_configs(
    cluster: Cluster, changes: list[AlterConfigsResource], *, node_id: int | None, validate_only: bool = False
) -> list[AlterConfigsResourceResponse]:
    """The answer to changes of settings, by a broker or (None) by the controller."""
    request = IncrementalAlterConfigsRequest(resources=changes, validate_only=validate_only)

    async def order() -> list[AlterConfigsResourceResponse]:
        addressee = await controller(cluster) if node_id is None else node_id
        answer = await cluster.send(request, node_id=addressee)
        pass_on(cluster, [one.error_code for one in answer.responses])
        return answer.responses

    return await ordered(cluster, order)

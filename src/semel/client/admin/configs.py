"""Calls about settings of topics, brokers and groups.

Role.   The part of the admin client that shows and changes settings.
Rules.  A broker answers for its own settings itself; for the rest anyone, and changes go to the controller.
"""

# ruff: noqa: N815 - the aliases are Java's names.

from collections.abc import Iterable, Mapping
from typing import Final

from semel.client import arguments
from semel.client.admin.core import AdminCore, public, settled
from semel.client.admin.tables import Answers, Listing
from semel.client.calls.alter_configs import altered_configs
from semel.client.calls.describe_configs import config_entry, config_refusal, described_configs
from semel.client.values.administration import (
    AlterConfigOp,
    ConfigEntry,
    ConfigResource,
    ConfigResourceType,
    OpType,
)
from semel.core.wire.messages.describe_configs import (
    DescribeConfigsResource,
)
from semel.core.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
)
from semel.core.wire.messages.list_config_resources import ListConfigResourcesRequest
from semel.errors import SemelError, refused
from semel.exceptions import IllegalArgumentException
from semel.words import shown

_OWN: Final = (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER)

Changes = Mapping[str, str | None] | Iterable[AlterConfigOp]
"""Settings and their new values, None for the default; or operations."""


class ConfigCalls(AdminCore):
    """Settings."""

    @public
    async def describe_configs(
        self,
        resources: ConfigResource | Iterable[ConfigResource],
        *,
        keys: Iterable[str] | None = None,
        include_documentation: bool = False,
    ) -> Answers[ConfigResource, Answers[str, ConfigEntry]]:
        """Every setting of these resources, or those named by `keys`, with where its value comes from."""
        wanted = _resources(resources)
        asked = None if keys is None else arguments.names(keys, "keys")
        found: dict[ConfigResource, Answers[str, ConfigEntry] | SemelError] = {}
        for node_id, some in _by_node(wanted).items():
            results = await described_configs(
                self._cluster,
                [
                    DescribeConfigsResource(
                        resource_type=one.type, resource_name=one.name, configuration_keys=asked
                    )
                    for one in some
                ],
                node_id=node_id,
                documented=include_documentation,
            )
            for result in results:
                one = ConfigResource(ConfigResourceType(result.resource_type), result.resource_name)
                entries = sorted(result.configs, key=lambda entry: entry.name)
                found[one] = self._refusal(one, result.error_code, result.error_message) or Answers(
                    {entry.name: config_entry(entry) for entry in entries}
                )
        return settled({one: found[one] for one in wanted})

    @public
    async def incremental_alter_configs(
        self, changes: Mapping[ConfigResource, Changes], *, validate_only: bool = False
    ) -> None:
        """Change settings, by resource: `{resource: {"retention.ms": "1000", "cleanup.policy": None}}` or operations."""
        accepted = "a mapping of resources to settings"
        wanted = {
            _resource(one): _operations(given)
            for one, given in arguments.mapped("changes", changes, accepted).items()
        }
        answers: dict[ConfigResource, SemelError | None] = {}
        for node_id, some in _by_node(wanted).items():
            results = await altered_configs(
                self._cluster,
                [
                    AlterConfigsResource(
                        resource_type=one.type,
                        resource_name=one.name,
                        configs=[
                            AlterableConfig(name=each.name, config_operation=each.op, value=each.value)
                            for each in wanted[one]
                        ],
                    )
                    for one in some
                ],
                node_id=node_id,
                validate_only=validate_only,
            )
            for result in results:
                one = ConfigResource(ConfigResourceType(result.resource_type), result.resource_name)
                answers[one] = self._refusal(one, result.error_code, result.error_message)
        settled(answers)

    def _refusal(self, one: ConfigResource, number: int, reason: str | None) -> SemelError | None:
        if not number:
            return None
        return config_refusal(self._cluster, one.type.name, one.name, number, reason)

    @public
    async def list_config_resources(
        self, types: Iterable[ConfigResourceType] = ()
    ) -> Listing[ConfigResource]:
        """The resources with settings of their own, of these types or of all the broker lists."""
        request = ListConfigResourcesRequest(resource_types=list(types))
        cluster = self._cluster

        async def ask() -> Listing[ConfigResource]:
            answer = await cluster.send(request)
            if answer.error_code:
                raise refused(answer.error_code, "to list what has settings", by=cluster.where)
            return Listing(
                sorted(
                    ConfigResource(ConfigResourceType(one.resource_type), one.resource_name)
                    for one in answer.config_resources
                )
            )

        return await cluster.patiently(ask)

    @public
    async def list_client_metrics_resources(self) -> Listing[ConfigResource]:
        """The resources with settings for clients' metrics."""
        return await self.list_config_resources([ConfigResourceType.CLIENT_METRICS])

    describeConfigs = describe_configs
    incrementalAlterConfigs = incremental_alter_configs
    listConfigResources = list_config_resources
    listClientMetricsResources = list_client_metrics_resources


def _resources(given: ConfigResource | Iterable[ConfigResource]) -> list[ConfigResource]:
    if isinstance(given, ConfigResource):
        return [given]
    accepted = "a ConfigResource, or a list of them"
    return list(dict.fromkeys(_resource(one) for one in arguments.listed("resources", given, accepted)))


def _resource(given: object) -> ConfigResource:
    """A resource, or the pair of its type and its name."""
    if isinstance(given, tuple | list) and len(given) == 2:
        number, name = given
        known = isinstance(number, int) and number in ConfigResourceType.__members__.values()
        if known and isinstance(name, str):
            return ConfigResource(ConfigResourceType(number), name)
    raise IllegalArgumentException(
        f"{shown(given)} is not a resource: use ConfigResource(ConfigResourceType.TOPIC, 'orders') or the like"
    )


def _by_node(resources: Iterable[ConfigResource]) -> dict[int | None, list[ConfigResource]]:
    """The resources by the broker that answers for them: None is any broker, or the controller."""
    grouped: dict[int | None, list[ConfigResource]] = {}
    for one in resources:
        if one.type in _OWN and one.name and not one.name.isdecimal():
            raise IllegalArgumentException(
                f"{one.name!r} is not a broker: use its number, or '' for all of them"
            )
        grouped.setdefault(int(one.name) if one.type in _OWN and one.name else None, []).append(one)
    return grouped


def _operations(given: Changes) -> list[AlterConfigOp]:
    if isinstance(given, Mapping):
        return [
            AlterConfigOp(name, value, OpType.DELETE if value is None else OpType.SET)
            for name, value in given.items()
        ]
    operations = arguments.listed("changes", given, "settings by name, or a list of AlterConfigOp")
    for one in operations:
        if not isinstance(one, AlterConfigOp):
            raise arguments.refused("changes", one, "an AlterConfigOp, or settings by name")
    return operations

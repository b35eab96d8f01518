"""DescribeConfigs: the settings of topics, brokers and groups, with where their values come from."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final

from semel.client.cluster import Cluster
from semel.client.values.administration import ConfigEntry
from semel.core.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
)
from semel.errors import ErrorCode, RefusedError, error_code, refused

_SOURCES: Final[Mapping[int, str]] = {
    1: "topic",
    2: "broker, dynamic",
    3: "all brokers, dynamic",
    4: "broker, static",
    5: "default",
    6: "broker logger",
    7: "client metrics",
    8: "group",
}
_DEFAULT_SOURCE: Final = 5


class Resource(IntEnum):
    """The kinds of resources with settings."""

    TOPIC = 2
    BROKER = 4


async def describe_configs(
    cluster: Cluster,
    resource: Resource,
    name: str,
    keys: Sequence[str] | None = None,
    *,
    documented: bool = False,
) -> list[ConfigEntry]:
    """The settings of a topic or broker, by name; with what the broker says about each if it shall be `documented`."""
    asked = DescribeConfigsResource(
        resource_type=resource, resource_name=name, configuration_keys=None if keys is None else list(keys)
    )
    (result,) = await described_configs(
        cluster, [asked], node_id=responsible(resource, name), documented=documented
    )
    if result.error_code:
        raise config_refusal(cluster, resource.name, name, result.error_code, result.error_message)
    return sorted((config_entry(one) for one in result.configs), key=lambda one: one.name)


async def described_configs(
    cluster: Cluster, asked: list[DescribeConfigsResource], *, node_id: int | None, documented: bool = False
) -> list[DescribeConfigsResult]:
    """A broker's answer about the settings of each of these."""
    request = DescribeConfigsRequest(resources=asked, include_documentation=documented)

    async def ask() -> list[DescribeConfigsResult]:
        results = (await cluster.send(request, node_id=node_id)).results
        for one in results:
            code = error_code(one.error_code)
            if code.retriable and code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise refused(code, "to describe settings", by=cluster.where, reason=one.error_message)
        return results

    return await cluster.patiently(ask)


def config_entry(one: DescribeConfigsResourceResult) -> ConfigEntry:
    """A setting, as a broker describes it."""
    return ConfigEntry(
        name=one.name,
        value=one.value,
        source=_SOURCES.get(one.config_source, f"source {one.config_source}"),
        is_default=one.config_source == _DEFAULT_SOURCE,
        is_read_only=one.read_only,
        is_sensitive=one.is_sensitive,
        documentation=one.documentation or None,
    )


def responsible(resource: Resource, name: str) -> int | None:
    """A broker answers for its own settings itself; anyone answers for a topic's."""
    return int(name) if resource is Resource.BROKER and name else None


def config_refusal(cluster: Cluster, kind: str, name: str, number: int, reason: str | None) -> RefusedError:
    """The error for an answer about the settings of one resource."""
    return refused(
        number, f"the settings of {kind.lower()} {name or 'default'}", by=cluster.where, reason=reason
    )

"""CreateTopics: topics made by the controller.

Rules.  It is an order: sent once, and once more only if it reached another broker than the controller.
"""

from collections.abc import Mapping
from typing import Final

from semel.client.calls.routing import controller, ordered, pass_on
from semel.client.cluster import Cluster
from semel.core.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from semel.errors import refused

_BROKERS_DEFAULT: Final = -1


async def create_topic(
    cluster: Cluster,
    name: str,
    *,
    partitions: int = _BROKERS_DEFAULT,
    replication_factor: int = _BROKERS_DEFAULT,
    configs: Mapping[str, str] | None = None,
) -> None:
    """Make a topic; the broker's defaults for what is -1."""
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )
    for one in await create_topics(cluster, [topic]):
        if one.error_code:
            raise refused(
                one.error_code, f"to create topic {name!r}", by=cluster.where, reason=one.error_message
            )


async def create_topics(
    cluster: Cluster,
    topics: list[CreatableTopic],
    *,
    validate_only: bool = False,
    timeout_ms: int | None = None,
) -> list[CreatableTopicResult]:
    """Make topics, or only see whether they could be made: gives the controller's answer about each."""
    timeout_ms = cluster.config.request_timeout_ms if timeout_ms is None else timeout_ms
    request = CreateTopicsRequest(topics=topics, timeout_ms=timeout_ms, validate_only=validate_only)

    async def order() -> list[CreatableTopicResult]:
        answer = await cluster.send(request, node_id=await controller(cluster), timeout_ms=timeout_ms)
        pass_on(cluster, [one.error_code for one in answer.topics])
        return answer.topics

    return await ordered(cluster, order)

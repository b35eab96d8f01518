"""DeleteTopics: topics removed by the controller, with all their records.

Rules.  It is an order: sent once, and once more only if it reached another broker than the controller.
"""

from typing import Final

from semel.client.calls.routing import controller, ordered, pass_on
from semel.client.cluster import Cluster
from semel.core.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest
from semel.errors import ErrorCode, RefusedError, refused

_BY_NAME_VERSION: Final = 5  # DeleteTopics 6 has another shape, which allows ids.


async def delete_topic(cluster: Cluster, name: str) -> None:
    """Remove a topic with all its records."""
    for one in await delete_topics(cluster, [name]):
        if one.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise RefusedError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {name} does not exist at {cluster.where}: see 'semel topics list'",
            )
        if one.error_code:
            raise refused(
                one.error_code, f"to delete topic {name!r}", by=cluster.where, reason=one.error_message
            )


async def delete_topics(
    cluster: Cluster, names: list[str], *, timeout_ms: int | None = None
) -> list[DeletableTopicResult]:
    """Remove topics with all their records: gives the controller's answer about each."""
    timeout_ms = cluster.config.request_timeout_ms if timeout_ms is None else timeout_ms
    request = DeleteTopicsRequest(topic_names=names, timeout_ms=timeout_ms)

    async def order() -> list[DeletableTopicResult]:
        answer = await cluster.send(
            request, node_id=await controller(cluster), version_max=_BY_NAME_VERSION, timeout_ms=timeout_ms
        )
        pass_on(cluster, [one.error_code for one in answer.responses])
        return answer.responses

    return await ordered(cluster, order)

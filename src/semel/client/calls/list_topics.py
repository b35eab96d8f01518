"""Metadata of every topic, and of those of some topics that exist. Other looks at topics: `cluster`."""

from collections.abc import Iterable

from semel.client.cluster import Cluster, TopicView, topic_view
from semel.errors import ErrorCode, RefusedError


async def list_topics(cluster: Cluster) -> list[TopicView]:
    """Every topic, also those without leaders at the moment."""

    async def ask() -> list[TopicView]:
        answer = await cluster.metadata(None)
        return sorted((topic_view(one) for one in answer.topics), key=lambda one: one.name)

    return await cluster.patiently(ask)


async def existing_topics(cluster: Cluster, names: Iterable[str]) -> dict[str, TopicView]:
    """The existing ones of these topics; a group may remember others."""
    found: dict[str, TopicView] = {}
    for name in sorted(names):
        try:
            found[name] = await cluster.topic(name)
        except RefusedError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
    return found

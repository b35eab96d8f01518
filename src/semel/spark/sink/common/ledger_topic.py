"""The topic of a ledger, made when it is missing.

Role.   `has_topic` and `make_topic`, for the ledgers of both sinks.
Rules.  * A broker's defaults never make it: they would delete a drop-in sink's rows after a week.
        * A user who may not create topics hears the name, and the way to use another.
"""

from collections.abc import Mapping

from semel.client.calls.create_topics import create_topic
from semel.client.cluster import Cluster
from semel.errors import ErrorCode, RefusedError
from semel.exceptions import exception_for

_UNKNOWN_TOPIC = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


async def has_topic(cluster: Cluster, name: str) -> bool:
    """Whether the topic exists."""
    try:
        await cluster.topic(name)
    except RefusedError as error:
        if error.code not in _UNKNOWN_TOPIC:
            raise
        return False
    return True


async def make_topic(cluster: Cluster, name: str, configs: Mapping[str, str], another: str) -> None:
    """Have the topic, with one partition. `another` is the setting that names another one."""
    if await has_topic(cluster, name):
        return
    try:
        await create_topic(cluster, name, partitions=1, configs=configs)
    except RefusedError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            settings = ", ".join(f"{key}={value}" for key, value in configs.items()) or "no settings"
            raise exception_for(
                error.code,
                f"topic {name}, the ledger of stored batches, cannot be created: {error}. Create it (one partition, "
                f"{settings}), or name a topic that exists: {another}",
            ) from error
    await cluster.topic(name)

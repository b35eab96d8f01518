"""The topics coordinators keep their rows in, made when they are first needed.

Rules.  * Compacted, with as many partitions and replicas as the settings say; a broker alone makes one replica, whatever they say.
        * The metadata's applier makes the partitions, as it makes all. A topic that the metadata has already is left to it.
        * In a cluster any broker asks for the topic; it is there when the controller has made it.
"""

from collections.abc import Mapping

from semel.cluster.store import MetadataStore
from semel.errors import ErrorCode, LogError
from semel.runtime.bundle import Runtime
from semel.runtime.randomness import random_uuid


async def create_internal_topic(
    store: MetadataStore,
    runtime: Runtime,
    *,
    name: str,
    partitions_count: int,
    replication_factor: int,
    configs: Mapping[str, str],
) -> None:
    """Have the topic in the metadata; raises `SemelError` or OSError if its partitions could not be made."""
    if store.image.topic(name) is not None:
        return
    refused = await store.create_topic(
        name,
        topic_id=random_uuid(runtime.dice),
        partitions=partitions_count,
        replication_factor=replication_factor,
        configs=configs,
    )
    if refused is not None and refused.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
        raise LogError(f"{name} cannot be created: {refused.reason}")

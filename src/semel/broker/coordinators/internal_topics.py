"""The topics coordinators keep their rows in, made when they are first needed.

Rules.  * Compacted, with as many partitions as the settings say, on this broker: without a cluster there is one replica,
          whatever the replication factor asks for.
"""

from collections.abc import Mapping

from semel.broker.partitions import Partitions
from semel.cluster.store import MetadataStore
from semel.core.metadata.rows import TopicRow
from semel.runtime.bundle import Runtime
from semel.runtime.randomness import random_uuid


async def create_internal_topic(
    store: MetadataStore,
    partitions: Partitions,
    runtime: Runtime,
    *,
    name: str,
    partitions_count: int,
    configs: Mapping[str, str],
) -> None:
    """Have the topic there; raises `LogError` or OSError if it cannot be."""
    row = store.image.topic(name)
    if row is None:
        row = TopicRow(name, random_uuid(runtime.dice), partitions_count, dict(configs))
        await store.commit([row])
    failed = await partitions.make([row])
    if name in failed:
        raise failed[name]

"""The topics coordinators keep their rows in, made when they are first needed.

Rules.  * Compacted, with as many partitions as the settings say, and one replica each, whatever the replication factor asks for.
"""

from collections.abc import Mapping

from semel.broker.partitions import Partitions
from semel.broker.replica_assignments import spread
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
        states = spread(store.image, partitions_count)
        row = TopicRow(name, random_uuid(runtime.dice), states, dict(configs))
        failed = await store.commit([row])
    else:
        failed = await partitions.make([row])
    if name in failed:
        raise failed[name]

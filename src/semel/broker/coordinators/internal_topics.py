"""The topics coordinators keep their rows in, made when they are first needed.

Rules.  * Compacted, with as many partitions as the settings say, and one replica each, whatever the replication factor asks for.
        * The metadata's applier makes the partitions, as it makes all. A topic that the metadata has already is left to it.
"""

from collections.abc import Mapping

from semel.broker.replica_assignments import spread
from semel.cluster.store import MetadataStore
from semel.core.metadata.rows import TopicRow
from semel.runtime.bundle import Runtime
from semel.runtime.randomness import random_uuid


async def create_internal_topic(
    store: MetadataStore,
    runtime: Runtime,
    *,
    name: str,
    partitions_count: int,
    configs: Mapping[str, str],
) -> None:
    """Have the topic in the metadata; raises `LogError` or OSError if its partitions could not be made."""
    if store.image.topic(name) is not None:
        return
    states = spread(store.image, partitions_count)
    failed = await store.commit([TopicRow(name, random_uuid(runtime.dice), states, dict(configs))])
    if name in failed:
        raise failed[name]

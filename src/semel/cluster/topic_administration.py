"""Topics that the controller makes, grows and removes for its clients: written to ZooKeeper, where the controller's machine sees them.

Role.   `change` makes one such change. `ZooKeeperStore.change_topics` waits for its effect.
Rules.  * A topic grows against the version of its node that was read: a reassignment that is written meanwhile is not undone.
        * A wish to delete a topic is a node. One that is there already is as good.
        * Each may be made again from its beginning, when nobody knows whether it was made.
"""

from typing import Final

from semel.cluster.config_writing import done
from semel.cluster.topic_creation import create_topic
from semel.cluster.zookeeper.client import ZooKeeperClient
from semel.cluster.zookeeper.recipes import ensure
from semel.core.cluster import documents, paths
from semel.core.metadata.image import MetadataImage
from semel.core.metadata.rows import TopicGoneRow, TopicRow
from semel.core.zookeeper.wire.messages import SetData
from semel.errors import ErrorCode, Refuse
from semel.runtime.bundle import Runtime

_LOOK_SECONDS: Final = 0.2
_GONE: Final = Refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")


async def change(
    client: ZooKeeperClient, runtime: Runtime, image: MetadataImage, row: TopicRow | TopicGoneRow
) -> Refuse | None:
    """Make a topic as the row says, or have it removed; why that cannot be. Raises as `ZooKeeperClient.ask`, and `ZnodeError`."""
    if isinstance(row, TopicGoneRow):
        if await client.exists(paths.topic(row.name)) is None:
            return _GONE
        await ensure(client, paths.deletion(row.name))
        return None
    known = image.topic(row.name)
    if known is not None and known.topic_id == row.topic_id:
        return await _grow(client, runtime, row)
    made = await create_topic(
        client,
        runtime,
        image,
        row.name,
        row.topic_id,
        partitions=row.partitions,
        replication_factor=len(row.states[0].replicas),
        configs=row.configs,
        placed=tuple(state.replicas for state in row.states),
    )
    return made if isinstance(made, Refuse) else None


async def _grow(client: ZooKeeperClient, runtime: Runtime, row: TopicRow) -> Refuse | None:
    path = paths.topic(row.name)
    while True:
        found = await client.get(path)
        if found is None:
            return _GONE
        node = documents.decode_topic(row.name, found.data)
        if node.adding or node.removing:
            return Refuse(
                ErrorCode.REASSIGNMENT_IN_PROGRESS,
                f"A partition reassignment is in progress for the topic {row.name}.",
            )
        wanted = {index: state.replicas for index, state in enumerate(row.states)}
        if all(index in node.replicas for index in wanted):
            return None
        node = documents.TopicNode({**wanted, **node.replicas}, row.topic_id)
        if await done(client, [SetData(path, documents.encode_topic(node), found.stat.version)]):
            return None
        await runtime.tasks.sleep(_LOOK_SECONDS * runtime.dice.random())

"""Topics that any broker may create: those that a client asks for by name, and the internal ones.

Role.   `create_topic` writes a topic's nodes as Kafka's brokers do. The controller sees them, and makes the partitions.
Flow.   checked against the image and ZooKeeper -> `placement` over the living brokers -> one multi: the settings, then the topic.
Rules.  * Settings are always written, even none: those of an earlier topic of the name may be left.
        * A topic that is being deleted is still there. A name that others would be mistaken for is taken.
        * The answer to the write may be lost: a topic that has our id was made by us.
"""

import uuid
from collections.abc import Mapping
from typing import Final

from semel.cluster.config_writing import controller_check, done
from semel.cluster.zookeeper.client import ZooKeeperClient
from semel.core.cluster import documents, paths
from semel.core.cluster.documents import TopicNode, ZnodeError
from semel.core.cluster.placement import place
from semel.core.metadata.image import MetadataImage
from semel.core.metadata.topic_names import folded
from semel.core.zookeeper.wire.messages import Create, MultiOperation, SetData
from semel.errors import ErrorCode, Refuse
from semel.runtime.bundle import Runtime

_LOOK_SECONDS: Final = 0.2


async def create_topic(
    client: ZooKeeperClient,
    runtime: Runtime,
    image: MetadataImage,
    name: str,
    topic_id: uuid.UUID,
    *,
    partitions: int,
    replication_factor: int,
    configs: Mapping[str, str],
    placed: tuple[tuple[int, ...], ...] | None = None,
) -> uuid.UUID | Refuse:
    """Create a topic over the brokers that the image says are alive; its id. It has leaders once the controller has made it.

    `placed`: the replicas of each partition, where they are decided already. It may be called again by the same id, when nobody knows whether it was made. Raises `ZooKeeperError`, `SessionExpiredError`, `NotControllerError`.
    """
    known = image.topic(name)
    if known is not None:
        return topic_id if known.topic_id == topic_id else _exists(name)
    replicas: tuple[tuple[int, ...], ...] | Refuse = placed or place(
        {broker.broker_id: broker.rack for broker in image.brokers.values()},
        partitions=partitions,
        replication_factor=replication_factor,
        draw=runtime.dice.randrange,
    )
    if isinstance(replicas, Refuse):
        return replicas
    node = documents.encode_topic(TopicNode(dict(enumerate(replicas)), topic_id))
    settings = documents.encode_configs(configs)
    while True:
        found = await client.get(paths.topic(name))
        if found is not None:
            return topic_id if _is(name, found.data, topic_id) else _exists(name)
        if await client.exists(paths.deletion(name)) is not None:
            return Refuse(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' is marked for deletion.")
        if (other := await _collision(client, image, name)) is not None:
            return Refuse(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topics: {other}"
            )
        path = paths.topic_configs(name)
        left = await client.exists(path)
        write: MultiOperation = (
            Create(path, settings) if left is None else SetData(path, settings, left.version)
        )
        check = await controller_check(client, runtime)
        if await done(client, [check, write, Create(paths.topic(name), node)]):
            return topic_id
        await runtime.tasks.sleep(_LOOK_SECONDS * runtime.dice.random())


async def _collision(client: ZooKeeperClient, image: MetadataImage, name: str) -> str | None:
    """A topic that differs only in dots and underscores: one that was just made is in ZooKeeper alone."""
    if (known := image.collision(name)) is not None or not set(name) & {".", "_"}:
        return known
    topics = await client.children(paths.TOPICS) or ()
    return next((one for one in sorted(topics) if one != name and folded(one) == folded(name)), None)


def _is(name: str, data: bytes | None, topic_id: uuid.UUID) -> bool:
    try:
        return documents.decode_topic(name, data).topic_id == topic_id
    except ZnodeError:
        return False  # Somebody else's, and the controller's to complain of.


def _exists(name: str) -> Refuse:
    return Refuse(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")

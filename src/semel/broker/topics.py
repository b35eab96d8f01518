"""Topics come and go: decided, written to the metadata, then made or removed on disk.

Role.   What CreateTopics, auto-creation and DeleteTopics share.
Rules.  * The metadata is changed first. A crash before the directories are made is mended at the next start, which makes
          them; a crash before they are removed likewise.
        * Two requests for the same new topic make one topic.
"""

from collections.abc import Mapping, Sequence

from semel.broker.context import BrokerContext
from semel.core.metadata.rows import TopicGoneRow, TopicRow
from semel.runtime.randomness import random_uuid


async def create(broker: BrokerContext, name: str, partitions: int, configs: Mapping[str, str]) -> TopicRow:
    """Make a topic that was found not to exist; the caller has checked everything."""
    row = TopicRow(name, random_uuid(broker.runtime.dice), partitions, dict(configs))
    await broker.store.commit([row])
    broker.partitions.ensure(row)
    return row


async def create_missing(broker: BrokerContext, names: Sequence[str]) -> None:
    """Make these topics with the broker's defaults, where they are not there yet."""
    for name in dict.fromkeys(names):
        if broker.store.image.topic(name) is None:
            await create(broker, name, broker.config.num_partitions, {})


async def delete(broker: BrokerContext, name: str) -> None:
    """Remove a topic that is there."""
    await broker.store.commit([TopicGoneRow(name)])
    broker.partitions.delete(name)

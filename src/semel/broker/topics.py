"""Topics come and go: decided, written to the metadata, then made or removed on disk.

Role.   What CreateTopics, CreatePartitions, auto-creation and DeleteTopics share.
Rules.  * The metadata is changed first. A crash before the directories are made is mended at the next start, which makes
          them; a crash before they are removed likewise. What the disk refuses is made later, by the broker's housekeeping.
        * Two requests for the same new topic make one topic.
"""

from collections.abc import Sequence
from typing import Final

from semel.broker.context import BrokerContext
from semel.core.metadata.rows import TopicGoneRow, TopicRow
from semel.core.metadata.topic_names import RESERVED
from semel.runtime.randomness import random_uuid

AT_ONCE: Final = 100
"""Topics that one change makes or removes: some ten milliseconds of work."""


async def create_all(broker: BrokerContext, rows: Sequence[TopicRow]) -> dict[str, str]:
    """Make or grow topics, in one change; the caller has checked everything.

    Which of them are there but not complete, and why: the disk refused, and it is asked again from time to time.
    """
    await broker.store.commit(rows)
    failed = await broker.partitions.make(rows)
    return {
        name: f"The topic is there, but not all of its partitions could be made, which is tried again: {error}"
        for name, error in failed.items()
    }


async def create_missing(broker: BrokerContext, names: Sequence[str]) -> None:
    """Make these topics with the broker's defaults, where they are not there yet."""
    rows = [
        TopicRow(name, random_uuid(broker.runtime.dice), broker.config.num_partitions)
        for name in dict.fromkeys(names)
        if broker.store.image.topic(name) is None and name not in RESERVED
    ]
    if rows:
        await create_all(broker, rows)


async def delete_all(broker: BrokerContext, names: Sequence[str]) -> None:
    """Remove topics that are there, in one change."""
    gone = [partition.log.topic_partition for name in names for partition in broker.partitions.of_topic(name)]
    async with broker.cleaner.paused(gone):  # Files must not be moved under a cleaning.
        await broker.store.commit([TopicGoneRow(name) for name in names])
        broker.groups.topics_gone()  # Now: when the disk is done there may be others of these names.
        await broker.partitions.delete(names)

"""Topics come and go: decided and written to the metadata; they are made or removed on disk as the metadata is followed.

Role.   The common part of CreateTopics, CreatePartitions, auto-creation and DeleteTopics.
Rules.  * The metadata is changed first. A crash before the directories are made is mended at the next start, which makes
          them; a crash before they are removed likewise. Partitions the disk refuses are made later, by the broker's housekeeping.
        * Two requests for the same new topic make one topic.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final

from semel.broker.parts import Administration
from semel.broker.replica_assignments import spread
from semel.cluster.store import ChangeRefusedError
from semel.core.metadata.rows import TopicGoneRow, TopicRow
from semel.core.metadata.topic_names import RESERVED
from semel.errors import ErrorCode, Refuse
from semel.runtime.randomness import random_uuid

_logger: Final = logging.getLogger(__name__)
_ASKING_SECONDS: Final = 1.0
"""How long a client's question for metadata waits for a topic of a cluster: it is asked again."""
AT_ONCE: Final = 100
"""Topics that one change makes or removes: some ten milliseconds of work."""


async def create_all(
    broker: Administration, rows: Sequence[TopicRow], *, timeout_ms: int = 0
) -> Mapping[str, Refuse]:
    """Make or grow topics, in one change; the caller has checked everything.

    Which of them are not there, or not complete, and why. Where the disk refused, it is asked again from time to time. In a
    cluster they are complete when all partitions have leaders, which takes `timeout_ms` at most.
    """
    return await broker.store.change_topics(rows, timeout_ms=timeout_ms)


async def create_missing(broker: Administration, names: Sequence[str]) -> None:
    """Make these topics with the broker's defaults, where they are not there yet."""
    if broker.store.draw is not None:
        spawn = broker.runtime.tasks.spawn
        asking = [spawn(_ask_for(broker, name), name=f"create {name}") for name in dict.fromkeys(names)]
        await asyncio.wait(asking, timeout=_ASKING_SECONDS)
        return
    states = spread(broker.store.image, broker.config.num_partitions)
    rows = [
        TopicRow(name, random_uuid(broker.runtime.dice), states)
        for name in dict.fromkeys(names)
        if broker.store.image.topic(name) is None and name not in RESERVED
    ]
    if rows:
        await create_all(broker, rows)


async def _ask_for(broker: Administration, name: str) -> None:
    """In a cluster: it is there when the controller has made it, and the client that asked asks again."""
    if name in RESERVED:
        return
    try:
        refused = await broker.store.create_topic(
            name,
            topic_id=random_uuid(broker.runtime.dice),
            partitions=broker.config.num_partitions,
            replication_factor=broker.config.default_replication_factor,
            configs={},
        )
    except ChangeRefusedError as error:
        _logger.warning("topic %s, which a client asks for, cannot be created now: %s", name, error)
        return
    if refused is not None and refused.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
        _logger.warning("topic %s, which a client asks for, cannot be created: %s", name, refused.reason)


async def delete_all(
    broker: Administration, names: Sequence[str], *, timeout_ms: int = 0
) -> Mapping[str, Refuse]:
    """Remove topics that are there, in one change; which of them are not gone, and why."""
    return await broker.store.change_topics([TopicGoneRow(name) for name in names], timeout_ms=timeout_ms)

"""Where partitions are at a time: ListOffsets, for commands that ask about a topic's log.

Role.   `offsets_at` turns "earliest", "latest" or a time into offsets; `list_offsets` gives the leaders' whole answers.
Rules.  * With `isolation.level=read_committed`, the default, a log ends at its last stable offset.
        * A time behind the last record means the end.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from semel.client.cluster import Cluster, TopicView, refused
from semel.client.config import ISOLATION_LEVELS, command_config
from semel.core.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from semel.types import UNKNOWN_OFFSET, TopicPartition

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
_CONSUMER: Final = -1


async def offsets_at(
    cluster: Cluster, topic: TopicView, partitions: Iterable[int], timestamp: int
) -> dict[int, int]:
    """Where these partitions are at a time: `EARLIEST`, `LATEST`, or the first record at or after it, else the end."""
    wanted = list(partitions)
    found = await list_offsets(cluster, topic, wanted, timestamp)
    offsets = {index: answer.offset for index, answer in found.items()}
    beyond = [index for index, offset in offsets.items() if offset == UNKNOWN_OFFSET]
    if beyond and timestamp >= 0:
        offsets |= await offsets_at(cluster, topic, beyond, LATEST)
    return offsets


async def list_offsets(
    cluster: Cluster, topic: TopicView, partitions: Sequence[int], timestamp: int
) -> dict[int, ListOffsetsPartitionResponse]:
    """What the leaders answer."""

    async def ask_all() -> dict[int, ListOffsetsPartitionResponse]:
        leaders = await cluster.by_leader(topic.name, partitions)
        answers = await asyncio.gather(
            *(
                _ask_leader(cluster, topic.name, leader, indexes, timestamp)
                for leader, indexes in leaders.items()
            )
        )
        return {one.partition_index: one for answer in answers for one in answer}

    return await cluster.patiently(ask_all)


async def _ask_leader(
    cluster: Cluster, topic: str, leader: int, indexes: Sequence[int], timestamp: int
) -> list[ListOffsetsPartitionResponse]:
    request = ListOffsetsRequest(
        replica_id=_CONSUMER,
        isolation_level=ISOLATION_LEVELS.index(command_config(cluster.config).isolation_level),
        topics=[
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(partition_index=index, timestamp=timestamp) for index in indexes
                ],
            )
        ],
        timeout_ms=cluster.config.request_timeout_ms,
    )
    answer = await cluster.send(request, node_id=leader)
    results = [one for topic_answer in answer.topics for one in topic_answer.partitions]
    for one in results:
        if one.error_code:
            where = TopicPartition(topic, one.partition_index)
            raise refused(one.error_code, f"the offset of {where} at time {timestamp}", by=cluster.where)
    return results

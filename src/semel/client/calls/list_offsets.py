"""ListOffsets: where partitions begin, end, or are at a time.

Role.   `ask_leaders` asks each leader once, all at the same time; `list_offsets` finds the leaders and repeats; `offsets_at` takes
        the end where no record is young enough.
Rules.  * The end is the last stable offset with `read_committed`, else the high watermark.
        * A refusal of one partition stands beside the answers for the others: the caller decides.
"""

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple

from semel.client.calls import known
from semel.client.calls.routing import leaders_of
from semel.client.cluster import Cluster
from semel.client.config import ISOLATION_LEVELS, command_config
from semel.core.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from semel.errors import RefusedError, refused
from semel.types import NO_PARTITION_LEADER_EPOCH, UNKNOWN_OFFSET, TopicPartition

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
_CONSUMER: Final = -1


class FoundOffset(NamedTuple):
    """The answer for one partition; offset -1 if there is no such record."""

    offset: int
    timestamp: int
    leader_epoch: int | None


class Asked(NamedTuple):
    """The question about one partition: a time, or one of the constants above."""

    timestamp: int
    leader_epoch: int = NO_PARTITION_LEADER_EPOCH
    """Of the leader, as far as the caller knows; a leader of another epoch refuses."""


async def ask_leaders(
    cluster: Cluster,
    by_leader: Mapping[int, Mapping[TopicPartition, Asked]],
    *,
    isolation_level: str,
) -> dict[TopicPartition, FoundOffset | RefusedError]:
    """The leaders' answers; one attempt."""
    answers = await asyncio.gather(
        *(_ask_leader(cluster, leader, asked, isolation_level) for leader, asked in by_leader.items())
    )
    return {where: found for answer in answers for where, found in answer.items()}


async def _ask_leader(
    cluster: Cluster, leader: int, asked: Mapping[TopicPartition, Asked], isolation_level: str
) -> dict[TopicPartition, FoundOffset | RefusedError]:
    topics: dict[str, ListOffsetsTopic] = {}
    for where, one in asked.items():
        topics.setdefault(where.topic, ListOffsetsTopic(name=where.topic)).partitions.append(
            ListOffsetsPartition(
                partition_index=where.partition,
                current_leader_epoch=one.leader_epoch,
                timestamp=one.timestamp,
            )
        )
    request = ListOffsetsRequest(
        replica_id=_CONSUMER,
        isolation_level=ISOLATION_LEVELS.index(isolation_level),
        topics=list(topics.values()),
        timeout_ms=cluster.config.request_timeout_ms,
    )
    answer = await cluster.send(request, node_id=leader)
    found: dict[TopicPartition, FoundOffset | RefusedError] = {}
    for topic in answer.topics:
        for said in topic.partitions:
            where = TopicPartition(topic.name, said.partition_index)
            if said.error_code:
                what = f"the offset of {where} at time {asked[where].timestamp}"
                found[where] = refused(said.error_code, what, by=cluster.where)
            else:
                found[where] = FoundOffset(said.offset, said.timestamp, known(said.leader_epoch))
    return found


def all_found(
    answers: Mapping[TopicPartition, FoundOffset | RefusedError],
) -> dict[TopicPartition, FoundOffset]:
    """The answers, if none is a refusal; raises the first refusal otherwise."""
    found: dict[TopicPartition, FoundOffset] = {}
    for where, answer in answers.items():
        if isinstance(answer, RefusedError):
            raise answer
        found[where] = answer
    return found


async def list_offsets(
    cluster: Cluster, asked: Mapping[TopicPartition, int], *, isolation_level: str | None = None
) -> dict[TopicPartition, FoundOffset | RefusedError]:
    """The answers to these times, in their order; repeated while the refusal of any partition passes.

    Without an `isolation_level` a command's own setting holds.
    """
    level = isolation_level or command_config(cluster.config).isolation_level

    async def attempt() -> dict[TopicPartition, FoundOffset | RefusedError]:
        by_leader = {
            leader: {where: Asked(asked[where]) for where in some}
            for leader, some in (await leaders_of(cluster, asked)).items()
        }
        found = await ask_leaders(cluster, by_leader, isolation_level=level)
        for answer in found.values():
            if isinstance(answer, RefusedError) and answer.code.retriable:
                raise answer
        return {where: found[where] for where in asked}

    return await cluster.patiently(attempt)


async def offsets_at(
    cluster: Cluster, asked: Mapping[TopicPartition, int], *, isolation_level: str | None = None
) -> dict[TopicPartition, int]:
    """Where partitions are at these times; the end where no record is that young. Raises the first refusal."""
    found = all_found(await list_offsets(cluster, asked, isolation_level=isolation_level))
    offsets = {where: one.offset for where, one in found.items()}
    beyond = {
        where: LATEST for where, offset in offsets.items() if offset == UNKNOWN_OFFSET and asked[where] >= 0
    }
    if beyond:
        offsets |= await offsets_at(cluster, beyond, isolation_level=isolation_level)
    return offsets

"""DescribeProducers: the producers that leaders of partitions remember."""

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from semel.client.calls import known
from semel.client.cluster import Cluster, TopicView
from semel.core.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from semel.errors import refused


class ProducerView(NamedTuple):
    """A producer, as a partition's leader remembers it."""

    partition: int
    producer_id: int
    producer_epoch: int
    last_sequence: int | None
    last_timestamp_ms: int | None
    coordinator_epoch: int | None
    transaction_start_offset: int | None


async def describe_producers(
    cluster: Cluster, topic: TopicView, partitions: Iterable[int] | None = None
) -> list[ProducerView]:
    """The producers that the leaders of a topic's partitions remember."""
    wanted = [one.partition for one in topic.partitions] if partitions is None else list(partitions)

    async def ask_one(leader: int, indexes: list[int]) -> list[ProducerView]:
        request = DescribeProducersRequest(topics=[TopicRequest(name=topic.name, partition_indexes=indexes)])
        answer = await cluster.send(request, node_id=leader)
        found = []
        for one in (one for answered in answer.topics for one in answered.partitions):
            if one.error_code:
                what = f"to describe the producers of {topic.name}-{one.partition_index}"
                raise refused(one.error_code, what, by=cluster.where, reason=one.error_message)
            found += [
                ProducerView(
                    partition=one.partition_index,
                    producer_id=state.producer_id,
                    producer_epoch=state.producer_epoch,
                    last_sequence=known(state.last_sequence),
                    last_timestamp_ms=known(state.last_timestamp),
                    coordinator_epoch=known(state.coordinator_epoch),
                    transaction_start_offset=known(state.current_txn_start_offset),
                )
                for state in one.active_producers
            ]
        return found

    async def ask() -> list[ProducerView]:
        leaders = await cluster.by_leader(topic.name, wanted)
        answers = await asyncio.gather(*(ask_one(leader, indexes) for leader, indexes in leaders.items()))
        return sorted(one for answer in answers for one in answer)

    return await cluster.patiently(ask)

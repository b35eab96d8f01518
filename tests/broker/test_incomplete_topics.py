"""A topic whose partitions the disk refuses, or has damaged: what can be served is, and the rest says why.

Method: a broker and a client on a simulated host whose disk fails where a test says, is damaged by hand between two lives, or is
switched off at every single change while partitions are made. Sleeps are seconds of the simulated clock.
"""

import asyncio
import errno
from collections.abc import Awaitable

import pytest

from semel.broker import partitions
from semel.core.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from semel.core.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.core.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from semel.core.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from semel.core.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from semel.core.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
)
from semel.core.wire.messages.describe_topic_partitions import TopicRequest as DescribedTopic
from semel.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from semel.core.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from semel.core.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from semel.core.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from semel.errors import ErrorCode
from semel.types import TopicPartition
from support.broker.admin_kit import Client, told

OFFLINE = ErrorCode.KAFKA_STORAGE_ERROR


async def described(client: Client, name: str) -> MetadataResponseTopic:
    answer = await client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)]))
    return answer.topics[0]


def test_a_topic_the_disk_refused_half_of_is_completed_later() -> None:
    async def story(client: Client) -> None:
        client.disk.fail("make_directory", errno.ENOSPC, path_part="orders-7")
        wanted = CreateTopicsRequest(
            topics=[
                CreatableTopic(name="orders", num_partitions=20, replication_factor=1),
                CreatableTopic(name="beside", num_partitions=1, replication_factor=1),
            ]
        )
        answer = await client.ask(wanted)
        codes = {topic.name: topic.error_code for topic in answer.topics}
        assert codes == {"orders": OFFLINE, "beside": ErrorCode.NONE}
        reason = answer.topics[0].error_message
        assert reason is not None
        assert "not all of its partitions could be made, which is tried again" in reason
        assert "No space" in reason
        topic = await described(client, "orders")
        assert [one.error_code for one in topic.partitions if one.partition_index != 7].count(0) >= 16
        assert topic.partitions[7].error_code == ErrorCode.LEADER_NOT_AVAILABLE
        assert topic.partitions[7].leader_id == -1
        assert (await client.produce("orders", 0)).error_code == ErrorCode.NONE
        assert (await client.produce("orders", 7)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await asyncio.sleep(3)
        topic = await described(client, "orders")
        assert [one.error_code for one in topic.partitions] == [ErrorCode.NONE] * 20
        assert (await client.produce("orders", 7)).error_code == ErrorCode.NONE
        assert len(client.broker.parts.partitions.of_topic("orders")) == 20

    told(story)


def test_partitions_added_while_the_disk_refuses_come_later_too() -> None:
    async def story(client: Client) -> None:
        await client.create("orders", partitions=2)
        client.disk.fail("sync_directory", errno.EIO, path_part="data")
        grow = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name="orders", count=4, assignments=None)]
        )
        answer = await client.ask(grow)
        assert answer.results[0].error_code == OFFLINE
        assert "tried again" in (answer.results[0].error_message or "")
        await asyncio.sleep(3)
        topic = await described(client, "orders")
        assert [one.leader_id for one in topic.partitions] == [1, 1, 1, 1]

    told(story)


def test_a_start_on_a_disk_that_refuses_new_directories_serves_what_there_is() -> None:
    async def make(client: Client) -> None:
        await client.create("orders", partitions=1)
        client.disk.fail("make_directory", errno.ENOSPC, path_part="late-", times=10)
        assert await client.create("late") == [OFFLINE]
        assert (await client.produce("orders")).error_code == ErrorCode.NONE

    async def again(client: Client) -> None:
        assert (await client.produce("orders")).base_offset == 1
        await asyncio.sleep(12)
        assert (await client.produce("late")).error_code == ErrorCode.NONE

    told(make, again)


@pytest.mark.parametrize("at_once", [1, 2, 250])
def test_a_topic_deleted_while_it_is_made_leaves_nothing_and_its_successor_is_another(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "_AT_ONCE", at_once)

    async def story(client: Client) -> None:
        client.disk.sync_delay_seconds = (0.1, 0.2)
        other, third = await client.another(), await client.another()
        creating = asyncio.ensure_future(client.create("orders", partitions=9))
        while client.broker.parts.store.image.topic("orders") is None:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.35)
        deleting = asyncio.ensure_future(
            other.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")]))
        )
        while client.broker.parts.store.image.topic("orders") is not None:
            await asyncio.sleep(0.01)
        recreating = asyncio.ensure_future(third.create("orders", partitions=2))
        await asyncio.gather(creating, deleting, recreating)
        client.disk.sync_delay_seconds = (0.0, 0.0)
        topic = await described(client, "orders")
        assert [one.error_code for one in topic.partitions] == [ErrorCode.NONE] * 2
        assert (await client.produce("orders", 1)).base_offset == 0
        living = [name for name in client.directories() if not name.endswith("-delete")]
        assert living == ["orders-0", "orders-1"]

    told(story)


@pytest.mark.parametrize("turns", range(40))
def test_a_topic_deleted_between_two_turns_of_its_making_leaves_nothing(
    turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some of its partitions are led by then and some are not."""
    monkeypatch.setattr(partitions, "_AT_ONCE", 1)

    async def story(client: Client) -> None:
        image, other = client.broker.parts.store.image, await client.another()
        creating = asyncio.ensure_future(client.create("orders", partitions=9))
        while image.topic("orders") is None:
            await asyncio.sleep(0)
        for _ in range(turns):
            await asyncio.sleep(0)
        gone = DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")])
        await asyncio.gather(creating, other.ask(gone), other.create("orders", partitions=2))
        assert len((await described(client, "orders")).partitions) == 2
        assert (await client.produce("orders", 1)).base_offset == 0
        living = [name for name in client.directories() if not name.endswith("-delete")]
        assert living == ["orders-0", "orders-1"]

    told(story)


def test_others_have_their_turns_while_a_large_topic_is_made_and_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partitions, "_AT_ONCE", 3)

    async def story(client: Client) -> None:
        broker = client.broker
        logs = broker.parts.partitions._directory.logs
        before = len(logs)

        async def seen_during(work: Awaitable[object]) -> list[int]:
            """How many partitions there are at each turn of the loop."""
            doing, seen = asyncio.ensure_future(work), list[int]()
            while not doing.done():
                seen.append(len(logs) - before)
                await asyncio.sleep(0)
            await doing
            return list(dict.fromkeys(seen))

        assert await seen_during(client.create("wide", partitions=10)) == [0, 3, 6, 9, 10]
        gone = DeleteTopicsRequest(topics=[DeleteTopicState(name="wide")])
        assert await seen_during(client.ask(gone)) == [10, 7, 4, 1, 0]

    told(story)


def damage(client: Client, topic: str = "orders", index: int = 0) -> None:
    """Flip a byte of what was synced, for good."""
    path = f"data/{topic}-{index}/{0:020d}.log"
    file = client.disk.open(path)
    file.write_at(64, bytes([file.read_at(64, 1)[0] ^ 1]))
    file.sync()


def test_a_damaged_partition_answers_storage_error_and_the_others_serve() -> None:
    async def fill(client: Client) -> None:
        await client.create("orders", partitions=2)
        for index in (0, 1):
            await client.produce("orders", index, [b"a"])
            client.partition("orders", index).log.flush(1)
        client.broker.parts.partitions._directory.checkpoint()

    async def spoil(client: Client) -> None:
        damage(client)

    async def look(client: Client) -> None:
        topic = await described(client, "orders")
        first, second = topic.partitions
        assert (topic.error_code, first.error_code) == (0, ErrorCode.LEADER_NOT_AVAILABLE)
        assert (first.leader_id, first.offline_replicas, first.replica_nodes) == (-1, [1], [1])
        assert (second.error_code, second.leader_id, second.offline_replicas) == (0, 1, [])
        paged = await client.ask(DescribeTopicPartitionsRequest(topics=[DescribedTopic(name="orders")]))
        assert [one.leader_id for one in paged.topics[0].partitions] == [-1, 1]
        assert await asked(client, 1) == [ErrorCode.NONE] * 6
        assert await asked(client, 0) == [OFFLINE] * 6
        assert await asked(client, 2) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 6

    async def give_up(client: Client) -> None:
        """Its topic can be deleted, and made again."""
        await client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")]))
        assert client.broker.parts.partitions.offline == []
        await client.create("orders", partitions=1)
        assert (await client.produce("orders")).base_offset == 0

    told(fill, spoil, look, look, give_up, cut_power=True)


async def asked(client: Client, index: int) -> list[int]:
    """What every request for a partition's log is answered."""
    produced = await client.produce("orders", index)
    fetch = FetchRequest(
        topics=[
            FetchTopic(topic="orders", partitions=[FetchPartition(partition=index, partition_max_bytes=99)])
        ]
    )
    fetched = (await client.ask(fetch, 11)).responses[0].partitions[0]
    listing = ListOffsetsPartition(partition_index=index, timestamp=-1)
    listed = await client.ask(
        ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="orders", partitions=[listing])])
    )
    epoch = OffsetForLeaderPartition(partition=index, leader_epoch=0)
    ended = await client.ask(
        OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="orders", partitions=[epoch])])
    )
    deletion = DeleteRecordsPartition(partition_index=index, offset=0)
    deleted = await client.ask(
        DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="orders", partitions=[deletion])])
    )
    producers = await client.ask(
        DescribeProducersRequest(topics=[TopicRequest(name="orders", partition_indexes=[index])])
    )
    return [
        produced.error_code,
        fetched.error_code,
        listed.topics[0].partitions[0].error_code,
        ended.topics[0].partitions[0].error_code,
        deleted.topics[0].partitions[0].error_code,
        producers.topics[0].partitions[0].error_code,
    ]


def test_a_partition_the_disk_would_not_open_comes_back_in_a_new_epoch() -> None:
    """Damage stays; a refusal of the disk may pass."""

    async def fill(client: Client) -> None:
        await client.create("orders", partitions=2)
        assert (await client.produce("orders")).base_offset == 0
        client.partition("orders").log.flush(1)
        client.disk.fail("open", errno.EIO, path_part="orders-0/", times=3)

    async def look(client: Client) -> None:
        assert client.broker.parts.partitions.offline == [("orders", 0)]
        assert (await client.produce("orders", 0)).error_code == OFFLINE
        assert (await client.produce("orders", 1)).error_code == ErrorCode.NONE
        await asyncio.sleep(10)
        assert client.broker.parts.partitions.offline == []
        epoch = client.partition("orders", 0).leader_epoch
        assert epoch > client.partition("orders", 1).leader_epoch
        state = client.broker.parts.store.image.partition(TopicPartition("orders", 0))
        assert state is not None
        assert state.leader_epoch == epoch
        assert (await client.produce("orders", 0)).base_offset == 1

    told(fill, look, cut_power=True)

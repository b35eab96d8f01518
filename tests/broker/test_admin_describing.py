"""What the broker says of itself must be what is there: producers, transactions, sizes, epochs, pages of partitions.

Method: a client on a simulated host makes something and asks for it; answers are compared with the broker's own logs. How
answers look in each version is compared with Kafka in `compat/differential`.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.core.records.build import RecordInput, build_batch
from semel.core.wire.messages import describe_producers, describe_topic_partitions
from semel.core.wire.messages.describe_cluster import DescribeClusterRequest
from semel.core.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from semel.core.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.core.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from semel.errors import ErrorCode
from support.broker.admin_kit import PORT, Client, told


def test_producers_are_shown_with_their_open_transactions() -> None:
    async def story(client: Client) -> None:
        await client.create("orders")
        partition = client.partition("orders")
        partition.log.producers.verification_required = False  # No coordinator knows of these.
        for producer_id, transactional in ((7, False), (9, True)):
            data = build_batch(
                [RecordInput(b"k", b"v", 50), RecordInput(b"k", b"v", 60)],
                producer_id=producer_id,
                producer_epoch=3,
                base_sequence=0,
                transactional=transactional,
            )
            partition.append(data)
        asked = describe_producers.TopicRequest(name="orders", partition_indexes=[0, 4])
        (topic,) = (await client.ask(describe_producers.DescribeProducersRequest(topics=[asked]))).topics
        known, unknown = topic.partitions
        assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        state = describe_producers.ProducerState
        assert known.active_producers == [
            state(producer_id=7, producer_epoch=3, last_sequence=1, last_timestamp=60, coordinator_epoch=-1),
            state(
                producer_id=9,
                producer_epoch=3,
                last_sequence=1,
                last_timestamp=60,
                coordinator_epoch=-1,
                current_txn_start_offset=2,
            ),
        ]

    told(story)


def test_sizes_are_those_of_the_logs() -> None:
    async def story(client: Client) -> None:
        await client.create("orders", "quiet")
        await client.produce("orders", values=[b"x" * 1000])
        (directory,) = (await client.ask(DescribeLogDirsRequest(topics=None))).results
        sizes = {topic.name: topic.partitions[0].partition_size for topic in directory.topics}
        assert sizes == {"orders": client.partition("orders").log.size_bytes, "quiet": 0}
        assert sizes["orders"] > 1000
        assert directory.log_dir == "data"
        assert directory.total_bytes == client.disk.total_bytes("data")
        assert 0 < directory.usable_bytes < directory.total_bytes
        some = [
            DescribableLogDirTopic(topic="quiet", partitions=[0, 5]),
            DescribableLogDirTopic(topic="none", partitions=[0]),
        ]
        (directory,) = (await client.ask(DescribeLogDirsRequest(topics=some))).results
        assert [topic.name for topic in directory.topics] == ["quiet"]

    told(story)


def test_the_cluster_is_this_broker() -> None:
    async def story(client: Client) -> None:
        answer = await client.ask(DescribeClusterRequest())
        assert answer.cluster_id == client.broker.parts.administration.cluster_id
        assert [(one.broker_id, one.host, one.port) for one in answer.brokers] == [(1, "127.0.0.1", PORT)]
        assert answer.controller_id == 1

    told(story)


async def epoch_end(client: Client, epoch: int) -> EpochEndOffset:
    asked = OffsetForLeaderTopic(
        topic="orders", partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=epoch)]
    )
    return (await client.ask(OffsetForLeaderEpochRequest(topics=[asked]))).topics[0].partitions[0]


def test_epochs_end_where_the_next_leader_began() -> None:
    """Every start after a power cut is a new leader; what it has not written to is still its own."""

    async def first(client: Client) -> None:
        await client.create("orders")
        await client.produce("orders", values=[b"a", b"b"])
        await client.partition("orders").commits.durable(2)
        assert (await epoch_end(client, 0)).end_offset == 2

    async def second(client: Client) -> None:
        assert client.partition("orders").leader_epoch == 1
        before = [await epoch_end(client, epoch) for epoch in (0, 1, 2)]
        assert [(end.leader_epoch, end.end_offset) for end in before] == [(0, 2), (1, 2), (-1, -1)]
        await client.produce("orders", values=[b"c"])
        after = [await epoch_end(client, epoch) for epoch in (0, 1, 2)]
        assert [(end.leader_epoch, end.end_offset) for end in after] == [(0, 2), (1, 3), (-1, -1)]

    told(first, second, cut_power=True)


@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    limit=st.integers(-1, 12),
    named=st.booleans(),
)
@settings(max_examples=25)
def test_pages_show_every_partition_once(sizes: list[int], limit: int, named: bool) -> None:
    names = [f"topic-{index}" for index in range(len(sizes))]

    async def story(client: Client) -> None:
        for name, count in zip(names, sizes, strict=True):
            await client.create(name, partitions=count)
        seen: list[tuple[str | None, int]] = []
        cursor = None
        for _page in range(sum(sizes) + 1):
            request = describe_topic_partitions.DescribeTopicPartitionsRequest(
                topics=[describe_topic_partitions.TopicRequest(name=name) for name in names] if named else [],
                response_partition_limit=limit,
                cursor=cursor,
            )
            answer = await client.ask(request)
            page = [(topic.name, one.partition_index) for topic in answer.topics for one in topic.partitions]
            assert len(page) <= max(1, limit)
            seen += page
            cursor = answer.next_cursor
            if cursor is None:
                break
        assert cursor is None
        assert seen == [
            (name, index) for name, count in zip(names, sizes, strict=True) for index in range(count)
        ]

    told(story)


def test_no_page_is_larger_than_the_broker_allows() -> None:
    async def story(client: Client) -> None:
        await client.create("orders", partitions=5)
        answer = await client.ask(describe_topic_partitions.DescribeTopicPartitionsRequest())
        assert [len(topic.partitions) for topic in answer.topics] == [3]
        assert answer.next_cursor == describe_topic_partitions.Cursor(topic_name="orders", partition_index=3)

    told(story, max_request_partition_size_limit="3")


@pytest.mark.parametrize("version", range(7))
def test_this_broker_coordinates_groups_and_transactions(version: int) -> None:
    async def story(client: Client) -> None:
        parts = client.broker.parts
        if version < 4:
            one = await client.ask(FindCoordinatorRequest(key="group", key_type=min(version, 1)), version)
            assert (one.error_code, one.node_id, one.port) == (
                ErrorCode.NONE,
                parts.administration.node_id,
                client.broker.address[1],
            )
            return
        many = await client.ask(FindCoordinatorRequest(coordinator_keys=["a", "b"], key_type=1), version)
        assert [(found.key, found.error_code, found.node_id) for found in many.coordinators] == [
            ("a", ErrorCode.NONE, parts.administration.node_id),
            ("b", ErrorCode.NONE, parts.administration.node_id),
        ]
        assert parts.partitions.get("__transaction_state", 49) is not None
        wrong = await client.ask(FindCoordinatorRequest(coordinator_keys=["a"], key_type=5), version)
        assert [found.error_code for found in wrong.coordinators] == [ErrorCode.INVALID_REQUEST]

    told(story)

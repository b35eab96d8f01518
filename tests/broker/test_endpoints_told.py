"""A client is told of brokers as they can be reached through the listener it came through.

Method: a second broker is registered as a controller elsewhere would have it, with and without the client's listener, and leads; every
answer that names brokers is looked at.
"""

import uuid

import pytest

from semel.core.metadata.brokers import Endpoint, RegisteredBroker
from semel.core.metadata.partition_state import PartitionState
from semel.core.metadata.rows import BrokerRow, Change, TopicRow
from semel.core.wire.messages.describe_cluster import DescribeClusterRequest
from semel.core.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from semel.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from semel.core.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.core.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from semel.errors import ErrorCode
from support.broker.admin_kit import Client, told

ORDERS = uuid.UUID(int=1)
BETWEEN_BROKERS = ("REPLICATION", Endpoint("inside", 9094))
FOR_CLIENTS = ("PLAINTEXT", Endpoint("elsewhere", 9093))
HERE = ("127.0.0.1", 9092)


async def led_elsewhere(client: Client, *endpoints: tuple[str, Endpoint]) -> None:
    """Broker 2 is there, and leads the partition of orders and those of the groups."""
    state = PartitionState((2,), (2,), 2, leader_epoch=0, partition_epoch=0)
    rows: list[Change] = [
        BrokerRow(RegisteredBroker(2, dict(endpoints))),
        TopicRow("orders", ORDERS, (state,)),
        TopicRow("__consumer_offsets", uuid.UUID(int=2), (state,)),
    ]
    image = client.broker.parts.store.image
    await client.broker.applier.apply([delta for row in rows for delta in image.apply(row)])


async def endpoints_told(client: Client) -> dict[str, list[tuple[int, str, int]]]:
    """Brokers other than this one, by the request that was answered with them."""
    metadata = await client.ask(MetadataRequest(topics=[]))
    cluster = await client.ask(DescribeClusterRequest())
    found = await client.ask(FindCoordinatorRequest(coordinator_keys=["readers"]))
    fetch = FetchRequest(
        topics=[FetchTopic(topic_id=ORDERS.bytes, partitions=[FetchPartition(partition=0)])],
    )
    fetched = await client.ask(fetch)
    assert fetched.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (metadata.brokers[0].host, metadata.brokers[0].port) == HERE
    return {
        "Metadata": [(one.node_id, one.host, one.port) for one in metadata.brokers[1:]],
        "DescribeCluster": [(one.broker_id, one.host, one.port) for one in cluster.brokers[1:]],
        "FindCoordinator": [(one.node_id, one.host, one.port) for one in found.coordinators],
        "Fetch": [(one.node_id, one.host, one.port) for one in fetched.node_endpoints],
    }


def test_a_broker_is_told_of_by_the_client_s_listener_not_by_its_first() -> None:
    async def story(client: Client) -> None:
        await led_elsewhere(client, BETWEEN_BROKERS, FOR_CLIENTS)
        there = [(2, "elsewhere", 9093)]
        assert await endpoints_told(client) == dict.fromkeys(
            ("Metadata", "DescribeCluster", "FindCoordinator", "Fetch"), there
        )

    told(story)


@pytest.mark.parametrize(
    ("version", "code"), [(5, ErrorCode.LEADER_NOT_AVAILABLE), (6, ErrorCode.LISTENER_NOT_FOUND)]
)
def test_a_leader_without_the_client_s_listener_is_none(version: int, code: ErrorCode) -> None:
    async def story(client: Client) -> None:
        await led_elsewhere(client, BETWEEN_BROKERS)
        assert await endpoints_told(client) == {
            "Metadata": [],
            "DescribeCluster": [],
            "FindCoordinator": [(-1, "", -1)],
            "Fetch": [],
        }
        request = MetadataRequest(topics=[MetadataRequestTopic(name="orders")])
        (topic,) = (await client.ask(request, version)).topics
        (partition,) = topic.partitions
        assert (topic.error_code, partition.error_code, partition.leader_id) == (ErrorCode.NONE, code, -1)
        assert partition.offline_replicas == [2]
        described = await client.ask(DescribeTopicPartitionsRequest(topics=[TopicRequest(name="orders")]))
        assert described.topics[0].partitions[0].error_code == ErrorCode.LISTENER_NOT_FOUND

    told(story)

"""The consequences of a change of the metadata do not depend on where it was decided.

Method: changes that no handler of this broker made are put into its image, as a controller elsewhere would have them there, and
their deltas are carried out. Partitions, files and settings are looked at, and the answers that clients get.
"""

import uuid
from dataclasses import replace

from semel.core.metadata.brokers import Endpoint, RegisteredBroker
from semel.core.metadata.partition_state import NO_LEADER, PartitionState, alone
from semel.core.metadata.rows import BrokerConfigRow, BrokerRow, Change, TopicGoneRow, TopicRow
from semel.core.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.core.wire.messages.describe_cluster import DescribeClusterRequest
from semel.core.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponsePartition,
)
from semel.errors import ErrorCode
from support.broker.admin_kit import Client, told

FIRST, SECOND = uuid.UUID(int=1), uuid.UUID(int=2)
ELSEWHERE = RegisteredBroker(2, {"PLAINTEXT": Endpoint("elsewhere", 9093)})


async def follow(client: Client, *changes: Change) -> dict[str, OSError]:
    """Have the broker carry out changes that were decided elsewhere."""
    image, applier = client.broker.parts.store.image, client.broker.applier
    return await applier.apply([delta for change in changes for delta in image.apply(change)])


async def described(client: Client, topic: str) -> list[MetadataResponsePartition]:
    answer = await client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]))
    return answer.topics[0].partitions


def test_a_topic_made_elsewhere_is_here_and_goes_again() -> None:
    async def story(client: Client) -> None:
        row = TopicRow("orders", FIRST, alone(1, 2), {"max.message.bytes": "1000"})
        assert await follow(client, row) == {}
        assert client.directories() == ["orders-0", "orders-1"]
        assert client.partition("orders").log.config.max_message_bytes == 1000
        assert (await client.produce("orders", 1)).error_code == ErrorCode.NONE
        grown = replace(row, states=alone(1, 3), configs={"max.message.bytes": "2000"})
        assert await follow(client, grown) == {}
        assert (await client.produce("orders", 2)).error_code == ErrorCode.NONE
        assert client.partition("orders").log.config.max_message_bytes == 2000
        assert await follow(client, TopicGoneRow("orders")) == {}
        assert (await client.produce("orders", 1)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert client.broker.parts.partitions.topics == []

    told(story)


def test_a_topic_made_again_elsewhere_inherits_nothing() -> None:
    async def story(client: Client) -> None:
        await follow(client, TopicRow("orders", FIRST, alone(1, 2)))
        await client.produce("orders")
        await follow(client, TopicRow("orders", SECOND, alone(1, 1)))
        assert client.partition("orders").topic_id == SECOND
        assert (await client.produce("orders")).base_offset == 0
        assert (await client.produce("orders", 1)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    told(story)


def test_a_removal_that_comes_late_leaves_the_later_topic() -> None:
    """Two changes became durable with one sync, and the second was carried out first."""

    async def story(client: Client) -> None:
        image, applier = client.broker.parts.store.image, client.broker.applier
        await follow(client, TopicRow("orders", FIRST, alone(1, 1)))
        removed = image.apply(TopicGoneRow("orders"))
        made = image.apply(TopicRow("orders", SECOND, alone(1, 1)))
        client.broker.parts.partitions.take_out([TopicRow("orders", FIRST, alone(1, 1))])
        await applier.apply(made)
        await client.produce("orders")
        await applier.apply(removed)
        assert client.partition("orders").topic_id == SECOND
        assert (await client.produce("orders")).base_offset == 1

    told(story)


def test_settings_made_elsewhere_take_effect() -> None:
    async def story(client: Client) -> None:
        await client.create("orders")
        await follow(client, BrokerConfigRow("", {"message.max.bytes": "1234"}))
        assert client.partition("orders").log.config.max_message_bytes == 1234
        assert client.broker.parts.config.value("message.max.bytes") == 1234
        await follow(client, BrokerConfigRow("", {}))
        assert client.broker.parts.config.value("message.max.bytes") != 1234

    told(story)


def test_what_is_led_elsewhere_is_not_led_here() -> None:
    """Leadership moves away, and comes back in a later epoch, with the records that were here."""

    async def story(client: Client) -> None:
        here = alone(1, 1)[0]
        row = TopicRow("orders", FIRST, (here, here))
        await follow(client, BrokerRow(ELSEWHERE), row)
        await client.produce("orders", 1)
        away = PartitionState((2, 1), (2, 1), 2, leader_epoch=1, partition_epoch=1)
        await follow(client, replace(row, states=(here, away)))
        zero, one = await described(client, "orders")
        assert (zero.leader_id, zero.leader_epoch, zero.replica_nodes) == (1, 0, [1])
        assert (one.leader_id, one.leader_epoch, one.replica_nodes, one.isr_nodes) == (2, 1, [2, 1], [2, 1])
        assert (one.error_code, one.offline_replicas) == (ErrorCode.NONE, [])
        assert (await client.produce("orders", 1)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (await client.produce("orders", 0)).error_code == ErrorCode.NONE
        nobody = replace(away, leader=NO_LEADER, leader_epoch=2)
        await follow(client, replace(row, states=(here, nobody)))
        assert (await described(client, "orders"))[1].error_code == ErrorCode.LEADER_NOT_AVAILABLE
        await follow(client, replace(row, states=(here, replace(away, leader=1, leader_epoch=3))))
        assert client.partition("orders", 1).leader_epoch == 3
        assert (await client.produce("orders", 1)).base_offset == 1

    told(story)


def test_clients_are_told_of_every_broker() -> None:
    async def story(client: Client) -> None:
        await follow(client, BrokerRow(ELSEWHERE))
        cluster = await client.ask(DescribeClusterRequest())
        assert [(one.broker_id, one.host, one.port) for one in cluster.brokers] == [
            (1, "127.0.0.1", 9092),
            (2, "elsewhere", 9093),
        ]
        metadata = await client.ask(MetadataRequest(topics=[]))
        assert [one.node_id for one in metadata.brokers] == [1, 2]
        assert metadata.controller_id == cluster.controller_id == 1

    told(story)


def test_replicas_are_as_many_as_there_are_brokers_for() -> None:
    async def story(client: Client) -> None:
        async def create(factor: int) -> tuple[int, str | None]:
            wanted = CreatableTopic(name="orders", num_partitions=1, replication_factor=factor)
            request = CreateTopicsRequest(topics=[wanted], validate_only=True)
            (topic,) = (await client.ask(request)).topics
            return topic.error_code, topic.error_message

        code, message = await create(2)
        assert code == ErrorCode.INVALID_REPLICATION_FACTOR
        assert "only 1 broker(s) are registered" in (message or "")
        await follow(client, BrokerRow(ELSEWHERE))
        assert (await create(2))[0] == ErrorCode.NONE
        assert "only 2 broker(s) are registered" in ((await create(3))[1] or "")

    told(story)

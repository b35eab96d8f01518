"""Topics and settings by aiokafka's AIOKafkaAdminClient."""

import asyncio
from typing import Any

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from semel.errors import ErrorCode
from support.compat.compat_clients import AioKafka
from support.compat.compat_kit import Sent, ThreadBroker


def test_a_topic_is_made_described_grown_changed_and_deleted(broker: ThreadBroker, topic: str) -> None:
    async def story() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
        await admin.start()
        try:
            new = NewTopic(topic, 2, 1, topic_configs={"retention.ms": "60000"})
            made = await admin.create_topics([new])
            assert made.topic_errors[0][:2] == (topic, 0)
            again = await admin.create_topics([new])
            assert again.topic_errors[0][:2] == (topic, ErrorCode.TOPIC_ALREADY_EXISTS)
            grown = await admin.create_partitions({topic: NewPartitions(4)})
            assert grown.topic_errors[0][:2] == (topic, 0)
            [described] = await admin.describe_topics([topic])
            assert sorted(partition["partition"] for partition in described["partitions"]) == [0, 1, 2, 3]
            assert await retention(admin) == "60000"
            changed = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "70000"})
            await admin.alter_configs([changed])
            assert await retention(admin) == "70000"
            await admin.delete_topics([topic])
            assert topic not in await admin.list_topics()
        finally:
            await admin.close()

    async def retention(admin: Any) -> str:
        [response] = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        [resource] = response.resources
        entries = {entry[0]: entry[1] for entry in resource[4]}
        return str(entries["retention.ms"])

    asyncio.run(story())


def test_records_are_deleted(broker: ThreadBroker, topic: str) -> None:
    async def story() -> dict[TopicPartition, int]:
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
        await admin.start()
        try:
            found: dict[TopicPartition, int] = await admin.delete_records(
                {TopicPartition(topic, 1): RecordsToDelete(before_offset=12)}
            )
            cluster = await admin.describe_cluster()
            assert broker.broker is not None
            assert cluster["cluster_id"] == broker.broker.parts.administration.cluster_id
            return found
        finally:
            await admin.close()

    AioKafka().produce(broker.bootstrap, topic, [Sent(1, None, b"%d" % n) for n in range(30)])
    assert asyncio.run(story()) == {TopicPartition(topic, 1): 12}
    assert AioKafka().offsets(broker.bootstrap, topic, 1) == (12, 30)

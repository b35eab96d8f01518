"""Topics and settings by confluent-kafka's AdminClient."""

from concurrent.futures import Future
from typing import Any

import confluent_kafka as ck
import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from support.compat.compat_clients import ConfluentKafka
from support.compat.compat_kit import Sent, ThreadBroker


def result(futures: dict[Any, Future[Any]]) -> Any:
    [future] = futures.values()
    return future.result(30)


def test_a_topic_is_made_described_grown_changed_and_deleted(broker: ThreadBroker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    result(
        admin.create_topics(
            [NewTopic(topic, num_partitions=2, replication_factor=1, config={"retention.ms": "60000"})]
        )
    )
    with pytest.raises(KafkaException) as exists:
        result(admin.create_topics([NewTopic(topic, 2, 1)]))
    assert exists.value.args[0].code() == ck.KafkaError.TOPIC_ALREADY_EXISTS
    described = result(admin.describe_topics(ck.TopicCollection([topic])))
    assert [(p.id, p.leader.id, [node.id for node in p.isr]) for p in described.partitions] == [
        (0, 1, [1]),
        (1, 1, [1]),
    ]
    result(admin.create_partitions([NewPartitions(topic, 4)]))
    assert len(admin.list_topics(topic, timeout=30).topics[topic].partitions) == 4

    resource = ConfigResource(ResourceType.TOPIC, topic)
    assert result(admin.describe_configs([resource]))["retention.ms"].value == "60000"
    resource.add_incremental_config(
        ConfigEntry("retention.ms", "70000", incremental_operation=AlterConfigOpType.SET)
    )
    result(admin.incremental_alter_configs([resource]))
    entry = result(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))["retention.ms"]
    assert (entry.value, entry.is_default, entry.is_read_only) == ("70000", False, False)
    wrong = ConfigResource(ResourceType.TOPIC, topic)
    wrong.add_incremental_config(
        ConfigEntry("retention.ms", "long", incremental_operation=AlterConfigOpType.SET)
    )
    with pytest.raises(KafkaException) as refused:
        result(admin.incremental_alter_configs([wrong]))
    assert refused.value.args[0].code() == ck.KafkaError.INVALID_CONFIG

    result(admin.delete_topics([topic]))
    gone = admin.list_topics(timeout=30).topics
    assert topic not in gone


def test_records_are_deleted_and_offsets_listed(broker: ThreadBroker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    client = ConfluentKafka()
    client.produce(broker.bootstrap, topic, [Sent(1, None, b"%d" % n) for n in range(30)])
    place = TopicPartition(topic, 1)
    deleted = result(admin.delete_records([TopicPartition(topic, 1, 12)]))
    assert deleted.low_watermark == 12
    earliest = result(admin.list_offsets({place: OffsetSpec.earliest()}))
    latest = result(admin.list_offsets({place: OffsetSpec.latest()}))
    assert (earliest.offset, latest.offset) == (12, 30)
    assert client.read(broker.bootstrap, topic, 1, 12, 18)[0].value == b"12"


def test_the_cluster_describes_itself(broker: ThreadBroker) -> None:
    assert broker.broker is not None
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    cluster = admin.describe_cluster(request_timeout=30).result(30)
    assert cluster.cluster_id == broker.broker.parts.administration.cluster_id
    assert [f"{node.host}:{node.port}" for node in cluster.nodes] == [broker.bootstrap]
    assert cluster.controller.id == 1

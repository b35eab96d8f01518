"""Topics and settings by kafka-python's KafkaAdminClient."""

from collections.abc import Iterator
from typing import Any

import kafka
import pytest
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.errors import TopicAlreadyExistsError

from support.compat.compat_clients import KafkaPython
from support.compat.compat_kit import Sent, ThreadBroker


@pytest.fixture
def admin(broker: ThreadBroker) -> Iterator[Any]:
    client = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    yield client
    client.close()


def test_a_topic_is_made_described_grown_changed_and_deleted(admin: Any, topic: str) -> None:
    made = {topic: {"num_partitions": 2, "replication_factor": 1, "configs": {"retention.ms": "60000"}}}
    admin.create_topics(made)
    assert topic in admin.list_topics()
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics(made)
    admin.create_partitions({topic: 4})
    [described] = admin.describe_topics([topic])
    assert [partition["leader_id"] for partition in described["partitions"]] == [1] * 4

    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    assert value(admin, resource, "retention.ms") == "60000"
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "70000"})])
    assert value(admin, resource, "retention.ms") == "70000"
    refused = admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "long"})])
    assert "InvalidConfigurationError" in refused["topic"][topic]
    admin.delete_topics([topic])
    assert topic not in admin.list_topics()


def test_records_are_deleted_and_sizes_told(broker: ThreadBroker, admin: Any, topic: str) -> None:
    KafkaPython().produce(broker.bootstrap, topic, [Sent(1, None, b"%d" % n) for n in range(30)])
    place = kafka.TopicPartition(topic, 1)
    admin.delete_records({place: 12})
    assert KafkaPython().offsets(broker.bootstrap, topic, 1) == (12, 30)
    cluster = admin.describe_cluster()
    assert broker.broker is not None
    assert cluster["cluster_id"] == broker.broker.parts.administration.cluster_id


def value(admin: Any, resource: Any, name: str) -> str:
    return str(admin.describe_configs([resource])["topic"][resource.name][name]["value"])

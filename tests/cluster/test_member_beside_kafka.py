"""A real Kafka 3.9.2 and a real ZooKeeper take a member of ours for one of Kafka's.

Method: our member founds the cluster and formats Kafka's data directory; Kafka starts on both. Then each changes settings, quotas and
topics, and the other must see them; Kafka's controller must talk to the socket that our member registered.
"""

import asyncio
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from semel.aio import Admin
from semel.client.values.administration import ConfigResource, ConfigResourceType, QuotaEntry
from semel.cluster.member import Member
from semel.cluster.registration import DuplicateBrokerIdError, EndpointTakenError
from semel.cluster.zookeeper.client import Settings
from semel.cluster.zookeeper.connect_string import Servers
from semel.cluster.zookeeper_store import ZooKeeperStore
from semel.core.metadata.brokers import Endpoint, RegisteredBroker
from semel.core.metadata.rows import (
    BrokerConfigRow,
    BrokersRow,
    ClientQuotaRow,
    TopicConfigRow,
)
from semel.core.security.scram_credentials import Mechanism
from semel.core.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from semel.core.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from semel.core.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from semel.errors import Refuse, SemelError
from semel.log.directory import LogDirectory
from semel.log.identity import Identity, Kind, read
from semel.peers.kafka import KafkaHome
from semel.runtime.bundle import real_runtime
from semel.runtime.files import RealFiles
from support.cluster.kafka_under_zookeeper import kafka_under_zookeeper
from support.cluster.scripted_controller import Said, ScriptedController
from support.peers.zookeeper import real_zookeeper

pytestmark = pytest.mark.java
CHROOT = "/kafka/one"
KAFKA, OURS = 1, 2
SECONDS = 60.0


class Cluster(NamedTuple):
    """ZooKeeper, and one broker of Kafka."""

    settings: Settings
    connect: str
    kafka: str
    cluster_id: str


def _failed(error: SemelError) -> None:
    raise AssertionError(str(error))


async def _joined(settings: Settings, **known: str) -> tuple[Member, str]:
    member = Member(real_runtime(), settings, on_fatal=_failed)
    await member.connect()
    return member, await member.cluster_id("AbCdEfGhIjKlMnOpQrStUv", **known)


async def _left(member: Member) -> None:
    await member.close()
    await member.runtime.tasks.close()


@pytest.fixture(scope="module")
def cluster(old_kafka_home: KafkaHome, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Founded by a member of ours, on a data directory of ours."""
    with real_zookeeper(tmp_path_factory.mktemp("zookeeper")) as port:
        settings = Settings(Servers((("127.0.0.1", port),), CHROOT), connection_timeout_ms=30_000)

        async def found() -> str:
            member, cluster_id = await _joined(settings)
            await _left(member)
            return cluster_id

        cluster_id = asyncio.run(found())
        directory = tmp_path_factory.mktemp("kafka")
        formatted = LogDirectory.open(
            RealFiles(), str(directory / "data"), node_id=KAFKA, cluster_id=cluster_id, kind=Kind.MEMBER
        )
        formatted.claim()
        formatted.close(0)
        connect = f"127.0.0.1:{port}{CHROOT}"
        with kafka_under_zookeeper(
            old_kafka_home, directory, connect, {"offsets.topic.num.partitions": "1"}
        ) as kafka:
            _kafka_kept_what_is_ours(directory / "data", cluster_id)
            yield Cluster(settings, connect, kafka, cluster_id)


def _kafka_kept_what_is_ours(data: Path, cluster_id: str) -> None:
    assert read(RealFiles(), str(data)) == Identity(Kind.MEMBER, KAFKA, cluster_id)


async def _until(what: Callable[[], object]) -> None:
    async with asyncio.timeout(SECONDS):
        while not what():
            await asyncio.sleep(0.02)


def _store(member: Member, broker_id: int = OURS) -> ZooKeeperStore:
    return ZooKeeperStore(
        member, broker_id=broker_id, protocols={"PLAINTEXT": "PLAINTEXT"}, supported_features={}
    )


@pytest.mark.mission("ZK-13")
def test_settings_go_both_ways(cluster: Cluster, old_kafka_home: KafkaHome) -> None:
    topic = ConfigResource(ConfigResourceType.TOPIC, "orders")
    everyone = ConfigResource(ConfigResourceType.BROKER, "")

    async def value(admin: Admin, resource: ConfigResource, key: str) -> str | None:
        return (await admin.describe_configs(resource, keys=[key]))[resource][key].value

    async def story() -> None:
        async with Admin(bootstrap_servers=cluster.kafka) as admin:
            await admin.create_topics("orders")
            await admin.incremental_alter_configs({topic: {"retention.ms": "1000"}})
            member, _id = await _joined(cluster.settings, known=cluster.cluster_id)
            store = _store(member)
            await store.start()
            assert store.image.topic_configs("orders") == {"retention.ms": "1000"}
            # Kafka's changes reach us.
            await admin.incremental_alter_configs({topic: {"segment.ms": "2000"}})
            await admin.incremental_alter_configs({everyone: {"log.cleaner.threads": "2"}})
            await admin.alter_client_quotas(QuotaEntry({"user": "ann b"}, {"producer_byte_rate": 1024.0}))
            await _until(lambda: store.image.client_quotas)
            assert store.image.topic_configs("orders") == {"retention.ms": "1000", "segment.ms": "2000"}
            assert store.image.broker_configs() == {"log.cleaner.threads": "2"}
            assert store.image.client_quotas == {(("user", "ann b"),): {"producer_byte_rate": 1024.0}}
            # Ours reach Kafka.
            await store.commit([TopicConfigRow("orders", {"segment.ms": "3000"})])
            await store.commit([BrokerConfigRow("", {"log.cleaner.threads": "3"})])
            await store.commit([ClientQuotaRow((("user", "ann b"),), {"request_percentage": 12.5})])
            async with asyncio.timeout(SECONDS):
                while await value(admin, topic, "segment.ms") != "3000":
                    await asyncio.sleep(0.02)
                while await value(admin, everyone, "log.cleaner.threads") != "3":
                    await asyncio.sleep(0.02)
                while (found := (await admin.describe_client_quotas())[0].quotas) != {
                    "request_percentage": 12.5
                }:
                    assert found
                    await asyncio.sleep(0.02)
            assert await value(admin, topic, "retention.ms") != "1000"
            # Kafka's tool writes credentials past every broker.
            tool = old_kafka_home.run
            await asyncio.to_thread(
                tool, "kafka.admin.ConfigCommand", "--zookeeper", cluster.connect, "--alter", "--entity-type", "users",
                "--entity-name", "ann b", "--add-config", "SCRAM-SHA-512=[iterations=5000,password=secret]",
            )  # fmt: skip
            await _until(lambda: ("ann b", Mechanism.SHA_512) in store.image.scram)
            assert store.image.scram["ann b", Mechanism.SHA_512].iterations == 5000
            await store.close()
            await member.runtime.tasks.close()

    asyncio.run(story())


@pytest.mark.mission("ZK-04")
def test_kafka_makes_a_topic_of_ours(cluster: Cluster) -> None:
    async def story() -> None:
        member, _id = await _joined(cluster.settings, known=cluster.cluster_id)
        store = _store(member)
        await store.start()
        kafka = RegisteredBroker(KAFKA, {"PLAINTEXT": Endpoint("127.0.0.1", 1)})
        await store.tell([BrokersRow((kafka,))])
        topic_id = uuid.UUID(int=1 << 100 | 7)
        refused = await store.create_topic(
            "made", topic_id=topic_id, partitions=3, replication_factor=1, configs={"retention.ms": "7"}
        )
        assert refused is None
        async with Admin(bootstrap_servers=cluster.kafka) as admin, asyncio.timeout(SECONDS):
            while "made" not in {one.name for one in await admin.list_topics()}:
                await asyncio.sleep(0.02)
            found = (await admin.describe_topics("made"))["made"]
            assert found.topic_id == topic_id
            assert [partition.replicas for partition in found.partitions] == [(KAFKA,)] * 3
            assert [partition.leader for partition in found.partitions] == [KAFKA] * 3
            resource = ConfigResource(ConfigResourceType.TOPIC, "made")
            assert (await admin.describe_configs(resource))[resource]["retention.ms"].value == "7"
        again = await store.create_topic(
            "made", topic_id=uuid.UUID(int=8), partitions=1, replication_factor=1, configs={}
        )
        assert isinstance(again, Refuse)
        await store.close()
        await member.runtime.tasks.close()

    asyncio.run(story())


@pytest.mark.mission("ZK-03", "ZK-06")
def test_kafkas_controller_comes_to_the_socket_that_was_registered(cluster: Cluster) -> None:
    def answer(request: object) -> Said:
        match request:
            case UpdateMetadataRequest():
                return UpdateMetadataResponse()
            case LeaderAndIsrRequest():
                return LeaderAndIsrResponse()
            case StopReplicaRequest():
                return StopReplicaResponse()
            case _:
                return None

    async def story() -> None:
        member, _id = await _joined(cluster.settings, known=cluster.cluster_id)
        store, controller = _store(member), ScriptedController(answer)
        listener = await controller.listen(member.runtime, 0)
        port = controller.address.port
        await store.start()
        await store.register(RegisteredBroker(OURS, {"PLAINTEXT": Endpoint("127.0.0.1", port)}, rack="r2"))
        await _until(lambda: controller.asked)
        told = controller.asked[0]
        assert isinstance(told, UpdateMetadataRequest)
        assert told.broker_epoch == store.broker_epoch
        (ours,) = [one for one in told.live_brokers if one.id == OURS]
        assert ours.rack == "r2"
        assert [(one.listener, one.port, one.security_protocol) for one in ours.endpoints] == [
            ("PLAINTEXT", port, 0)
        ]
        await store.close()
        await listener.close(grace_seconds=0)
        await member.runtime.tasks.close()

    asyncio.run(story())


@pytest.mark.mission("ZK-03")
def test_an_id_or_an_endpoint_of_kafka_is_not_ours(cluster: Cluster) -> None:
    host, port = cluster.kafka.split(":")
    theirs = {"PLAINTEXT": Endpoint(host, int(port))}

    async def story() -> None:
        for broker, refused, words in (
            (
                RegisteredBroker(KAFKA, {"PLAINTEXT": Endpoint(host, 1)}),
                DuplicateBrokerIdError,
                cluster.kafka,
            ),
            (RegisteredBroker(OURS, theirs), EndpointTakenError, "broker 1"),
        ):
            member, _id = await _joined(cluster.settings, known=cluster.cluster_id)
            store = _store(member)
            await store.start()
            async with asyncio.timeout(SECONDS):
                with pytest.raises(refused, match=words):
                    await store.register(broker)
            await store.close()
            await member.runtime.tasks.close()

    asyncio.run(story())

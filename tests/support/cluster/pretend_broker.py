"""A Kafka 3.9.2 controller with ZooKeeper, and brokers without a log that are registered beside it and obey it."""

import asyncio
import contextlib
import subprocess
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from semel.cluster.zookeeper.client import Settings, ZooKeeperClient
from semel.cluster.zookeeper.connect_string import Servers
from semel.cluster.zookeeper.recipes import Registration
from semel.core.cluster import documents, paths
from semel.core.cluster.documents import BrokerNode, StateNode, TopicNode
from semel.core.metadata.brokers import Endpoint
from semel.core.wire import framing
from semel.core.wire.message import Response
from semel.core.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from semel.core.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from semel.core.wire.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)
from semel.core.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from semel.core.wire.registry import ApiKey
from semel.errors import ErrorCode
from semel.net.inbound import InboundConnection
from semel.net.listener import Listener
from semel.net.reply import Reply
from semel.peers import children
from semel.peers.kafka import KafkaHome, PeerFailedError, _free_ports, java
from semel.runtime.bundle import Runtime
from semel.types import Address, TopicPartition
from support.peers.zookeeper import real_zookeeper

_START_SECONDS: Final = 240
_SOON_SECONDS: Final = 60
_STARTED: Final = b"] started (kafka.server.KafkaServer)"


@contextlib.contextmanager
def kafka_controller(home: KafkaHome, directory: Path) -> Iterator[int]:
    """ZooKeeper, and broker 1 that is the controller; the port of ZooKeeper."""
    with real_zookeeper(directory / "zookeeper") as zookeeper:
        (port,) = _free_ports(1)
        settings = {
            "broker.id": "1",
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "log.dirs": str(directory / "data"),
            "zookeeper.connect": f"127.0.0.1:{zookeeper}",
            "zookeeper.connection.timeout.ms": "60000",
            "auto.leader.rebalance.enable": "false",
            "log.cleaner.enable": "false",
        }
        properties, log = directory / "server.properties", directory / "server.log"
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        with log.open("wb") as output:
            process = subprocess.Popen(
                [
                    *(java(), "-Xmx256M", *home.jvm, home._logging("server")),
                    *("-cp", home.classpath, "kafka.Kafka", str(properties)),
                ],
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        try:
            deadline = time.monotonic() + _START_SECONDS
            while _STARTED not in log.read_bytes():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise PeerFailedError(f"Apache Kafka did not start:\n{log.read_text()[-4000:]}")
                time.sleep(0.05)
            yield zookeeper
        finally:
            children.kill(process)


@dataclass
class PretendBroker:
    """Registered in ZooKeeper; takes every order of the controller and has no records."""

    runtime: Runtime
    node_id: int
    zookeeper: ZooKeeperClient
    epoch: int = -1
    controller: Address | None = None
    """As UpdateMetadata says."""

    def __post_init__(self) -> None:
        self.leads: dict[TopicPartition, LeaderAndIsrPartitionState] = {}
        self.topic_ids: dict[str, uuid.UUID] = {}

    async def until(self, is_true: Callable[[], bool]) -> None:
        """Wait for an order to have come."""
        async with asyncio.timeout(_SOON_SECONDS):
            while not is_true():
                await self.runtime.tasks.sleep(0.02)

    async def create_topic(self, name: str, *replicas: tuple[int, ...]) -> None:
        """As Kafka's tools create one, with a partition per tuple; returns once this broker leads those that begin with it."""
        topic = TopicNode(dict(enumerate(replicas)), topic_id=uuid.uuid4())
        await self.zookeeper.create(paths.topic_configs(name), documents.encode_configs({}))
        await self.zookeeper.create(paths.topic(name), documents.encode_topic(topic))
        mine = {TopicPartition(name, index) for index, ids in enumerate(replicas) if ids[0] == self.node_id}
        await self.until(lambda: mine <= self.leads.keys())

    async def state(self, name: str, index: int) -> tuple[StateNode, int]:
        """What the controller has written of a partition, and the node's version."""
        found = await self.zookeeper.get(paths.state(name, index))
        assert found is not None
        return documents.decode_state(name, index, found.data), found.stat.version

    def handle(self, frame: bytearray, _connection: InboundConnection) -> Reply:
        header, position = framing.read_request_header(frame)
        version = header.api_version
        answer: Response
        match header.api_key:
            case ApiKey.UPDATE_METADATA:
                answer = self._learn(UpdateMetadataRequest.decode(frame, version, position))
            case ApiKey.LEADER_AND_ISR:
                answer = self._become(LeaderAndIsrRequest.decode(frame, version, position))
            case ApiKey.STOP_REPLICA:
                answer = self._stop(StopReplicaRequest.decode(frame, version, position))
            case ApiKey.FETCH:
                answer = self._put_off(FetchRequest.decode(frame, version, position))
            case other:
                raise AssertionError(f"nobody was expected to ask for {ApiKey(other).name}")
        return framing.response_frame(header.correlation_id, answer, version)

    def _put_off(self, request: FetchRequest) -> FetchResponse:
        """A follower fetches, and is to come back later."""
        return FetchResponse(
            responses=[
                FetchableTopicResponse(
                    topic_id=topic.topic_id,
                    partitions=[
                        PartitionData(
                            partition_index=one.partition,
                            error_code=ErrorCode.UNKNOWN_LEADER_EPOCH,
                            high_watermark=-1,
                            records=b"",
                        )
                        for one in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _learn(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        brokers = {
            one.id: Address(one.endpoints[0].host, one.endpoints[0].port) for one in request.live_brokers
        }
        self.controller = brokers.get(request.controller_id)
        return UpdateMetadataResponse()

    def _become(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        topics = []
        for topic in request.topic_states:
            self.topic_ids[topic.topic_name] = uuid.UUID(bytes=topic.topic_id)
            for state in topic.partition_states:
                place = TopicPartition(topic.topic_name, state.partition_index)
                self.leads.pop(place, None)
                if state.leader == self.node_id:
                    self.leads[place] = state
            errors = [
                LeaderAndIsrPartitionError(partition_index=state.partition_index)
                for state in topic.partition_states
            ]
            topics.append(LeaderAndIsrTopicError(topic_id=topic.topic_id, partition_errors=errors))
        return LeaderAndIsrResponse(topics=topics)

    def _stop(self, request: StopReplicaRequest) -> StopReplicaResponse:
        return StopReplicaResponse(
            partition_errors=[
                StopReplicaPartitionError(topic_name=topic.topic_name, partition_index=state.partition_index)
                for topic in request.topic_states
                for state in topic.partition_states
            ]
        )


@contextlib.asynccontextmanager
async def pretend_broker(runtime: Runtime, node_id: int, zookeeper: int) -> AsyncIterator[PretendBroker]:
    """A broker that the controller knows, until the end."""
    settings = Settings(Servers((("127.0.0.1", zookeeper),), ""), session_timeout_ms=30_000)
    client = ZooKeeperClient(runtime, settings, on_event=lambda _event: None)
    broker = PretendBroker(runtime, node_id, client)
    listener = Listener(runtime, broker.handle)
    _host, port = await listener.start("127.0.0.1", 0)
    try:
        await client.open()
        node = BrokerNode({"PLAINTEXT": Endpoint("127.0.0.1", port)}, {"PLAINTEXT": "PLAINTEXT"})
        registered = await Registration(client, paths.broker(node_id)).create(documents.encode_broker(node))
        broker.epoch = registered.czxid
        await broker.until(lambda: broker.controller is not None)
        yield broker
    finally:
        await client.close()
        await listener.close(grace_seconds=0)

"""A broker as a cluster of Apache Kafka under ZooKeeper sees one, of which only following is real.

It registers, answers the controller's requests, and follows what it is told to by the product's own fetchers. It leads nothing.
"""

import asyncio
import json
import time
import uuid
from pathlib import Path

from kazoo.client import KazooClient

from semel.core.metadata.brokers import Endpoint, RegisteredBroker
from semel.core.wire.framing import read_request_header, response_frame
from semel.core.wire.message import Response
from semel.core.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
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
from semel.errors import WireError
from semel.log.config import LogConfig
from semel.net.inbound import InboundConnection
from semel.net.listener import Listener
from semel.net.reply import Reply
from semel.runtime.bundle import Runtime
from support.broker.replication_kit import Node


class PretendMember:
    """Broker `node_id`: one topic's partitions, followed."""

    def __init__(self, runtime: Runtime, node_id: int, zookeeper: str, directory: Path) -> None:
        self._runtime = runtime
        self._directory = directory
        self._zookeeper = KazooClient(zookeeper, timeout=10)
        self._listener = Listener(runtime, self._answer)
        self.node_id = node_id
        self.brokers: dict[int, RegisteredBroker] = {}
        self.node: Node | None = None
        self.broker_epoch = -1

    async def start(self) -> None:
        """Listen, then register: the controller's requests may come at once."""
        host, port = await self._listener.start("127.0.0.1", 0)
        self.broker_epoch = await asyncio.to_thread(self._register, host, port)

    def _register(self, host: str, port: int) -> int:
        document = {
            "version": 5,
            "host": host,
            "port": port,
            "jmx_port": -1,
            "timestamp": str(int(time.time() * 1000)),
            "endpoints": [f"PLAINTEXT://{host}:{port}"],
            "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
            "features": {},
        }
        self._zookeeper.start()
        path = f"/brokers/ids/{self.node_id}"
        self._zookeeper.create(path, json.dumps(document).encode(), ephemeral=True)
        epoch: int = self._zookeeper.exists(path).czxid
        return epoch

    async def close(self) -> None:
        await self._listener.close(grace_seconds=0)
        if self.node is not None:
            await self.node.fetchers.close()
            self.node.directory.close(self._runtime.clock.now_ms())
        await asyncio.to_thread(self._zookeeper.stop)
        self._zookeeper.close()

    def leader_of(self, partition: int) -> tuple[int, int]:
        """Leader and epoch of a partition that is followed; -1 where nothing was said yet."""
        followed = None if self.node is None else self.node.followed.get(partition)
        return (
            (-1, -1) if followed is None else (followed.following.leader_id, followed.following.leader_epoch)
        )

    # The controller's requests

    def _answer(self, frame: bytearray, _connection: InboundConnection) -> Reply:
        header, position = read_request_header(frame)
        response: Response
        match header.api_key:
            case ApiKey.UPDATE_METADATA:
                response = self._update_metadata(
                    UpdateMetadataRequest.decode(frame, header.api_version, position)
                )
            case ApiKey.LEADER_AND_ISR:
                response = self._leader_and_isr(
                    LeaderAndIsrRequest.decode(frame, header.api_version, position)
                )
            case ApiKey.STOP_REPLICA:
                response = self._stop_replica(StopReplicaRequest.decode(frame, header.api_version, position))
            case other:
                raise WireError(
                    f"API {other} is not served"
                )  # Clients come too: they are told of every broker.
        return response_frame(header.correlation_id, response, header.api_version)

    def _update_metadata(self, request: UpdateMetadataRequest) -> Response:
        self.brokers.clear()
        for one in request.live_brokers:
            endpoints = {each.listener: Endpoint(each.host, each.port) for each in one.endpoints}
            self.brokers[one.id] = RegisteredBroker(one.id, endpoints)
        if self.node is not None:
            self.node.fetchers.brokers_changed()
        return UpdateMetadataResponse()

    def _leader_and_isr(self, request: LeaderAndIsrRequest) -> Response:
        answers: list[LeaderAndIsrTopicError] = []
        for topic in request.topic_states:
            rows = []
            for state in topic.partition_states:
                node = self._node_for(
                    topic.topic_name, uuid.UUID(bytes=topic.topic_id), state.partition_index
                )
                node.replicas[state.partition_index].follow(
                    node.surroundings,
                    leader_id=state.leader,
                    leader_epoch=state.leader_epoch,
                    partition_epoch=state.partition_epoch,
                )
                rows.append(LeaderAndIsrPartitionError(partition_index=state.partition_index))
            answers.append(LeaderAndIsrTopicError(topic_id=topic.topic_id, partition_errors=rows))
        return LeaderAndIsrResponse(topics=answers)

    def _node_for(self, topic: str, topic_id: uuid.UUID, index: int) -> Node:
        node = self.node
        if node is None:
            node = self.node = Node(
                self.node_id,
                self.brokers,
                partitions=0,
                topic=topic,
                topic_id=topic_id,
                listener="PLAINTEXT",
                config=LogConfig(segment_bytes=10_000),
            )
            node.open(self._runtime, str(self._directory))
        node.broker_epoch = self.broker_epoch
        node.grow(index + 1)
        return node

    def _stop_replica(self, request: StopReplicaRequest) -> Response:
        rows = []
        for topic in request.topic_states:
            for state in topic.partition_states:
                if self.node is not None and state.partition_index in self.node.followed:
                    self.node.replicas[state.partition_index].unfollow(self.node.surroundings)
                rows.append(
                    StopReplicaPartitionError(
                        topic_name=topic.topic_name, partition_index=state.partition_index
                    )
                )
        return StopReplicaResponse(partition_errors=rows)

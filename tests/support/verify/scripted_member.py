"""A member of a cluster without a log: it registers, obeys every order and remembers it. For tests of the model controller.

It fences nothing and judges nothing, so that a test sees each order as the controller sent it.
"""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field

from semel.cluster.zookeeper.client import Settings, ZooKeeperClient
from semel.cluster.zookeeper.connect_string import Servers
from semel.cluster.zookeeper.recipes import Registration, ensure
from semel.core.cluster import documents, paths
from semel.core.cluster.documents import BrokerNode
from semel.core.metadata.brokers import Endpoint
from semel.core.wire import framing, registry
from semel.core.wire.message import Request, Response
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
from semel.net.connection import connect
from semel.net.inbound import InboundConnection
from semel.net.listener import Listener
from semel.net.reply import Reply
from semel.runtime.bundle import Runtime
from semel.types import TopicPartition
from semel.verify.simulation.actors import controller
from semel.verify.simulation.zookeeper_host import ZOOKEEPER, ZOOKEEPER_PORT

_SESSION_MS = 2000


@dataclass
class ScriptedMember:
    """The actor."""

    number: int
    name: str = ""
    orders: list[Request[Response]] = field(default_factory=list)
    roles: dict[TopicPartition, LeaderAndIsrPartitionState] = field(default_factory=dict)
    """The last role of each partition, as it was ordered."""
    controller_id: int = -1
    controllers: dict[int, str] = field(default_factory=dict)
    """The hosts of all brokers, as metadata says."""
    epoch: int = -1
    answers: asyncio.Event = field(default_factory=asyncio.Event)
    """While it is not set, orders are not answered."""

    def __post_init__(self) -> None:
        self.name = f"member{self.number}"
        self.answers.set()

    def finish(self) -> None:
        """It has no work."""

    def owes(self) -> str | None:
        return None

    async def run(self, runtime: Runtime) -> None:
        self.runtime = runtime
        await Listener(runtime, self._handle).start(self.name, 9092)
        settings = Settings(Servers(((ZOOKEEPER, ZOOKEEPER_PORT),)), session_timeout_ms=_SESSION_MS)
        began = asyncio.Event()
        client = ZooKeeperClient(runtime, settings, on_event=lambda _event: None, on_session=began.set)
        await client.open()
        while True:
            began.clear()
            await ensure(client, paths.BROKER_IDS)
            node = BrokerNode({"PLAINTEXT": Endpoint(self.name, 9092)}, {"PLAINTEXT": "PLAINTEXT"})
            registration = Registration(client, paths.broker(self.number))
            self.epoch = (await registration.create(documents.encode_broker(node))).czxid
            await began.wait()

    def _handle(self, frame: bytearray, _connection: InboundConnection) -> Reply | Awaitable[Reply]:
        header, position = framing.read_request_header(frame)
        request = registry.api(header.api_key).request.decode(frame, header.api_version, position)
        self.orders.append(request)
        return self._answer(request, header)

    async def _answer(self, request: Request[Response], header: framing.RequestHeader) -> Reply:
        await self.answers.wait()
        return framing.response_frame(header.correlation_id, self._obey(request), header.api_version)

    def _obey(self, request: Request[Response]) -> Response:
        match request:
            case LeaderAndIsrRequest():
                for topic in request.topic_states:
                    for state in topic.partition_states:
                        self.roles[TopicPartition(topic.topic_name, state.partition_index)] = state
                return LeaderAndIsrResponse(
                    topics=[
                        LeaderAndIsrTopicError(
                            topic_id=topic.topic_id,
                            partition_errors=[
                                LeaderAndIsrPartitionError(partition_index=state.partition_index)
                                for state in topic.partition_states
                            ],
                        )
                        for topic in request.topic_states
                    ]
                )
            case StopReplicaRequest():
                for stopped in request.topic_states:
                    for one in stopped.partition_states:
                        self.roles.pop(TopicPartition(stopped.topic_name, one.partition_index), None)
                return StopReplicaResponse(
                    partition_errors=[
                        StopReplicaPartitionError(
                            topic_name=stopped.topic_name, partition_index=one.partition_index
                        )
                        for stopped in request.topic_states
                        for one in stopped.partition_states
                    ]
                )
            case UpdateMetadataRequest():
                self.controller_id = request.controller_id
                self.controllers = {one.id: one.endpoints[0].host or "" for one in request.live_brokers}
                return UpdateMetadataResponse()
        raise TypeError(f"nobody sends {request}")

    async def wish(self, request: Request[Response], version: int, *, to: str | None = None) -> Response:
        """Ask a controller: the one that metadata names, unless another is named."""
        host = self.controllers[self.controller_id] if to is None else to
        connection = await connect(
            self.runtime, host, controller.PORT, client_id=str(self.number), timeout_ms=5000
        )
        try:
            return await connection.send(request, version, timeout_ms=5000)
        finally:
            connection.close()

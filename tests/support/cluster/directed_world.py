"""Three brokers that direct their cluster themselves, in one simulated world: real brokers and ZooKeeper's stand-in."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

from semel.core.cluster import documents, paths
from semel.core.cluster.documents import StateNode
from semel.core.wire.message import Request, Response
from semel.core.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from semel.core.zookeeper.machine import Machine
from semel.core.zookeeper.tree import Node
from semel.errors import ErrorCode
from semel.verify.simulation.actors.client import Client
from semel.verify.simulation.world import World
from semel.verify.simulation.zookeeper_host import ZOOKEEPER, ZOOKEEPER_PORT

R = TypeVar("R", bound=Response)
BROKERS: Final = 3
SECONDS_MAX: Final = 300.0
"""Of virtual time: for all that must become true."""
_LOOK_SECONDS: Final = 0.05
_CREATE_VERSION: Final = 7


class DirectedWorld:
    """The world, and a client in it."""

    def __init__(self, seed: int = 0, settings: Mapping[str, str | int | bool] | None = None) -> None:
        own: dict[str, str | int | bool] = {
            "zookeeper.connect": f"{ZOOKEEPER}:{ZOOKEEPER_PORT}",
            "zookeeper.session.timeout.ms": 2000,
            "replica.lag.time.max.ms": 3000,
            "semel.controller.eligible": True,
            **(settings or {}),
        }
        self.world = World(seed, own, brokers=BROKERS, zookeeper=Machine(tick_ms=100))
        self._client: Client | None = None

    def run(self, story: Callable[["DirectedWorld"], Awaitable[None]]) -> None:
        """Play the story once all brokers serve and one of them is the controller."""

        async def play() -> None:
            keepers = self.world.keepers()
            await self.world.until_serving()
            await self.until(lambda: self.controller is not None)
            runtime = self.world.host("client").boot()
            self._client = Client(runtime, "client", 10_000, self.names[0], tuple(self.names[1:]))
            await story(self)
            self.world.is_over = True
            for keeper in keepers:
                keeper.cancel()

        self.world.simulation.run(play())

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for what must become true."""
        async with asyncio.timeout(SECONDS_MAX):
            while not condition():
                await asyncio.sleep(_LOOK_SECONDS)

    # What there is

    @property
    def names(self) -> list[str]:
        return list(self.world.brokers)

    def name(self, broker_id: int) -> str:
        return next(name for name, one in self.world.brokers.items() if one.broker_id == broker_id)

    def node(self, path: str) -> Node | None:
        assert self.world.zookeeper is not None
        return self.world.zookeeper.machine.tree.get(path)

    @property
    def controller(self) -> int | None:
        """The broker that ZooKeeper names."""
        found = self.node(paths.CONTROLLER)
        return None if found is None else documents.decode_controller(found.data)

    @property
    def others(self) -> list[int]:
        """The brokers that are not the controller."""
        return [one.broker_id for one in self.world.brokers.values() if one.broker_id != self.controller]

    def is_registered(self, broker_id: int) -> bool:
        return self.node(paths.broker(broker_id)) is not None

    def state(self, topic: str, partition: int = 0) -> StateNode:
        """Of a partition that the controller has made."""
        found = self.node(paths.state(topic, partition))
        assert found is not None
        return documents.decode_state(topic, partition, found.data)

    def configs(self, entity: str) -> dict[str, str]:
        path = f"{paths.CONFIG}/{entity}"
        found = self.node(path)
        return {} if found is None else documents.decode_configs(path, found.data)

    # What is asked

    async def ask(self, request: Request[R], version: int, broker_id: int | None = None) -> R:
        """A broker's answer; the controller's, if none is named."""
        assert self._client is not None
        asked = self.controller if broker_id is None else broker_id
        assert asked is not None
        return await self._client.ask(request, version, self.name(asked))

    async def create(
        self, topic: str, replicas: Sequence[Sequence[int]], configs: Mapping[str, str] | None = None
    ) -> None:
        """Have the controller make a topic."""
        assignments = [
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(one))
            for index, one in enumerate(replicas)
        ]
        wanted = CreatableTopic(
            name=topic,
            num_partitions=-1,
            replication_factor=-1,
            assignments=assignments,
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in (configs or {}).items()],
        )
        answer = await self.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000), _CREATE_VERSION)
        assert answer.topics[0].error_code == ErrorCode.NONE, answer.topics[0].error_message

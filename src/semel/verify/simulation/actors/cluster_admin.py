"""The administrator of a simulated cluster: works at ZooKeeper's nodes, as Kafka's tools up to 2.8 did.

Role.   Makes topics, deletes them and makes them again under their names, asks for other replicas and for preferred leaders. A
        controller does the rest, whichever is in office.
Rules.  * One job after the other, each until ZooKeeper shows that it is done.
        * From the first write until the new topic has its states, the history says that the name is unsure.
"""

import asyncio
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from semel.cluster.zookeeper.client import (
    SessionExpiredError,
    Settings,
    ZooKeeperClient,
    ZooKeeperUnreachableError,
)
from semel.cluster.zookeeper.connect_string import Servers
from semel.cluster.zookeeper.recipes import ensure
from semel.cluster.zookeeper.session import ZooKeeperError
from semel.core.cluster import documents, paths
from semel.core.cluster.documents import TopicNode
from semel.core.zookeeper.wire.messages import WatchEvent
from semel.core.zookeeper.words import ZooKeeperCode
from semel.runtime.bundle import Runtime
from semel.types import TopicPartition
from semel.verify.history.events import Unsure
from semel.verify.simulation.actors.admin import TopicPlan
from semel.verify.simulation.world import World
from semel.verify.simulation.zookeeper_host import ZOOKEEPER, ZOOKEEPER_PORT

T = TypeVar("T")
_LOOK_SECONDS: Final = (0.05, 0.3)


@dataclass(frozen=True, slots=True)
class _Make:
    plan: TopicPlan
    absent_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class _Reassign:
    place: TopicPartition
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Prefer:
    places: tuple[TopicPartition, ...]


class ClusterAdmin:
    """The actor."""

    name = "admin"

    def __init__(self, world: World, topics: Sequence[TopicPlan], *, factor: int) -> None:
        self._world = world
        self._factor = factor
        self._jobs: deque[_Make | _Reassign | _Prefer] = deque(_Make(topic) for topic in topics)
        self._wake = asyncio.Event()

    def make_again(self, plan: TopicPlan, *, absent_seconds: float = 0.0) -> None:
        """Delete the topic and make another of the same name, at once or after a while."""
        self._give(_Make(plan, absent_seconds))

    def reassign(self, place: TopicPartition, replicas: Sequence[int]) -> None:
        """Let a partition have these replicas."""
        self._give(_Reassign(place, tuple(replicas)))

    def prefer(self, places: Sequence[TopicPartition]) -> None:
        """Let the preferred replicas lead."""
        self._give(_Prefer(tuple(places)))

    def _give(self, job: _Make | _Reassign | _Prefer) -> None:
        self._jobs.append(job)
        self._wake.set()

    async def run(self, runtime: Runtime) -> None:
        process = _Process(self._world, runtime, self._factor)
        await process.connect()
        while True:
            if not self._jobs:
                self._wake.clear()
                await self._wake.wait()
            match self._jobs[0]:
                case _Make(plan, absent_seconds):
                    await process.make(plan, absent_seconds)
                case _Reassign(place, replicas):
                    await process.reassign(place, replicas)
                case _Prefer(places):
                    await process.prefer(places)
            self._jobs.popleft()

    def finish(self) -> None:
        """Nothing more than the jobs there are."""

    def owes(self) -> str | None:
        return f"{len(self._jobs)} jobs, {self._jobs[0]} first" if self._jobs else None


class _Process:
    """One process of it."""

    def __init__(self, world: World, runtime: Runtime, factor: int) -> None:
        self._world = world
        self._runtime = runtime
        self._factor = factor
        self._client = self._new_client()

    def _new_client(self) -> ZooKeeperClient:
        settings = Settings(Servers(((ZOOKEEPER, ZOOKEEPER_PORT),)), session_timeout_ms=6000)
        return ZooKeeperClient(self._runtime, settings, on_event=self._told)

    @staticmethod
    def _told(_event: WatchEvent) -> None:
        """It watches nothing."""

    async def connect(self) -> None:
        while True:
            try:
                await self._client.open()
            except ZooKeeperUnreachableError:
                self._client = self._new_client()
            else:
                return

    async def _surely(self, ask: Callable[[], Awaitable[T]]) -> T:
        """The answer, whatever sessions it takes."""
        while True:
            try:
                return await ask()
            except SessionExpiredError:
                await self._pause()

    async def _pause(self) -> None:
        await self._runtime.tasks.sleep(self._runtime.dice.uniform(*_LOOK_SECONDS))

    async def _is_there(self, path: str) -> bool:
        return await self._surely(lambda: self._client.exists(path)) is not None

    async def _ensure(self, path: str, data: bytes | None = None) -> None:
        await self._surely(lambda: ensure(self._client, path, data))

    async def _put(self, path: str, data: bytes) -> None:
        """The node holds this."""
        await self._ensure(path, data)
        try:
            await self._surely(lambda: self._client.set(path, data))
        except ZooKeeperError as error:
            if error.reason is not ZooKeeperCode.NO_NODE:
                raise
            await self._put(path, data)

    async def _until_gone(self, path: str) -> None:
        while await self._is_there(path):
            await self._pause()

    async def make(self, plan: TopicPlan, absent_seconds: float) -> None:
        since, dice = self._world.now(), self._runtime.dice
        is_again = await self._is_there(paths.topic(plan.name))
        self._world.tell(f"the admin makes {plan.name}{' again' if is_again else ''}")
        if is_again:
            await self._ensure(paths.deletion(plan.name))
            await self._until_gone(paths.topic(plan.name))
            await self._until_gone(paths.deletion(plan.name))
            self._world.tell(f"{plan.name} is gone for {absent_seconds:.3f} s")
            await self._runtime.tasks.sleep(absent_seconds)
        await self._put(paths.topic_configs(plan.name), documents.encode_configs(plan.configs))
        topic_id = uuid.UUID(int=dice.getrandbits(128))
        brokers = [host.broker_id for host in self._world.brokers.values()]
        replicas = {index: tuple(dice.sample(brokers, self._factor)) for index in range(plan.partitions)}
        await self._ensure(paths.TOPICS)
        await self._ensure(paths.topic(plan.name), documents.encode_topic(TopicNode(replicas, topic_id)))
        for index in range(plan.partitions):
            while not await self._is_there(paths.state(plan.name, index)):
                await self._pause()
        self._world.history.add(Unsure(plan.name, since, self._world.now(), topic_id.bytes))

    async def reassign(self, place: TopicPartition, replicas: tuple[int, ...]) -> None:
        self._world.tell(f"the admin wants {place} on {list(replicas)}")
        await self._put(paths.REASSIGN_PARTITIONS, documents.encode_reassignments({place: replicas}))
        await self._until_gone(paths.REASSIGN_PARTITIONS)

    async def prefer(self, places: tuple[TopicPartition, ...]) -> None:
        self._world.tell("the admin wants preferred leaders")
        await self._put(paths.PREFERRED_REPLICA_ELECTION, documents.encode_partitions(places))
        await self._until_gone(paths.PREFERRED_REPLICA_ELECTION)

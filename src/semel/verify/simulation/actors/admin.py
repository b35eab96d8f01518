"""The administrator of a simulated world: makes topics, makes them again under the same name, deletes them and records.

Role.   Does one job after the other until the broker has confirmed it, through every disturbance.
Rules.  * A topic is deleted by its id: a request that arrives long after it was given up cannot hit the next one.
        * From the first request until the broker names the new topic, the history says that the name is unsure.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from semel.core.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from semel.core.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from semel.core.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from semel.errors import DisconnectedError
from semel.runtime.bundle import Runtime
from semel.verify.history.events import Place, RecordsDeleted, Unsure
from semel.verify.simulation.actors.client import Client
from semel.verify.simulation.world import BROKER, World

_CREATE_VERSION: Final = 7
_DELETE_VERSION: Final = 6
_DELETE_RECORDS_VERSION: Final = 2
_HIGH_WATERMARK: Final = -1
_NO_TOPIC: Final = b""
_BACK_OFF_SECONDS: Final = (0.02, 0.5)


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic of the world."""

    name: str
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Make:
    plan: TopicPlan
    absent_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class _Delete:
    plan: TopicPlan


@dataclass(frozen=True, slots=True)
class _DeleteRecords:
    plan: TopicPlan
    partition: int


class Admin:
    """The actor."""

    name = "admin"

    def __init__(
        self,
        world: World,
        topics: list[TopicPlan],
        *,
        request_timeout_ms: int = 3000,
        through: str = BROKER,
    ) -> None:
        self._world = world
        self._through = through
        if through != BROKER:
            self.name = f"{Admin.name}-{through}"
        self._timeout_ms = request_timeout_ms
        self._jobs: deque[_Make | _Delete | _DeleteRecords] = deque(_Make(topic) for topic in topics)
        self._known: dict[str, bytes] = {}
        self._wake = asyncio.Event()

    def make_again(self, plan: TopicPlan, *, absent_seconds: float = 0.0) -> None:
        """Delete the topic and make another of the same name, at once or after a while."""
        self._jobs.append(_Make(plan, absent_seconds))
        self._wake.set()

    def delete(self, plan: TopicPlan) -> None:
        """Delete the topic for good."""
        self._jobs.append(_Delete(plan))
        self._wake.set()

    def delete_records(self, plan: TopicPlan, partition: int) -> None:
        """Delete what a partition holds by the time the request arrives."""
        self._jobs.append(_DeleteRecords(plan, partition))
        self._wake.set()

    async def run(self, runtime: Runtime) -> None:
        client = Client(runtime, self.name, self._timeout_ms, self._through)
        while True:
            if not self._jobs:
                self._wake.clear()
                await self._wake.wait()
            match self._jobs[0]:
                case _Make(plan, absent_seconds):
                    await self._make(plan, absent_seconds, client)
                case _Delete(plan):
                    await self._delete(plan, client)
                case _DeleteRecords(plan, partition):
                    await self._delete_records(plan, partition, client)
            self._jobs.popleft()

    def finish(self) -> None:
        """Nothing more than the jobs there are."""

    def owes(self) -> str | None:
        return f"{len(self._jobs)} jobs" if self._jobs else None

    async def _make(self, plan: TopicPlan, absent_seconds: float, client: Client) -> None:
        since = self._world.now()
        old = self._known.get(plan.name)
        self._world.tell(f"the admin makes {plan.name}{' again' if old else ''}")
        tasks, dice = client.runtime.tasks, client.runtime.dice
        if absent_seconds and old is not None:
            await self._until_gone(plan, client)
            self._world.tell(f"{plan.name} is gone for {absent_seconds:.3f} s")
            await tasks.sleep(absent_seconds)
        topic_id: bytes | None = None
        while topic_id is None:
            try:
                topic_id = await self._try_to_make(plan, old, client)
            except DisconnectedError:
                client.disconnect()
            await tasks.sleep(dice.uniform(*_BACK_OFF_SECONDS))
        self._known[plan.name] = topic_id
        self._world.history.add(Unsure(plan.name, since, self._world.now(), topic_id))

    async def _delete(self, plan: TopicPlan, client: Client) -> None:
        since = self._world.now()
        self._known.pop(plan.name)
        await self._until_gone(plan, client)
        self._world.tell(f"{plan.name} is gone for good")
        self._world.history.add(Unsure(plan.name, since, self._world.now(), _NO_TOPIC))

    async def _until_gone(self, plan: TopicPlan, client: Client) -> None:
        while not await self._is_gone(plan, client):
            await client.runtime.tasks.sleep(client.runtime.dice.uniform(*_BACK_OFF_SECONDS))

    async def _is_gone(self, plan: TopicPlan, client: Client) -> bool:
        """Whether the broker does not know the topic any more; else one more attempt to get there.

        It may have another id than the admin was told: a creation whose answer was lost may come late, and make another.
        """
        try:
            await client.refresh([plan.name])
            found = client.topics.get(plan.name)
            if found is None:
                return True
            await client.ask(_deletion(found.topic_id), _DELETE_VERSION)
        except DisconnectedError:
            client.disconnect()
        return False

    async def _try_to_make(self, plan: TopicPlan, old: bytes | None, client: Client) -> bytes | None:
        """The new topic's id once it is there; else one more attempt to get there."""
        await client.refresh([plan.name])
        found = client.topics.get(plan.name)
        if found is not None and found.topic_id != old and found.partitions == plan.partitions:
            return found.topic_id
        if found is not None and found.topic_id == old:
            await client.ask(_deletion(old), _DELETE_VERSION)
        await client.ask(self._creation(plan), _CREATE_VERSION)
        return None

    def _creation(self, plan: TopicPlan) -> CreateTopicsRequest:
        configs = [CreatableTopicConfig(name=name, value=value) for name, value in plan.configs.items()]
        topic = CreatableTopic(
            name=plan.name, num_partitions=plan.partitions, replication_factor=-1, configs=configs
        )
        return CreateTopicsRequest(topics=[topic], timeout_ms=5000)

    async def _delete_records(self, plan: TopicPlan, partition: int, client: Client) -> None:
        """Once: whether an unanswered request was carried out does not matter, a confirmed one does."""
        asked = DeleteRecordsTopic(
            name=plan.name,
            partitions=[DeleteRecordsPartition(partition_index=partition, offset=_HIGH_WATERMARK)],
        )
        try:
            request = DeleteRecordsRequest(topics=[asked], timeout_ms=5000)
            response = await client.ask(request, _DELETE_RECORDS_VERSION)
        except DisconnectedError:
            client.disconnect()
            return
        result = response.topics[0].partitions[0]
        if not result.error_code:
            place = Place(self._known[plan.name], partition)
            self._world.history.add(RecordsDeleted(self._world.now(), place, result.low_watermark))


def _deletion(topic_id: bytes) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=topic_id)], timeout_ms=5000)

"""A consumer that reads everything of a cluster from its leaders, and asks them where it ends.

Role.   Fetches every partition from the broker that leads it as far as is known, writes down every record it got, and, now and
        then, the end that readers may see.
Flow.   metadata -> a task per broker fetches what that one leads -> records into the history; ends go to the witness.
Rules.  * A partition is read from its beginning when it is new, its topic has another id, or its offset is out of range. Each is a
          new turn.
        * An answer counts if the partition is still where it was when it was asked for.
        * Once told to finish it owes a look at every partition, and every offset below the limit of that look.
"""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from semel.core.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from semel.core.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from semel.errors import CorruptBatchError, DisconnectedError, ErrorCode
from semel.runtime.bundle import Runtime
from semel.types import TopicPartition
from semel.verify.history.events import Place, Read
from semel.verify.simulation.actors.client import Client
from semel.verify.simulation.actors.fetched import records_of
from semel.verify.simulation.replicas import EndSeen, Sightings
from semel.verify.simulation.world import World

_BY_ID_SINCE: Final = 13
_LIST_OFFSETS_VERSION: Final = 7
_EARLIEST: Final = -2
_LATEST: Final = -1
_PAUSE_SECONDS: Final = (0.02, 0.3)
_ENDS_SECONDS: Final = (0.1, 1.5)


@dataclass(frozen=True, slots=True)
class Tastes:
    """How one reader reads."""

    version: int
    """Of Fetch."""
    committed: bool
    max_wait_ms: int
    partition_max_bytes: int
    checks_epoch: bool
    """Whether it names the leader epoch it knows."""
    request_timeout_ms: int


@dataclass(slots=True)
class _Position:
    topic_id: bytes
    offset: int
    turn: int
    limit: int = -1
    looked: bool = False


class ClusterReader:
    """The actor."""

    def __init__(
        self,
        world: World,
        name: str,
        tastes: Tastes,
        topics: Sequence[str],
        brokers: Sequence[str],
        seen: Sightings,
    ) -> None:
        self.name = name
        self._world = world
        self._tastes = tastes
        self._topics = list(topics)
        self._brokers = list(brokers)
        self._seen = seen
        self._turns = 0
        self._finishing_since = math.inf
        self._positions: dict[TopicPartition, _Position] = {}
        self._is_stale = True

    async def run(self, runtime: Runtime) -> None:
        self._positions = {}
        self._is_stale = True
        timeout_ms = self._tastes.request_timeout_ms + self._tastes.max_wait_ms
        client = Client(runtime, self.name, timeout_ms, self._brokers[0], tuple(self._brokers[1:]))
        async with asyncio.TaskGroup() as group:
            group.create_task(self._know(client), name=f"{self.name} metadata")
            for broker in self._brokers:
                group.create_task(self._read_from(broker, client), name=f"{self.name} of {broker}")
            group.create_task(self._ask_for_ends(client), name=f"{self.name} ends")

    def finish(self) -> None:
        self._finishing_since = self._world.now()
        for position in self._positions.values():
            position.looked = False

    def owes(self) -> str | None:
        if self._is_stale or {one.topic for one in self._positions} != set(self._topics):
            return "a look at its topics"
        behind = [
            f"{one} at {position.offset} of {position.limit}"
            for one, position in self._positions.items()
            if not position.looked or position.offset < position.limit
        ]
        return f"a look at {', '.join(behind)}" if behind else None

    # Topics

    async def _know(self, client: Client) -> None:
        """Learn what was found to be out of date, for ever."""
        while True:
            await self._pause(client)
            if not self._is_stale and all(name in client.topics for name in self._topics):
                continue
            try:
                client.look_elsewhere()
                await client.refresh(self._topics)
                self._is_stale = False
                for one, position in list(self._positions.items()):
                    known = client.topics.get(one.topic)
                    if known is not None and known.topic_id != position.topic_id:
                        del self._positions[one]
            except DisconnectedError:
                self._is_stale = True

    async def _pause(self, client: Client) -> None:
        await client.runtime.tasks.sleep(client.runtime.dice.uniform(*_PAUSE_SECONDS))

    def _led_by(self, broker: str, client: Client) -> list[TopicPartition]:
        return [
            one
            for name, topic in client.topics.items()
            for index in range(topic.partitions)
            if client.leader(one := TopicPartition(name, index)) == broker
        ]

    # Reading

    async def _read_from(self, broker: str, client: Client) -> None:
        while True:
            led = self._led_by(broker, client)
            if not led:
                await self._pause(client)
                continue
            try:
                await self._find_beginnings(
                    broker, [one for one in led if one not in self._positions], client
                )
                led = self._led_by(broker, client)
                known = {one: self._positions[one] for one in led if one in self._positions}
                if known:
                    await self._fetch(broker, known, client)
                else:
                    await self._pause(client)
            except DisconnectedError:
                self._is_stale = True
                await self._pause(client)

    async def _find_beginnings(self, broker: str, missing: list[TopicPartition], client: Client) -> None:
        if not missing:
            return
        ids = {one.topic: client.topics[one.topic].topic_id for one in missing}
        for one, offset in (await self._offsets(broker, missing, _EARLIEST, client)).items():
            if one.topic in client.topics and client.topics[one.topic].topic_id == ids[one.topic]:
                self._turns += 1
                self._positions.setdefault(one, _Position(ids[one.topic], offset, self._turns))

    async def _offsets(
        self, broker: str, asked: Sequence[TopicPartition], timestamp: int, client: Client
    ) -> dict[TopicPartition, int]:
        topics: dict[str, ListOffsetsTopic] = {}
        for one in asked:
            partition = ListOffsetsPartition(partition_index=one.partition, timestamp=timestamp)
            topics.setdefault(one.topic, ListOffsetsTopic(name=one.topic)).partitions.append(partition)
        request = ListOffsetsRequest(
            replica_id=-1, isolation_level=int(self._tastes.committed), topics=list(topics.values())
        )
        response = await client.ask(request, _LIST_OFFSETS_VERSION, broker)
        found: dict[TopicPartition, int] = {}
        for topic in response.topics:
            for row in topic.partitions:
                if not row.error_code:
                    found[TopicPartition(topic.name, row.partition_index)] = row.offset
                elif row.error_code != ErrorCode.OFFSET_NOT_AVAILABLE:
                    self._is_stale = True
        if self._is_stale and not found:
            await self._pause(client)
        return found

    async def _fetch(self, broker: str, known: dict[TopicPartition, _Position], client: Client) -> None:
        tastes, since = self._tastes, self._world.now()
        asked = {one: position.offset for one, position in known.items()}
        topics: dict[str, FetchTopic] = {}
        for one, position in known.items():
            epochs = client.topics[one.topic].leader_epochs
            topics.setdefault(
                one.topic, FetchTopic(topic=one.topic, topic_id=position.topic_id)
            ).partitions.append(
                FetchPartition(
                    partition=one.partition,
                    current_leader_epoch=epochs[one.partition] if tastes.checks_epoch else -1,
                    fetch_offset=position.offset,
                    partition_max_bytes=tastes.partition_max_bytes,
                )
            )
        request = FetchRequest(
            max_wait_ms=tastes.max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=int(tastes.committed),
            session_id=0,
            session_epoch=-1,
            topics=list(topics.values()),
        )
        response = await client.ask(request, tastes.version, broker)
        if self._take(response, known, asked, since):
            await self._pause(client)

    def _take(
        self,
        response: FetchResponse,
        known: dict[TopicPartition, _Position],
        asked: dict[TopicPartition, int],
        since: float,
    ) -> bool:
        """Whether anything was refused."""
        if response.error_code:
            self._is_stale = True
            return True
        names = {position.topic_id: one.topic for one, position in known.items()}
        refused = False
        for topic in response.responses:
            by_id = self._tastes.version >= _BY_ID_SINCE
            name = names.get(topic.topic_id) if by_id else topic.topic
            for data in topic.partitions:
                one = TopicPartition(name or "", data.partition_index)
                position = known.get(one)
                if position is None or self._positions.get(one) is not position:
                    continue
                if position.offset == asked[one]:
                    refused = self._take_partition(one, position, data, since) or refused
        return refused

    def _take_partition(
        self, one: TopicPartition, position: _Position, data: PartitionData, since: float
    ) -> bool:
        if data.error_code:
            self._is_stale = True
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                self._world.tell(f"{self.name}: offset {position.offset} of {one} is out of range")
                del self._positions[one]
            return True
        position.limit = data.last_stable_offset if self._tastes.committed else data.high_watermark
        position.looked = since >= self._finishing_since
        try:
            records, next_offset = records_of(data, position.offset, committed=self._tastes.committed)
        except CorruptBatchError as error:
            self._world.flaw(f"{self.name} got a damaged batch of {one}: {error}")
            return True
        if records:
            by_id = self._tastes.version >= _BY_ID_SINCE
            self._world.history.add(
                Read(
                    self._world.now(),
                    since,
                    self.name,
                    position.turn,
                    one.topic,
                    position.topic_id if by_id else None,
                    one.partition,
                    tuple(records),
                    position.limit,
                )
            )
        position.offset = next_offset
        return False

    # Ends

    async def _ask_for_ends(self, client: Client) -> None:
        """Where partitions end for readers, for ever."""
        tasks, dice = client.runtime.tasks, client.runtime.dice
        while True:
            await tasks.sleep(dice.uniform(*_ENDS_SECONDS))
            places = sorted(self._positions)
            if not places:
                continue
            place = dice.choice(places)
            topic_id = self._positions[place].topic_id
            broker, since = client.leader(place), self._world.now()
            try:
                found = await self._offsets(broker, [place], _LATEST, client)
            except DisconnectedError:
                self._is_stale = True
                continue
            position = self._positions.get(place)
            if place in found and position is not None:
                self._seen.ends.append(
                    EndSeen(
                        self._world.now(),
                        since,
                        self.name,
                        place.topic,
                        Place(topic_id, place.partition),
                        self._world.brokers[broker].broker_id,
                        self._tastes.committed,
                        found[place],
                    )
                )

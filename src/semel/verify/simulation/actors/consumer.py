"""A consumer that reads everything from the beginning, with or without fetch sessions, committed or not.

Role.   Fetches all partitions of its topics for ever and writes down every record it got, with the limit it was told.
Flow.   metadata -> where each partition begins -> fetch, long polls included -> records into the history.
Rules.  * A partition is read from its beginning when it is new, its topic has another id, its offset is out of range, or the
          consumer was killed. Each is a new turn.
        * In a session only changed partitions are named; after any error of the session a new one begins.
        * Once told to finish it owes every offset below the limit it was last told, and a look at every partition.
"""

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

from semel.core.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from semel.core.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from semel.errors import CorruptBatchError, DisconnectedError, ErrorCode
from semel.runtime.bundle import Runtime
from semel.types import TopicPartition
from semel.verify.history.events import Read, StableSeen
from semel.verify.simulation.actors.client import Client
from semel.verify.simulation.actors.fetched import records_of
from semel.verify.simulation.world import BROKER, World

_BY_ID_SINCE: Final = 13
_SESSIONS_SINCE: Final = 7
_LIST_OFFSETS_VERSION: Final = 6
_EARLIEST: Final = -2
_LAST_WAIT_MS: Final = 50
_BACK_OFF_SECONDS: Final = (0.02, 0.3)
_NEW_SESSION: Final = (0, 0)
_NO_SESSION: Final = (0, -1)
_TELL_AGAIN: Final = -1


@dataclass(frozen=True, slots=True)
class Tastes:
    """How one consumer reads."""

    version: int
    """Of Fetch."""
    committed: bool
    sessions: bool
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int
    checks_epoch: bool
    """Whether it names the leader epoch it knows."""
    request_timeout_ms: int


@dataclass(slots=True)
class _Position:
    topic_id: bytes
    offset: int
    turn: int
    told: int | None = None
    """The offset the session knows; None if it does not know the partition."""
    limit: int = -1
    looked: bool = False
    """Whether an answer came since the consumer was told to finish."""


class _Key(NamedTuple):
    topic: bytes | str
    partition: int


class Consumer:
    """The actor."""

    def __init__(
        self, world: World, name: str, tastes: Tastes, topics: list[str], *, through: str = BROKER
    ) -> None:
        self.name = name
        self._through = through
        self._world = world
        self._tastes = tastes
        self._topics = topics
        self._turns = 0
        self._finishing = False
        self._finishing_since = math.inf
        """Answers to what was asked before say nothing about how far there is to read."""
        self._positions: dict[TopicPartition, _Position] = {}
        self._session = _NEW_SESSION
        self._forgotten: list[tuple[TopicPartition, bytes]] = []
        self._is_stale = True

    async def run(self, runtime: Runtime) -> None:
        self._positions, self._session, self._forgotten = {}, _NEW_SESSION, []
        self._is_stale = True
        timeout_ms = self._tastes.request_timeout_ms + self._tastes.max_wait_ms
        client = Client(runtime, self.name, timeout_ms, self._through)
        while True:
            try:
                if self._is_stale or any(name not in client.topics for name in self._topics):
                    await self._refresh(client)
                await self._find_beginnings(client)
                if not self._positions:
                    raise DisconnectedError("there is nothing to read yet")
                since = self._world.now()
                response = await client.ask(self._request(client), self._tastes.version)
                self._take(response, since)
                if self._is_stale:
                    await runtime.tasks.sleep(runtime.dice.uniform(*_BACK_OFF_SECONDS))
            except DisconnectedError:
                self._start_session()
                await runtime.tasks.sleep(runtime.dice.uniform(*_BACK_OFF_SECONDS))

    def finish(self) -> None:
        self._finishing = True
        self._finishing_since = self._world.now()
        for position in self._positions.values():
            position.looked = False

    def owes(self) -> str | None:
        behind = [
            f"{topic_partition} at {position.offset} of {position.limit}"
            for topic_partition, position in self._positions.items()
            if not position.looked or position.offset < position.limit
        ]
        if self._is_stale or not self._positions:
            return "a look at its topics"
        return f"a look at {', '.join(behind)}" if behind else None

    # Where to read

    async def _refresh(self, client: Client) -> None:
        await client.refresh(self._topics)
        self._is_stale = False
        for topic_partition, position in list(self._positions.items()):
            known = client.topics.get(topic_partition.topic)
            if known is None or known.topic_id != position.topic_id:
                self._forget(topic_partition)

    def _forget(self, topic_partition: TopicPartition) -> None:
        position = self._positions.pop(topic_partition)
        if position.told is not None:
            self._forgotten.append((topic_partition, position.topic_id))

    async def _find_beginnings(self, client: Client) -> None:
        missing = [
            TopicPartition(name, index)
            for name, topic in client.topics.items()
            for index in range(topic.partitions)
            if TopicPartition(name, index) not in self._positions
        ]
        if not missing:
            return
        topics = {one.topic: ListOffsetsTopic(name=one.topic) for one in missing}
        for one in missing:
            asked = ListOffsetsPartition(partition_index=one.partition, timestamp=_EARLIEST)
            topics[one.topic].partitions.append(asked)
        request = ListOffsetsRequest(replica_id=-1, topics=list(topics.values()))
        response = await client.ask(request, _LIST_OFFSETS_VERSION)
        for topic in response.topics:
            for found in topic.partitions:
                if found.error_code:
                    self._is_stale = True
                    continue
                self._turns += 1
                place = TopicPartition(topic.name, found.partition_index)
                topic_id = client.topics[topic.name].topic_id
                self._positions[place] = _Position(topic_id, found.offset, self._turns)

    # Fetching

    @property
    def _by_id(self) -> bool:
        return self._tastes.version >= _BY_ID_SINCE

    @property
    def _has_session(self) -> bool:
        return self._session[0] != 0

    def _start_session(self) -> None:
        wants = self._tastes.sessions and self._tastes.version >= _SESSIONS_SINCE
        self._session = _NEW_SESSION if wants else _NO_SESSION
        self._forgotten = []
        for position in self._positions.values():
            position.told = None

    def _request(self, client: Client) -> FetchRequest:
        if not self._has_session:
            self._start_session()
        tastes = self._tastes
        topics: dict[str, FetchTopic] = {}
        for place, position in self._positions.items():
            if self._has_session and position.told == position.offset:
                continue
            topic = topics.setdefault(place.topic, FetchTopic(topic=place.topic, topic_id=position.topic_id))
            epochs = client.topics[place.topic].leader_epochs
            topic.partitions.append(
                FetchPartition(
                    partition=place.partition,
                    current_leader_epoch=epochs[place.partition] if tastes.checks_epoch else -1,
                    fetch_offset=position.offset,
                    partition_max_bytes=tastes.partition_max_bytes,
                )
            )
            position.told = position.offset
        # A topic made again keeps its name: where topics go by name, it is not forgotten.
        forgotten = [one for one in self._forgotten if self._by_id or one[0] not in self._positions]
        self._forgotten = []
        return FetchRequest(
            max_wait_ms=_LAST_WAIT_MS if self._finishing else tastes.max_wait_ms,
            min_bytes=tastes.min_bytes,
            max_bytes=tastes.max_bytes,
            isolation_level=int(tastes.committed),
            session_id=self._session[0],
            session_epoch=self._session[1],
            topics=list(topics.values()),
            forgotten_topics_data=[
                ForgottenTopic(topic=place.topic, topic_id=topic_id, partitions=[place.partition])
                for place, topic_id in forgotten
            ],
        )

    def _take(self, response: FetchResponse, since: float) -> None:
        if response.error_code:
            self._start_session()
            self._is_stale = True
            return
        by_key = {
            _Key(position.topic_id if self._by_id else place.topic, place.partition): place
            for place, position in self._positions.items()
        }
        was_incremental = self._has_session
        if response.session_id:
            self._session = (response.session_id, 1 if self._session[1] == 0 else self._session[1] + 1)
        answered = set()
        for topic in response.responses:
            for data in topic.partitions:
                place = by_key.get(_Key(topic.topic_id if self._by_id else topic.topic, data.partition_index))
                if place is not None:
                    answered.add(place)
                    self._take_partition(place, data, since)
        if not was_incremental and (missing := set(by_key.values()) - answered):
            self._world.flaw(
                f"{self.name}: {sorted(map(str, missing))} are missing in the answer to a full fetch"
            )
        for place in list(self._positions):
            # A partition left out of an incremental answer has not changed.
            if place not in answered and since >= self._finishing_since:
                self._positions[place].looked = True

    def _take_partition(self, place: TopicPartition, data: PartitionData, since: float) -> None:
        position = self._positions[place]
        if data.error_code:
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                self._forget(place)
            else:
                self._is_stale = True
                position.told = _TELL_AGAIN  # The session may know an old epoch.
            return
        limit = data.last_stable_offset if self._tastes.committed else data.high_watermark
        topic_id = position.topic_id if self._by_id else None
        if self._tastes.committed and limit != position.limit:
            self._world.history.add(
                StableSeen(self._world.now(), since, self.name, place.topic, topic_id, place.partition, limit)
            )
        position.limit = limit
        position.looked = since >= self._finishing_since
        try:
            records, next_offset = records_of(data, position.offset, committed=self._tastes.committed)
        except CorruptBatchError as error:
            self._world.flaw(f"{self.name} got a damaged batch of {place}: {error}")
            return
        if records:
            self._world.history.add(
                Read(
                    self._world.now(),
                    since,
                    self.name,
                    position.turn,
                    place.topic,
                    topic_id,
                    place.partition,
                    tuple(records),
                    position.limit,
                )
            )
        position.offset = next_offset

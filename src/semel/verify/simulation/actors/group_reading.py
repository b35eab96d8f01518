"""The reading side of a simulated group member: it reads the partitions it owns, and commits its positions.

Role.   `GroupReading` is one process of a consumer without its membership; `ClassicConsumer` and `Kip848Consumer` add one.
Flow.   where to begin (OffsetFetch) -> fetch -> records into the history -> now and then a commit
Rules.  * It commits only records it has read, only in the generation it read them in, and never for a lost partition.
        * Records that arrive for a partition revoked meanwhile are not processed.
        * While frozen it does nothing, and on waking goes on with what it believed before.
        * Once told to finish it owes a settled membership, the end of every partition it owns, and that end committed.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from semel.core.groups.member_words import NO_GENERATION, Identity
from semel.core.records import batch
from semel.core.records.build import iter_records
from semel.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from semel.core.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from semel.core.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from semel.errors import DisconnectedError, ErrorCode
from semel.runtime.bundle import Runtime
from semel.types import TopicPartition
from semel.verify.history.events import CommitAnswered, CommitAsked, CommittedSeen, Owned, Read
from semel.verify.simulation.actors.client import Client
from semel.verify.simulation.world import World

BACK_OFF_SECONDS: Final = (0.02, 0.2)
_FETCH_VERSION: Final = 11
_GROUPS_IN_FETCH_SINCE: Final = 8
_IDLE_SECONDS: Final = 0.05
_LAST_WAIT_MS: Final = 50
_WAKING_SECONDS: Final = 0.03


@dataclass(frozen=True, slots=True)
class Versions:
    """Of the requests a member sends."""

    join: int
    sync: int
    heartbeat: int
    leave: int
    commit: int
    offset_fetch: int


@dataclass(frozen=True, slots=True)
class Manners:
    """How one member behaves."""

    assignors: tuple[str, ...]
    """Of the classic protocol; none means that the broker assigns (KIP-848)."""
    is_static: bool
    versions: Versions
    session_timeout_ms: int
    rebalance_timeout_ms: int
    heartbeat_interval_ms: int
    commit_probability: float
    """After records were processed; uncommitted positions are committed when the partition is revoked."""
    max_wait_ms: int
    max_bytes: int
    request_timeout_ms: int


@dataclass(slots=True)
class Position:
    turn: int
    offset: int
    committed: int
    limit: int = -1
    looked: bool = False
    """Whether it was asked for, and answered, since the member was told to finish: a frozen one finds older answers when it wakes."""


class Host(Protocol):
    """The actor a process belongs to: it stays when the process dies."""

    name: str
    world: World
    group_id: str
    manners: Manners
    topics: list[str]
    finishing: bool
    frozen_until: float
    turns: int


class GroupReading(ABC):
    """One process: its positions, its two connections."""

    def __init__(self, actor: Host, name: str, runtime: Runtime, tasks: asyncio.TaskGroup) -> None:
        self._actor = actor
        self._world = actor.world
        self._name = name
        self._runtime = runtime
        self._tasks = tasks
        self._manners = actor.manners
        self._coordinator = Client(runtime, name, actor.manners.request_timeout_ms)
        self._leader = Client(runtime, name, actor.manners.request_timeout_ms + actor.manners.max_wait_ms)
        self._positions: dict[TopicPartition, Position] = {}
        self._asked_at = 0.0
        self.leaves_for: float | None = None

    # Called by the membership

    @abstractmethod
    async def keep_membership(self) -> None:
        """Be a member, for ever."""

    @property
    @abstractmethod
    def owned(self) -> tuple[TopicPartition, ...]: ...

    @property
    @abstractmethod
    def is_settled(self) -> bool:
        """Whether it is a member and nothing is under way."""

    @property
    @abstractmethod
    def identity(self) -> Identity:
        """Whom commits come from."""

    @abstractmethod
    def commit_refused(self, code: ErrorCode) -> None:
        """A refused commit tells the membership something."""

    def look_again(self) -> None:
        for position in self._positions.values():
            position.looked = False

    def owes(self) -> str | None:
        if not self.is_settled:
            return "a membership"
        behind = [
            f"{one} at {position.offset}, committed {position.committed}, of {position.limit}"
            for one, position in self._positions.items()
            if not position.looked or position.offset < position.limit or position.committed < position.offset
        ]
        missing = [str(one) for one in self.owned if one not in self._positions]
        return ", ".join([*behind, *missing]) or None

    async def _breathe(self, *, last: bool = False) -> None:
        """While frozen, nothing goes on. A task that wakes `last` lets the others act first, on their earlier beliefs."""
        while (seconds := self._actor.frozen_until - self._world.now()) > 0:
            await self._runtime.tasks.sleep(seconds + (_WAKING_SECONDS if last else 0.0))

    def _now_ms(self) -> int:
        return self._runtime.clock.monotonic_ms()

    def _note_lost(self) -> None:
        """Nothing is its own any more, and it is in no generation."""
        now = self._world.now()
        self._world.history.add(Owned(now, now, self._name, self.identity.member_id, NO_GENERATION, ()))

    def _note_owned(self) -> None:
        identity = self.identity
        owner = identity.group_instance_id or identity.member_id
        self._world.history.add(
            Owned(self._world.now(), self._asked_at, self._name, owner, identity.generation_id, self.owned)
        )

    # Reading

    async def read_for_ever(self) -> None:
        while True:
            await self._breathe()
            try:
                await self._find_positions()
                if not self._positions:
                    await self._runtime.tasks.sleep(_IDLE_SECONDS)
                    continue
                await self._read()
            except DisconnectedError:
                await self._runtime.tasks.sleep(self._runtime.dice.uniform(*BACK_OFF_SECONDS))

    async def _find_positions(self) -> None:
        """Begin where the group has got to, or at the beginning."""
        missing = [one for one in self.owned if one not in self._positions]
        if not missing or not self.is_settled:  # A request behind a join would wait as long as the join.
            return
        identity = self.identity
        found = await committed_offsets(
            self._coordinator, self._actor.group_id, missing, self._manners.versions.offset_fetch
        )
        await self._breathe()
        if found is None:
            raise DisconnectedError("the coordinator cannot tell now")
        for one, offset in found.offsets.items():
            if self.identity == identity and one in self.owned:
                self._actor.turns += 1
                self._positions[one] = Position(self._actor.turns, max(0, offset), offset)
        self._world.history.add(CommittedSeen(self._world.now(), found.since, self._name, found.offsets))

    async def _read(self) -> None:
        asked = dict(self._positions)
        topics: dict[str, FetchTopic] = {}
        for place, position in asked.items():
            topics.setdefault(place.topic, FetchTopic(topic=place.topic)).partitions.append(
                FetchPartition(
                    partition=place.partition,
                    current_leader_epoch=-1,
                    fetch_offset=position.offset,
                    partition_max_bytes=self._manners.max_bytes,
                )
            )
        request = FetchRequest(
            max_wait_ms=_LAST_WAIT_MS if self._actor.finishing else self._manners.max_wait_ms,
            min_bytes=1,
            max_bytes=self._manners.max_bytes,
            session_id=0,
            session_epoch=-1,
            topics=list(topics.values()),
        )
        since, is_last = self._world.now(), self._actor.finishing
        response = await self._leader.ask(request, _FETCH_VERSION)
        await self._breathe()
        for topic in response.responses:
            for data in topic.partitions:
                place = TopicPartition(topic.topic, data.partition_index)
                if self._positions.get(place) is asked.get(place) and place in self._positions:
                    self._take_records(place, data, since, is_last=is_last)
        commits = self._actor.finishing or self._runtime.dice.random() < self._manners.commit_probability
        if commits and self.is_settled:
            await self._commit(dict(self._positions))

    def _take_records(
        self, place: TopicPartition, data: PartitionData, since: float, *, is_last: bool
    ) -> None:
        position = self._positions[place]
        if data.error_code:
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                self._world.flaw(f"{self._name}: {place} has no offset {position.offset}")
            return
        content = data.records or b""
        records = [
            (record.offset, record.value or b"")
            for at, header in batch.headers(content)
            for record in iter_records(content, at, header)
            if record.offset >= position.offset
        ]
        position.limit = data.high_watermark
        position.looked = is_last
        if records:
            self._world.history.add(
                Read(
                    self._world.now(),
                    since,
                    self._name,
                    position.turn,
                    place.topic,
                    None,
                    place.partition,
                    tuple(records),
                    position.limit,
                )
            )
            position.offset = records[-1][0] + 1

    # Committing

    async def _commit(self, positions: dict[TopicPartition, Position]) -> None:
        """Store these positions, as far as they are news; a refusal tells the membership."""
        identity = self.identity
        offsets = {one: at.offset for one, at in positions.items() if at.offset > at.committed}
        if not offsets or identity.generation_id <= NO_GENERATION:
            return
        history = self._world.history
        commit = len(history.events)  # Unique: one event more with every commit.
        history.add(CommitAsked(self._world.now(), commit, self._name, identity.generation_id, offsets))
        request = commit_request(self._actor.group_id, offsets, identity)
        try:
            response = await self._coordinator.ask(request, self._manners.versions.commit)
        except DisconnectedError:
            return  # Stored or not: nobody knows.
        codes = {ErrorCode(one.error_code) for topic in response.topics for one in topic.partitions}
        code = next((one for one in sorted(codes) if one), ErrorCode.NONE)
        history.add(CommitAnswered(self._world.now(), commit, code.name))
        await self._breathe()
        if code is ErrorCode.NONE:
            for one, offset in offsets.items():
                positions[one].committed = max(positions[one].committed, offset)
        elif (
            code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and self.identity.member_id == identity.member_id
        ):
            if code is ErrorCode.GROUP_ID_NOT_FOUND:  # It went with its rows, and so did the membership.
                code = ErrorCode.UNKNOWN_MEMBER_ID
            self.commit_refused(code)


def commit_request(
    group_id: str, offsets: Mapping[TopicPartition, int], member: Identity | None = None
) -> OffsetCommitRequest:
    """The request to store offsets, as a member or as somebody without a generation."""
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for one, offset in offsets.items():
        topics.setdefault(one.topic, OffsetCommitRequestTopic(name=one.topic)).partitions.append(
            OffsetCommitRequestPartition(partition_index=one.partition, committed_offset=offset)
        )
    request = OffsetCommitRequest(group_id=group_id, topics=list(topics.values()))
    if member is not None:
        request.generation_id_or_member_epoch = member.generation_id
        request.member_id = member.member_id
        request.group_instance_id = member.group_instance_id
    return request


@dataclass(frozen=True, slots=True)
class FoundOffsets:
    """The committed offsets of a group, and the time of asking."""

    since: float
    offsets: dict[TopicPartition, int]


async def committed_offsets(
    client: Client, group_id: str, partitions: list[TopicPartition], version: int
) -> FoundOffsets | None:
    """Ask the coordinator; None if it cannot tell now. Raises `DisconnectedError`."""
    indexes: dict[str, list[int]] = {}
    for one in partitions:
        indexes.setdefault(one.topic, []).append(one.partition)
    since = asyncio.get_running_loop().time()
    if version >= _GROUPS_IN_FETCH_SINCE:
        group = OffsetFetchRequestGroup(
            group_id=group_id,
            topics=[
                OffsetFetchRequestTopics(name=name, partition_indexes=of) for name, of in indexes.items()
            ],
        )
        response = await client.ask(OffsetFetchRequest(groups=[group]), version)
        code, found = (
            response.groups[0].error_code,
            {
                TopicPartition(topic.name, one.partition_index): (one.error_code, one.committed_offset)
                for topic in response.groups[0].topics
                for one in topic.partitions
            },
        )
    else:
        request = OffsetFetchRequest(
            group_id=group_id,
            topics=[OffsetFetchRequestTopic(name=name, partition_indexes=of) for name, of in indexes.items()],
        )
        response = await client.ask(request, version)
        code, found = (
            response.error_code,
            {
                TopicPartition(topic.name, one.partition_index): (one.error_code, one.committed_offset)
                for topic in response.topics
                for one in topic.partitions
            },
        )
    if code or any(refused for refused, _offset in found.values()):
        return None
    return FoundOffsets(since, {one: offset for one, (_code, offset) in found.items()})

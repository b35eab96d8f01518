"""A consumer in a classic group: joins, reads what it owns, commits, freezes, leaves and comes back.

Role.   Carries out what `core.groups.member` decides, reads and commits beside it, and writes down what it was told it
        owns, what it read, what it committed and where it was told to begin.
Flow.   one task keeps the membership: join, sync, heartbeat, revoke, take
        one task reads: where to begin (OffsetFetch) -> fetch -> records into the history -> now and then a commit
Rules.  * It commits only what it has read, only in the generation it read it in, and never for what it lost.
        * What arrives for a partition that was revoked meanwhile is not processed.
        * While frozen it does nothing, and on waking goes on with what it believed before.
        * Once told to finish it owes a stable membership, the end of every partition it owns, and that end committed.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

from semel.core.groups.assignors.members import Topics, without_racks
from semel.core.groups.member import (
    GroupMember,
    GroupRequest,
    GroupResponse,
    MemberSettings,
    Phase,
    Revoke,
    Send,
    Take,
    Wait,
)
from semel.core.records import batch
from semel.core.records.build import iter_records
from semel.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from semel.core.wire.messages.heartbeat import HeartbeatRequest
from semel.core.wire.messages.join_group import JoinGroupRequest
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
from semel.verify.actors.client import Client
from semel.verify.history import Committed, CommittedSeen, Committing, Owned, Read
from semel.verify.world import World

_FETCH_VERSION: Final = 11
_GROUPS_IN_FETCH_SINCE: Final = 8
_BACK_OFF_SECONDS: Final = (0.02, 0.2)
_IDLE_SECONDS: Final = 0.05
_PATIENCE_MS: Final = 2000
"""How long an answer to a join or a sync may take beyond the rebalance timeout."""


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
    is_static: bool
    versions: Versions
    session_timeout_ms: int
    rebalance_timeout_ms: int
    heartbeat_interval_ms: int
    commit_probability: float
    """After records were processed; what was not committed is committed when the partition is revoked."""
    max_wait_ms: int
    max_bytes: int
    request_timeout_ms: int


@dataclass(slots=True)
class _Position:
    turn: int
    offset: int
    committed: int
    limit: int = -1
    looked: bool = False
    """Whether an answer came since the member was told to finish."""


class GroupConsumer:
    """The actor."""

    def __init__(self, world: World, name: str, group_id: str, manners: Manners, topics: list[str]) -> None:
        self.name = name
        self.world = world
        self.group_id = group_id
        self.manners = manners
        self.topics = topics
        self.finishing = False
        self.frozen_until = 0.0
        self.turns = 0
        self._processes = 0
        self._consumer: _Consumer | None = None

    async def run(self, runtime: Runtime) -> None:
        self._processes += 1
        self.frozen_until = 0.0
        self._consumer = _Consumer(self, f"{self.name}.{self._processes}", runtime)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._consumer.keep_membership(), name=f"{self.name} membership")
            tasks.create_task(self._consumer.read_for_ever(), name=f"{self.name} reading")

    def freeze(self, seconds: float) -> None:
        """Do nothing for a while, without knowing it."""
        self.frozen_until = self.world.now() + seconds

    def leave(self, seconds: float) -> None:
        """Leave the group in order and join it again after a while."""
        if self._consumer is not None:
            self._consumer.leaves_for = seconds

    def finish(self) -> None:
        self.finishing = True
        if self._consumer is not None:
            self._consumer.look_again()

    def owes(self) -> str | None:
        return "a process" if self._consumer is None else self._consumer.owes()

    @property
    def membership(self) -> tuple[int, tuple[TopicPartition, ...]] | None:
        """Its generation and what it owns, while nothing is to change."""
        member = None if self._consumer is None else self._consumer.member
        if member is None or member.phase is not Phase.STABLE:
            return None
        return member.generation_id, member.owned


class _Consumer:
    """One process: its membership, its positions, its two connections."""

    def __init__(self, actor: GroupConsumer, name: str, runtime: Runtime) -> None:
        self._actor = actor
        self._world = actor.world
        self._name = name
        self._runtime = runtime
        self._manners = actor.manners
        self._coordinator = Client(runtime, name, actor.manners.request_timeout_ms)
        self._leader = Client(runtime, name, actor.manners.request_timeout_ms + actor.manners.max_wait_ms)
        self._positions: dict[TopicPartition, _Position] = {}
        self._asked_at = 0.0
        self.leaves_for: float | None = None
        self.member = self._new_member()

    def _new_member(self) -> GroupMember:
        manners = self._manners
        return GroupMember(
            MemberSettings(
                group_id=self._actor.group_id,
                assignors=manners.assignors,
                session_timeout_ms=manners.session_timeout_ms,
                rebalance_timeout_ms=manners.rebalance_timeout_ms,
                heartbeat_interval_ms=manners.heartbeat_interval_ms,
                group_instance_id=self._actor.name if manners.is_static else None,
            ),
            self._actor.topics,
        )

    def look_again(self) -> None:
        for position in self._positions.values():
            position.looked = False

    def owes(self) -> str | None:
        if self.member.phase is not Phase.STABLE:
            return f"a membership, it is {self.member.phase.value} ({self.member.failure})"
        behind = [
            f"{one} at {position.offset}, committed {position.committed}, of {position.limit}"
            for one, position in self._positions.items()
            if not position.looked or position.offset < position.limit or position.committed < position.offset
        ]
        missing = [str(one) for one in self.member.owned if one not in self._positions]
        return ", ".join([*behind, *missing]) or None

    async def _breathe(self) -> None:
        """While frozen, nothing goes on."""
        while (seconds := self._actor.frozen_until - self._world.now()) > 0:
            await self._runtime.tasks.sleep(seconds)

    def _now_ms(self) -> int:
        return self._runtime.clock.monotonic_ms()

    # Membership

    async def keep_membership(self) -> None:
        while True:
            await self._breathe()
            if self.leaves_for is not None:
                await self._leave(self.leaves_for)
            match self.member.next_step(self._now_ms()):
                case Send(request):
                    await self._ask(request)
                case Revoke(partitions, is_lost):
                    await self._revoke(partitions, is_lost=is_lost)
                    self.member.done()
                case Take(_, generation_id):
                    self.member.done()
                    self._note_owned(generation_id)
                case Wait(until_ms):
                    if until_ms is None:
                        self._start_again()
                        continue
                    seconds = max(0, until_ms - self._now_ms()) / 1000
                    await self._runtime.tasks.sleep(min(seconds, _IDLE_SECONDS))

    def _start_again(self) -> None:
        """A request of the process before, late on its way, may have taken the place of a static member."""
        if self.member.failure is not ErrorCode.FENCED_INSTANCE_ID or not self._manners.is_static:
            raise RuntimeError(f"{self._name} can never be a member: {self.member.failure}")
        self._world.tell(f"{self._name} was fenced and starts again")
        self.member = self._new_member()

    async def _ask(self, request: GroupRequest) -> None:
        versions, timeout_ms = self._manners.versions, self._manners.request_timeout_ms
        if not isinstance(request, HeartbeatRequest):
            timeout_ms = self._manners.rebalance_timeout_ms * 2 + _PATIENCE_MS
        self._asked_at = self._world.now()
        response: GroupResponse
        try:
            if isinstance(request, JoinGroupRequest):
                await self._leader.refresh(self._actor.topics)
            connection = await self._coordinator.connection()
            match request:
                case JoinGroupRequest():
                    response = await connection.send(request, versions.join, timeout_ms=timeout_ms)
                case HeartbeatRequest():
                    response = await connection.send(request, versions.heartbeat, timeout_ms=timeout_ms)
                case _:
                    response = await connection.send(request, versions.sync, timeout_ms=timeout_ms)
        except DisconnectedError:
            await self._breathe()
            self.member.unanswered(self._now_ms())
            return
        await self._breathe()
        self.member.answered(response, self._now_ms(), self._topics)
        self.member.coordinator_gone = False  # There is one broker.

    def _topics(self) -> Topics:
        return without_racks({name: topic.partitions for name, topic in self._leader.topics.items()})

    async def _revoke(self, partitions: tuple[TopicPartition, ...], *, is_lost: bool) -> None:
        gone = {one: self._positions.pop(one) for one in partitions if one in self._positions}
        if not is_lost:
            await self._commit(
                {one: position for one, position in gone.items() if position.offset > position.committed}
            )

    def _note_owned(self, generation_id: int) -> None:
        owner = self._actor.name if self._manners.is_static else self.member.member_id
        self._world.history.add(
            Owned(self._world.now(), self._asked_at, self._name, owner, generation_id, self.member.owned)
        )

    async def _leave(self, seconds: float) -> None:
        self._world.tell(f"{self._name} leaves for {seconds:.3f} s")
        self.leaves_for = None
        await self._revoke(self.member.owned, is_lost=False)
        request = self.member.leave(self._manners.versions.leave)
        if request is not None:
            try:
                await self._coordinator.ask(request, self._manners.versions.leave)
            except DisconnectedError:
                self._world.tell(f"{self._name}: whether it has left is unknown")
        await self._runtime.tasks.sleep(seconds)
        self.member = self._new_member()

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
                await self._runtime.tasks.sleep(self._runtime.dice.uniform(*_BACK_OFF_SECONDS))

    async def _find_positions(self) -> None:
        """Begin where the group has got to, or at the beginning."""
        member = self.member
        missing = [one for one in member.owned if one not in self._positions]
        if not missing or self._in_rebalance():
            return
        generation_id = member.generation_id
        found = await committed_offsets(
            self._coordinator, self._actor.group_id, missing, self._manners.versions.offset_fetch
        )
        await self._breathe()
        if found is None:
            raise DisconnectedError("the coordinator cannot tell now")
        for one, offset in found.offsets.items():
            if member is self.member and member.generation_id == generation_id and one in member.owned:
                self._actor.turns += 1
                self._positions[one] = _Position(self._actor.turns, max(0, offset), offset)
        self._world.history.add(CommittedSeen(self._world.now(), found.since, self._name, found.offsets))

    def _in_rebalance(self) -> bool:
        """A request behind a join would wait as long as the join."""
        return self.member.phase is not Phase.STABLE

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
            max_wait_ms=_PATIENCE_MS // 40 if self._actor.finishing else self._manners.max_wait_ms,
            min_bytes=1,
            max_bytes=self._manners.max_bytes,
            session_id=0,
            session_epoch=-1,
            topics=list(topics.values()),
        )
        since = self._world.now()
        response = await self._leader.ask(request, _FETCH_VERSION)
        await self._breathe()
        for topic in response.responses:
            for data in topic.partitions:
                place = TopicPartition(topic.topic, data.partition_index)
                if self._positions.get(place) is asked.get(place) and place in self._positions:
                    self._take_records(place, data, since)
        if self._actor.finishing or self._runtime.dice.random() < self._manners.commit_probability:
            await self._commit_positions()

    def _take_records(self, place: TopicPartition, data: PartitionData, since: float) -> None:
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
        position.looked = self._actor.finishing
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

    async def _commit_positions(self) -> None:
        if not self._in_rebalance():
            await self._commit(
                {
                    one: position
                    for one, position in self._positions.items()
                    if position.offset > position.committed
                }
            )

    async def _commit(self, positions: dict[TopicPartition, _Position]) -> None:
        """Store these positions; what is refused tells the membership."""
        member = self.member
        if not positions or member.generation_id < 0:
            return
        history = self._world.history
        commit = len(history.events)  # Unique: one event more with every commit.
        offsets = {one: position.offset for one, position in positions.items()}
        history.add(Committing(self._world.now(), commit, self._name, member.generation_id, offsets))
        try:
            response = await self._coordinator.ask(
                self._commit_request(member, offsets), self._manners.versions.commit
            )
        except DisconnectedError:
            return  # Stored or not: nobody knows.
        codes = {ErrorCode(one.error_code) for topic in response.topics for one in topic.partitions}
        code = next((one for one in sorted(codes) if one), ErrorCode.NONE)
        history.add(Committed(self._world.now(), commit, code.name))
        await self._breathe()
        if code is ErrorCode.NONE:
            for one, position in positions.items():
                position.committed = max(position.committed, offsets[one])
        elif code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and member is self.member:
            member.refused(code, self._now_ms())

    def _commit_request(self, member: GroupMember, offsets: dict[TopicPartition, int]) -> OffsetCommitRequest:
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for one, offset in offsets.items():
            topics.setdefault(one.topic, OffsetCommitRequestTopic(name=one.topic)).partitions.append(
                OffsetCommitRequestPartition(partition_index=one.partition, committed_offset=offset)
            )
        return OffsetCommitRequest(
            group_id=self._actor.group_id,
            generation_id_or_member_epoch=member.generation_id,
            member_id=member.member_id,
            group_instance_id=member.settings.group_instance_id,
            topics=list(topics.values()),
        )


@dataclass(frozen=True, slots=True)
class FoundOffsets:
    """What a group has committed, and when that was asked."""

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

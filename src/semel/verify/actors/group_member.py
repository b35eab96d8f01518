"""A consumer in a classic group: joins, reads what it owns, commits, freezes, leaves and comes back.

Role.   Carries out what `core.groups.member` decides, reads and commits beside it, and writes down what it was told it
        owns, what it read, what it committed and where it was told to begin.
Flow.   one task polls: what the member says is carried out, each request in a task of its own
        one task reads: where to begin (OffsetFetch) -> fetch -> records into the history -> now and then a commit
Rules.  * It commits only what it has read, only in the generation it read it in, and never for what it lost.
        * What arrives for a partition that was revoked meanwhile is not processed.
        * While frozen it does nothing, and on waking goes on with what it believed before.
        * Once told to finish it owes a stable membership, the end of every partition it owns, and that end committed.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from semel.core.groups.assignors.members import without_racks
from semel.core.groups.member import Member
from semel.core.groups.member_words import (
    NO_GENERATION,
    Fail,
    FindCoordinator,
    GroupRequest,
    GroupResponse,
    Identity,
    Instruction,
    LookAtTopics,
    Lose,
    MemberConfig,
    Own,
    Phase,
    Revoke,
    Send,
)
from semel.core.records import batch
from semel.core.records.build import iter_records
from semel.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from semel.core.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.core.wire.messages.heartbeat import HeartbeatRequest
from semel.core.wire.messages.join_group import JoinGroupRequest
from semel.core.wire.messages.leave_group import LeaveGroupRequest
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
from semel.core.wire.messages.sync_group import SyncGroupRequest
from semel.errors import DisconnectedError, ErrorCode
from semel.runtime.bundle import Runtime
from semel.types import TopicPartition
from semel.verify.actors.client import Client
from semel.verify.history import Committed, CommittedSeen, Committing, Owned, Read
from semel.verify.world import World

_FETCH_VERSION: Final = 11
_FIND_COORDINATOR_VERSION: Final = 2
_GROUPS_IN_FETCH_SINCE: Final = 8
_BACK_OFF_SECONDS: Final = (0.02, 0.2)
_IDLE_SECONDS: Final = 0.05
_POLL_SECONDS: Final = 0.05
_LAST_WAIT_MS: Final = 50


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
        async with asyncio.TaskGroup() as tasks:
            self._consumer = _Consumer(self, f"{self.name}.{self._processes}", runtime, tasks)
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

    def __init__(self, actor: GroupConsumer, name: str, runtime: Runtime, tasks: asyncio.TaskGroup) -> None:
        self._actor = actor
        self._world = actor.world
        self._name = name
        self._runtime = runtime
        self._tasks = tasks
        self._manners = actor.manners
        self._coordinator = Client(runtime, name, actor.manners.request_timeout_ms)
        self._leader = Client(runtime, name, actor.manners.request_timeout_ms + actor.manners.max_wait_ms)
        self._positions: dict[TopicPartition, _Position] = {}
        self._asked_at = 0.0
        self._failure: ErrorCode | None = None
        self.leaves_for: float | None = None
        self.member = self._new_member()

    def _new_member(self) -> Member:
        manners = self._manners
        member = Member(
            MemberConfig(
                group_id=self._actor.group_id,
                partition_assignment_strategy=manners.assignors,
                session_timeout_ms=manners.session_timeout_ms,
                max_poll_interval_ms=manners.rebalance_timeout_ms,
                heartbeat_interval_ms=manners.heartbeat_interval_ms,
                group_instance_id=self._actor.name if manners.is_static else None,
            )
        )
        member.subscribe(self._actor.topics)
        return member

    def look_again(self) -> None:
        for position in self._positions.values():
            position.looked = False

    def owes(self) -> str | None:
        if self.member.phase is not Phase.STABLE:
            return f"a membership, it is {self.member.phase}"
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
        """Poll for ever, as an application does."""
        while True:
            await self._breathe()
            if self.leaves_for is not None:
                await self._leave(self.leaves_for)
            self._carry_out([*self.member.due(self._now_ms()), *self.member.polled(self._now_ms())])
            if self.member.phase is Phase.FAILED:
                self._start_again()
            await self._runtime.tasks.sleep(_POLL_SECONDS)

    def _carry_out(self, instructions: Iterable[Instruction]) -> None:
        member = self.member
        for one in instructions:
            match one:
                case Revoke(partitions):
                    gone = {one: self._positions.pop(one) for one in partitions if one in self._positions}
                    self._spawn(self._revoke(member, gone))
                case Lose(partitions):
                    for partition in partitions:
                        self._positions.pop(partition, None)
                case Own():
                    self._note_owned()
                case Fail(code, reason):
                    self._failure = code
                    self._world.tell(f"{self._name}: {reason}")
                case FindCoordinator():
                    self._spawn(self._find_coordinator(member))
                case LookAtTopics(topics):
                    self._spawn(self._look_at_topics(member, list(topics)))
                case Send(request, wait_ms):
                    self._spawn(self._exchange(member, request, wait_ms))

    def _spawn(self, work: Coroutine[None, None, list[Instruction]]) -> None:
        member = self.member

        async def to_its_end() -> None:
            instructions = await work
            if member is self.member:  # Else it is the past of a member that left.
                self._carry_out(instructions)

        self._tasks.create_task(to_its_end(), name=f"{self._name} work")

    def _start_again(self) -> None:
        """A request of the process before, late on its way, may have taken the place of a static member."""
        if self._failure is not ErrorCode.FENCED_INSTANCE_ID or not self._manners.is_static:
            raise RuntimeError(f"{self._name} can never be a member")
        self._world.tell(f"{self._name} starts again")
        self.member = self._new_member()

    async def _find_coordinator(self, member: Member) -> list[Instruction]:
        request = FindCoordinatorRequest(key=self._actor.group_id)
        try:
            found = await self._coordinator.ask(request, _FIND_COORDINATOR_VERSION)
        except DisconnectedError:
            return member.coordinator_lost(self._now_ms())
        await self._breathe()
        if found.error_code:
            return member.coordinator_lost(self._now_ms())
        return member.coordinator_found(self._now_ms())

    async def _look_at_topics(self, member: Member, topics: list[str]) -> list[Instruction]:
        while True:
            try:
                await self._leader.refresh(topics)
                break
            except DisconnectedError:
                await self._runtime.tasks.sleep(self._runtime.dice.uniform(*_BACK_OFF_SECONDS))
        await self._breathe()
        counts = {name: topic.partitions for name, topic in self._leader.topics.items()}
        return member.topics_known(without_racks(counts), self._now_ms())

    async def _exchange(self, member: Member, request: GroupRequest, wait_ms: int) -> list[Instruction]:
        versions = self._manners.versions
        timeout_ms = self._manners.request_timeout_ms + wait_ms
        if isinstance(request, SyncGroupRequest):
            self._asked_at = self._world.now()
        response: GroupResponse
        try:
            connection = await self._coordinator.connection()
            match request:
                case JoinGroupRequest():
                    response = await connection.send(request, versions.join, timeout_ms=timeout_ms)
                case SyncGroupRequest():
                    response = await connection.send(request, versions.sync, timeout_ms=timeout_ms)
                case HeartbeatRequest():
                    response = await connection.send(request, versions.heartbeat, timeout_ms=timeout_ms)
                case LeaveGroupRequest():
                    response = await connection.send(request, versions.leave, timeout_ms=timeout_ms)
        except DisconnectedError:
            await self._breathe()
            return member.unanswered(request, self._now_ms())
        await self._breathe()
        return member.answered(request, response, self._now_ms())

    async def _revoke(self, member: Member, gone: dict[TopicPartition, _Position]) -> list[Instruction]:
        await self._commit(gone)
        return member.revoked(self._now_ms())

    def _note_owned(self) -> None:
        member = self.member
        owner = self._actor.name if self._manners.is_static else member.member_id
        self._world.history.add(
            Owned(self._world.now(), self._asked_at, self._name, owner, member.generation_id, member.owned)
        )

    async def _leave(self, seconds: float) -> None:
        self._world.tell(f"{self._name} leaves for {seconds:.3f} s")
        self.leaves_for = None
        self._carry_out(self.member.leave(self._now_ms()))
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
            max_wait_ms=_LAST_WAIT_MS if self._actor.finishing else self._manners.max_wait_ms,
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
        commits = self._actor.finishing or self._runtime.dice.random() < self._manners.commit_probability
        if commits and not self._in_rebalance():
            await self._commit(dict(self._positions))

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

    async def _commit(self, positions: dict[TopicPartition, _Position]) -> None:
        """Store these positions, as far as they are news; what is refused tells the membership."""
        member = self.member
        offsets = {one: at.offset for one, at in positions.items() if at.offset > at.committed}
        if not offsets or member.generation_id == NO_GENERATION:
            return
        history = self._world.history
        commit = len(history.events)  # Unique: one event more with every commit.
        history.add(Committing(self._world.now(), commit, self._name, member.generation_id, offsets))
        request = commit_request(self._actor.group_id, offsets, member.identity)
        try:
            response = await self._coordinator.ask(request, self._manners.versions.commit)
        except DisconnectedError:
            return  # Stored or not: nobody knows.
        codes = {ErrorCode(one.error_code) for topic in response.topics for one in topic.partitions}
        code = next((one for one in sorted(codes) if one), ErrorCode.NONE)
        history.add(Committed(self._world.now(), commit, code.name))
        await self._breathe()
        if code is ErrorCode.NONE:
            for one, offset in offsets.items():
                positions[one].committed = max(positions[one].committed, offset)
        elif code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and member is self.member:
            if code is ErrorCode.GROUP_ID_NOT_FOUND:  # It went with its rows, and so did the membership.
                code = ErrorCode.UNKNOWN_MEMBER_ID
            self._carry_out(member.committed(code, self._now_ms()))


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

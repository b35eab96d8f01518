"""A consumer in a group of the classic protocol: joins, reads what it owns, commits, freezes, leaves and comes back.

Role.   Carries out what `core.groups.member` decides, the client's own end of the protocol, and writes down what it was told
        it owns. Reading and committing: `group_reading`.
Flow.   one task polls: the member's instructions are carried out, each request in a task of its own
"""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Final

from semel.core.groups.assignors.members import without_racks
from semel.core.groups.member import Member
from semel.core.groups.member_words import (
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
from semel.core.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.core.wire.messages.heartbeat import HeartbeatRequest
from semel.core.wire.messages.join_group import JoinGroupRequest
from semel.core.wire.messages.leave_group import LeaveGroupRequest
from semel.core.wire.messages.sync_group import SyncGroupRequest
from semel.errors import DisconnectedError, ErrorCode
from semel.runtime.bundle import Runtime
from semel.types import TopicPartition
from semel.verify.simulation.actors.group_reading import BACK_OFF_SECONDS, GroupReading, Host, Position

_FIND_COORDINATOR_VERSION: Final = 2
_POLL_SECONDS: Final = 0.05


class ClassicConsumer(GroupReading):
    """One process in a classic group."""

    def __init__(self, actor: Host, name: str, runtime: Runtime, tasks: asyncio.TaskGroup) -> None:
        super().__init__(actor, name, runtime, tasks)
        self._failure: ErrorCode | None = None
        self._member = self._new_member()

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

    @property
    def owned(self) -> tuple[TopicPartition, ...]:
        return self._member.owned

    @property
    def is_settled(self) -> bool:
        return self._member.phase is Phase.STABLE

    @property
    def identity(self) -> Identity:
        return self._member.identity

    def commit_refused(self, code: ErrorCode) -> None:
        self._carry_out(self._member.committed(code, self._now_ms()))

    async def keep_membership(self) -> None:
        """Poll for ever, as an application does."""
        while True:
            await self._breathe(last=True)
            if self.leaves_for is not None:
                await self._leave(self.leaves_for)
            self._carry_out([*self._member.due(self._now_ms()), *self._member.polled(self._now_ms())])
            if self._member.phase is Phase.FAILED:
                self._start_again()
            await self._runtime.tasks.sleep(_POLL_SECONDS)

    def _carry_out(self, instructions: Iterable[Instruction]) -> None:
        member = self._member
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
        member = self._member

        async def to_its_end() -> None:
            instructions = await work
            if member is self._member:  # Else it is the past of a member that left.
                self._carry_out(instructions)

        self._tasks.create_task(to_its_end(), name=f"{self._name} work")

    def _start_again(self) -> None:
        """A request of the process before, late on its way, may have taken the place of a static member."""
        if self._failure is not ErrorCode.FENCED_INSTANCE_ID or not self._manners.is_static:
            raise RuntimeError(f"{self._name} can never be a member")
        self._world.tell(f"{self._name} starts again")
        self._member = self._new_member()

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
                await self._runtime.tasks.sleep(self._runtime.dice.uniform(*BACK_OFF_SECONDS))
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

    async def _revoke(self, member: Member, gone: dict[TopicPartition, Position]) -> list[Instruction]:
        await self._commit(gone)
        return member.revoked(self._now_ms())

    async def _leave(self, seconds: float) -> None:
        self._world.tell(f"{self._name} leaves for {seconds:.3f} s")
        self.leaves_for = None
        self._carry_out(self._member.leave(self._now_ms()))
        await self._runtime.tasks.sleep(seconds)
        self._member = self._new_member()

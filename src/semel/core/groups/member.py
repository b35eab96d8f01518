"""A member of a classic consumer group, the client's end: what it has to do next, and what the answers mean.

Role.   `GroupMember` decides. It sends nothing and knows no clock: a consumer, a simulated one or a load generator asks
        it for the next step, carries that out, and says how it went.
Flow.   `next_step` -> `Send` a request -> `answered` or `unanswered`
                    -> `Revoke` or `Take` partitions -> `done`
                    -> `Wait`

        outside ──join──▶ joined ──sync──▶ stable ──heartbeat──▶ stable
           ▲                │                │
           └────────────────┴────────────────┘ a rebalance, a refusal, a lost answer

Rules.  * One request at a time: the coordinator answers in order, and a heartbeat behind a join would wait with it.
        * Nothing is owned that the coordinator did not give in the generation the member is in. In an eager group
          everything is let go before joining again; in a cooperative one what stays is kept, and what goes is let go
          before the member joins once more so that another may have it.
        * Who is told that it is no member has lost its partitions: it must not commit for them any more.
        * The same group instance keeps its place when it stops: a static member does not leave.
Elsewhere. How a leader divides: `assignors`. Bytes inside join and sync: `assignors.protocol`.
"""

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from semel.core.groups.assignors import ASSIGNORS, Assignor
from semel.core.groups.assignors.members import Member, Topics
from semel.core.groups.assignors.protocol import (
    PROTOCOL_TYPE,
    MemberAssignment,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from semel.core.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from semel.core.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from semel.core.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from semel.core.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from semel.errors import ErrorCode, InvariantError
from semel.types import TopicPartition

GroupRequest: TypeAlias = JoinGroupRequest | SyncGroupRequest | HeartbeatRequest
GroupResponse: TypeAlias = JoinGroupResponse | SyncGroupResponse | HeartbeatResponse
NO_GENERATION: Final = -1
_MANY_LEAVE_SINCE: Final = 3
_NOT_A_MEMBER: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})
_COORDINATOR_GONE: Final = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT}
)
_AGAIN: Final = _COORDINATOR_GONE | {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REBALANCE_IN_PROGRESS}


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """What a member tells the coordinator, and how often."""

    group_id: str
    assignors: tuple[str, ...]
    """By preference; all eager or all cooperative."""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    heartbeat_interval_ms: int
    retry_backoff_ms: int = 100
    group_instance_id: str | None = None
    rack_id: str | None = None


class Phase(enum.Enum):
    """Where a member stands."""

    OUTSIDE = "outside"
    JOINED = "joined"
    STABLE = "stable"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Send:
    """Send this to the coordinator and report the answer, or that there is none."""

    request: GroupRequest


@dataclass(frozen=True, slots=True)
class Revoke:
    """Stop with these partitions; commit what was processed of them unless they are lost; then say `done`."""

    partitions: tuple[TopicPartition, ...]
    is_lost: bool


@dataclass(frozen=True, slots=True)
class Take:
    """These partitions are this member's from now on; say `done` when that is known."""

    partitions: tuple[TopicPartition, ...]
    generation_id: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do before this time; None while an answer is awaited, or for good after a failure."""

    until_ms: int | None


Step: TypeAlias = Send | Revoke | Take | Wait


class GroupMember:
    """One member, from its first join until it leaves."""

    def __init__(self, settings: MemberSettings, topics: Sequence[str]) -> None:
        if not settings.assignors:
            raise ValueError(f"a member of {settings.group_id!r} needs at least one assignor")
        chosen = [ASSIGNORS[name] for name in settings.assignors]
        if len({one.is_cooperative for one in chosen}) > 1:
            raise ValueError(
                f"assignors {', '.join(settings.assignors)}: some let everything go before a rebalance and some do not; "
                "use one kind"
            )
        self.settings = settings
        self.topics = tuple(topics)
        self.phase = Phase.OUTSIDE
        self.failure: ErrorCode | None = None
        """Why it can never be a member again, if it cannot."""
        self.member_id = ""
        self.generation_id = NO_GENERATION
        self.owned: tuple[TopicPartition, ...] = ()
        self.coordinator_gone = False
        """Whether the coordinator has to be looked for; the shell sets it back."""
        self._assignors: list[Assignor] = chosen
        self._is_cooperative = chosen[0].is_cooperative
        self._protocol: str | None = None
        self._assignments: list[SyncGroupRequestAssignment] = []
        self._remembered: tuple[TopicPartition, ...] = ()
        self._remembered_generation = NO_GENERATION
        self._is_lost = False
        self._in_flight: GroupRequest | None = None
        self._pending: list[Revoke | Take] = []
        self._not_before_ms = 0
        self._heartbeat_at_ms = 0

    # What to do

    def next_step(self, now_ms: int) -> Step:
        """What to do now."""
        if self._in_flight is not None:
            return Wait(None)
        if self._pending:
            return self._pending[0]
        if self.owned and (self._is_lost or self._lets_go()):
            self._pending.append(Revoke(self._to_let_go(), self._is_lost))
            return self._pending[0]
        self._is_lost = False
        if self.phase is Phase.FAILED:
            return Wait(None)
        if now_ms < self._not_before_ms:
            return Wait(self._not_before_ms)
        match self.phase:
            case Phase.OUTSIDE:
                return self._send(self._join_request())
            case Phase.JOINED:
                return self._send(self._sync_request())
            case Phase.STABLE if now_ms >= self._heartbeat_at_ms:
                return self._send(self._heartbeat_request())
            case Phase.STABLE:
                return Wait(self._heartbeat_at_ms)

    def done(self) -> None:
        """The shell has revoked or taken what it was told to."""
        if not self._pending:
            raise InvariantError(f"{self.member_id}: nothing was to be revoked or taken")
        match self._pending.pop(0):
            case Revoke(partitions):
                self.owned = tuple(one for one in self.owned if one not in partitions)
            case Take(partitions):
                self.owned = tuple(sorted({*self.owned, *partitions}))

    def subscribe(self, topics: Sequence[str]) -> None:
        """Want other topics from now on."""
        self.topics = tuple(topics)
        self.rejoin()

    def rejoin(self) -> None:
        """Enter the next generation: the shell knows a reason, as new partitions of a topic."""
        if self.phase is not Phase.FAILED:
            self.phase = Phase.OUTSIDE

    def leave(self, version: int) -> LeaveGroupRequest | None:
        """The request that takes it out, to be sent after everything was revoked; None if it need not be sent."""
        member_id, self.member_id = self.member_id, ""
        self._forget_generation()
        self._in_flight, self._pending, self.owned = None, [], ()
        if not member_id or self.settings.group_instance_id is not None:
            return None
        group_id = self.settings.group_id
        if version < _MANY_LEAVE_SINCE:
            return LeaveGroupRequest(group_id=group_id, member_id=member_id)
        return LeaveGroupRequest(group_id=group_id, members=[MemberIdentity(member_id=member_id)])

    # What happened

    def answered(
        self, response: GroupResponse, now_ms: int, topics: Callable[[], Topics] | None = None
    ) -> None:
        """The request was answered. `topics` tells a leader what there is to divide."""
        request, self._in_flight = self._in_flight, None
        match request, response:
            case JoinGroupRequest(), JoinGroupResponse():
                self._on_join(response, now_ms, topics)
            case SyncGroupRequest(), SyncGroupResponse():
                self._on_sync(response, now_ms)
            case HeartbeatRequest(), HeartbeatResponse():
                if response.error_code:
                    self.refused(ErrorCode(response.error_code), now_ms)
                self._heartbeat_at_ms = now_ms + self.settings.heartbeat_interval_ms
            case _:
                raise InvariantError(f"{response} does not answer {request}")

    def unanswered(self, now_ms: int) -> None:
        """The connection is gone; whether the request was carried out is unknown."""
        request, self._in_flight = self._in_flight, None
        self.coordinator_gone = True
        self._back_off(now_ms)
        if isinstance(request, SyncGroupRequest):
            self.rejoin()

    def refused(self, code: ErrorCode, now_ms: int) -> None:
        """The coordinator refused a request of this member, be it a commit."""
        if code in _COORDINATOR_GONE:
            self.coordinator_gone = True
        if code in _NOT_A_MEMBER:
            if code is ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            self._forget_generation()
        elif code is ErrorCode.REBALANCE_IN_PROGRESS:
            self.rejoin()
        elif code in _AGAIN:
            self._back_off(now_ms)
        else:
            self.phase, self.failure = Phase.FAILED, code
            self._is_lost = True

    # Joining

    def _send(self, request: GroupRequest) -> Send:
        self._in_flight = request
        return Send(request)

    def _lets_go(self) -> bool:
        return self.phase is Phase.OUTSIDE and bool(self._to_let_go())

    def _to_let_go(self) -> tuple[TopicPartition, ...]:
        """What must not be owned while joining."""
        if self._is_lost or not self._is_cooperative:
            return self.owned
        return tuple(one for one in self.owned if one.topic not in self.topics)

    def _join_request(self) -> JoinGroupRequest:
        settings = self.settings
        return JoinGroupRequest(
            group_id=settings.group_id,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequestProtocol(name=one.name, metadata=self._subscription(one))
                for one in self._assignors
            ],
        )

    def _subscription(self, assignor: Assignor) -> bytes:
        generation_id = self._remembered_generation
        return encode_subscription(
            Member(
                member_id=self.member_id,
                topics=self.topics,
                owned_partitions=self.owned,
                generation_id=self.generation_id,
                rack_id=self.settings.rack_id,
                user_data=assignor.user_data(self._remembered, generation_id),
            )
        )

    def _on_join(self, response: JoinGroupResponse, now_ms: int, topics: Callable[[], Topics] | None) -> None:
        code = ErrorCode(response.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            return
        if code:
            self.refused(code, now_ms)
            if code is ErrorCode.REBALANCE_IN_PROGRESS:
                self._back_off(now_ms)
            return
        self.phase = Phase.JOINED
        self.member_id = response.member_id
        self.generation_id = response.generation_id
        self._protocol = response.protocol_name
        self._assignments = []
        if response.leader == response.member_id and not response.skip_assignment:
            self._assignments = self._divide(response, {} if topics is None else topics())

    def _divide(self, response: JoinGroupResponse, topics: Topics) -> list[SyncGroupRequestAssignment]:
        """As a leader: what everybody gets."""
        members = [
            decode_subscription(one.member_id, one.metadata, one.group_instance_id)
            for one in response.members
        ]
        assignor = ASSIGNORS[response.protocol_name or ""]
        return [
            SyncGroupRequestAssignment(
                member_id=member_id, assignment=encode_assignment(MemberAssignment(partitions))
            )
            for member_id, partitions in assignor.assign(topics, members).items()
        ]

    def _sync_request(self) -> SyncGroupRequest:
        return SyncGroupRequest(
            group_id=self.settings.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self._protocol,
            assignments=self._assignments,
        )

    def _on_sync(self, response: SyncGroupResponse, now_ms: int) -> None:
        if response.error_code:
            self.refused(ErrorCode(response.error_code), now_ms)
            self.rejoin()
            return
        given = decode_assignment(response.assignment).partitions
        gone = tuple(one for one in self.owned if one not in given)
        added = tuple(one for one in given if one not in self.owned)
        self.phase = Phase.STABLE
        self._heartbeat_at_ms = now_ms + self.settings.heartbeat_interval_ms
        self._remembered, self._remembered_generation = tuple(given), self.generation_id
        if gone:
            self._pending.append(Revoke(gone, is_lost=False))
            self.phase = Phase.OUTSIDE  # So that another may have them.
        self._pending.append(Take(added, self.generation_id))

    def _heartbeat_request(self) -> HeartbeatRequest:
        return HeartbeatRequest(
            group_id=self.settings.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.settings.group_instance_id,
        )

    # Going back

    def _forget_generation(self) -> None:
        self.generation_id = NO_GENERATION
        self._is_lost = True
        self.rejoin()

    def _back_off(self, now_ms: int) -> None:
        self._not_before_ms = now_ms + self.settings.retry_backoff_ms

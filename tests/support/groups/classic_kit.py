"""Shared by the tests of classic groups: a coordinator with a clock, a log of its rows, and a desk for its answers.

`ClassicWorld` does what a host does: it hands out tickets, writes what an operation says as bytes, applies it, and notes
every answer. An answer without a question, and a second one, fail at once. `reload` throws the coordinator away and
makes another from the log, as a restart does.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from semel.core.coordination.outcome import LogRow, Origin, Ticket
from semel.core.groups.classic.coordinator import ClassicCoordinator
from semel.core.groups.classic.group import ClassicGroup
from semel.core.groups.group import Caller, GroupOutcome, Groups, GroupSettings, Topic
from semel.core.groups.rows import GROUP_ROWS
from semel.core.records.build import Record, RecordInput
from semel.core.wire.message import Response
from semel.core.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from semel.core.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from semel.core.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from semel.core.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from semel.core.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from semel.errors import ErrorCode

GROUP = "readers"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
DELAY_MS = 3_000
LAST = 9
"""The newest version of JoinGroup."""


class NoTopics:
    """A cluster without topics: classic groups do not ask."""

    topics: Mapping[str, Topic] = {}

    def topic(self, name: str) -> Topic | None:
        return self.topics.get(name)

    def is_gone(self, name: str) -> bool:
        return self.topic(name) is None

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        del topic_id
        return None


def subscription(*topics: str, version: int = 1, extra: bytes = b"") -> bytes:
    """What a consumer says of itself when it joins."""
    content = ConsumerProtocolSubscription(topics=list(topics)).encode(min(version, 3))
    return version.to_bytes(2, "big") + content + extra


def protocols(*names: str, metadata: bytes = subscription("orders")) -> list[JoinGroupRequestProtocol]:
    return [JoinGroupRequestProtocol(name=name, metadata=metadata) for name in names]


@dataclass
class ClassicWorld:
    """A coordinator and everything around it."""

    settings: GroupSettings = field(default_factory=GroupSettings)
    now_ms: int = 1_000_000
    log: list[Record] = field(default_factory=list)
    open: dict[int, str] = field(default_factory=dict)
    """Tickets without an answer, and what they ask for."""
    answers: dict[int, Response] = field(default_factory=dict)
    writes: int = 0
    """How many operations wrote rows."""
    _tickets: int = 0
    _ids: int = 0

    def __post_init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self.groups = Groups(NoTopics(), self.settings)
        self.coordinator = ClassicCoordinator(self.groups)

    @property
    def group(self) -> ClassicGroup:
        found = self.coordinator.group(GROUP)
        assert found is not None, "there is no such group"
        return found

    @property
    def state(self) -> str:
        found = self.coordinator.group(GROUP)
        return "none" if found is None else found.state.value

    # As a host

    def _ticket(self, what: str) -> Ticket:
        self._tickets += 1
        self.open[self._tickets] = what
        return cast("Ticket", self._tickets)

    def settle(self, outcome: GroupOutcome) -> None:
        """Write, apply, answer."""
        assert not outcome.effects
        self.writes += bool(outcome.rows)
        for row in outcome.rows:
            self.write(row)
        for ticket, response in outcome.replies:
            number = cast("int", ticket)
            assert number in self.open, f"answered twice, or never asked: {number} {response}"
            del self.open[number]
            self.answers[number] = response

    def write(self, row: LogRow) -> None:
        """Put a row into the log and apply what can be read back."""
        record = as_record(GROUP_ROWS.encode(row, self.now_ms), len(self.log))
        self.log.append(record)
        self._replay(record)

    def _replay(self, record: Record) -> None:
        row = GROUP_ROWS.decode(record)
        assert row is not None
        self.coordinator.apply(row, Origin(record.offset, self.now_ms))

    def reload(self, *, load: bool = True) -> None:
        """Restart: all that waits is lost, what the log holds is back."""
        self.open.clear()
        self._start()
        for record in self.log:
            self._replay(record)
        if load:
            self.settle(self.coordinator.loaded(self.now_ms))

    def fork(self) -> "ClassicWorld":
        """Another world made of the same log, to compare with."""
        other = replace(self, log=list(self.log), open={}, answers={})
        other.reload(load=False)
        return other

    def pass_time(self, ms: int) -> None:
        """Let time pass, stopping at every deadline on the way."""
        end_ms = self.now_ms + ms
        while True:
            next_ms = self.coordinator.next_deadline_ms()
            if next_ms is None or next_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, next_ms)
            self.settle(self.coordinator.due(self.now_ms))
        self.now_ms = end_ms

    # As clients

    def join(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        version: int = LAST,
        names: Sequence[str] = ("range",),
        metadata: bytes = subscription("orders"),
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        group_id: str = GROUP,
        client_id: str = "client",
    ) -> int:
        """Ask to join; the ticket's number."""
        self._ids += 1
        ticket = self._ticket("join")
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=protocols(*names, metadata=metadata),
        )
        caller = Caller(client_id, "/127.0.0.1", version)
        self.settle(self.coordinator.join(request, ticket, caller, self.now_ms, unique=f"{self._ids:04}"))
        return self._tickets

    def sync(
        self,
        member_id: str,
        generation: int | None = None,
        *,
        instance: str | None = None,
        given: Mapping[str, bytes] | None = None,
        protocol: tuple[str | None, str | None] = ("consumer", "range"),
        version: int = 5,
        group_id: str = GROUP,
    ) -> int:
        """Ask for one's part; a leader hands in everybody's."""
        ticket = self._ticket("sync")
        request = SyncGroupRequest(
            group_id=group_id,
            generation_id=self.group.generation_id if generation is None else generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol[0],
            protocol_name=protocol[1],
            assignments=[
                SyncGroupRequestAssignment(member_id=one, assignment=part)
                for one, part in (given or {}).items()
            ],
        )
        caller = Caller("client", "/127.0.0.1", version)
        self.settle(self.coordinator.sync(request, ticket, caller, self.now_ms))
        return self._tickets

    def heartbeat(
        self,
        member_id: str,
        generation: int | None = None,
        *,
        instance: str | None = None,
        group_id: str = GROUP,
    ) -> ErrorCode:
        ticket = self._ticket("heartbeat")
        request = HeartbeatRequest(
            group_id=group_id,
            generation_id=self.group.generation_id if generation is None else generation,
            member_id=member_id,
            group_instance_id=instance,
        )
        self.settle(self.coordinator.heartbeat(request, ticket, self.now_ms))
        answer = self.answers[self._tickets]
        assert isinstance(answer, HeartbeatResponse)
        return ErrorCode(answer.error_code)

    def leave(
        self, *leavers: tuple[str, str | None] | str, version: int = 5, group_id: str = GROUP
    ) -> LeaveGroupResponse:
        ticket = self._ticket("leave")
        identities = [(one, None) if isinstance(one, str) else one for one in leavers]
        request = LeaveGroupRequest(group_id=group_id)
        if version < 3:
            request.member_id = identities[0][0]
        else:
            request.members = [
                MemberIdentity(member_id=member_id, group_instance_id=instance)
                for member_id, instance in identities
            ]
        caller = Caller("client", "/127.0.0.1", version)
        self.settle(self.coordinator.leave(request, ticket, caller, self.now_ms))
        answer = self.answers[self._tickets]
        assert isinstance(answer, LeaveGroupResponse)
        return answer

    # What was answered

    def joined(self, ticket: int) -> JoinGroupResponse:
        answer = self.answers[ticket]
        assert isinstance(answer, JoinGroupResponse)
        return answer

    def synced(self, ticket: int) -> SyncGroupResponse:
        answer = self.answers[ticket]
        assert isinstance(answer, SyncGroupResponse)
        return answer

    def code(self, ticket: int) -> ErrorCode:
        answer: Any = self.answers[ticket]
        return ErrorCode(answer.error_code)

    # Stories that are told often

    def member_id(self, *, instance: str | None = None, **how: Any) -> str:
        """A new member's id: a dynamic one is given it, a static one gets it with its answer."""
        assert instance is None
        ticket = self.join(**how)
        assert self.code(ticket) is ErrorCode.MEMBER_ID_REQUIRED
        return self.joined(ticket).member_id

    def generation(self, *instances: str | None, **how: Any) -> list[str]:
        """A group of these members (None: a dynamic one) that has just got its first generation; the leader first."""
        tickets = []
        for instance in instances:
            if instance is None:
                tickets.append(self.join(self.member_id(**how), **how))
            else:
                tickets.append(self.join(instance=instance, **how))
        self.pass_time(DELAY_MS * min(len(instances), 2))
        assert self.state == "CompletingRebalance"
        return [self.joined(ticket).member_id for ticket in tickets]

    def stable(self, *instances: str | None, **how: Any) -> list[str]:
        """The same, and everybody has its part: the member's id as bytes."""
        members = self.generation(*instances, **how)
        self.assign(members)
        return members

    def assign(self, members: Sequence[str]) -> None:
        """Everybody syncs, the leader last."""
        leader = self.group.leader_id
        assert leader is not None
        name = self.group.protocol_name
        tickets = {
            one: self.sync(one, instance=self.instance_of(one), protocol=("consumer", name))
            for one in members
            if one != leader
        }
        given = {one: one.encode() for one in self.group.members}
        tickets[leader] = self.sync(
            leader, instance=self.instance_of(leader), given=given, protocol=("consumer", name)
        )
        for one, ticket in tickets.items():
            assert self.synced(ticket).assignment == one.encode()

    def instance_of(self, member_id: str) -> str | None:
        return self.group.members[member_id].group_instance_id


def as_record(given: RecordInput, offset: int) -> Record:
    """What a log gives back of a record."""
    return Record(offset, given.timestamp_ms, given.key, given.value, (), -1)


def snapshot(world: ClassicWorld) -> Any:
    """Everything a coordinator holds, to see whether it changed."""
    groups = {
        group_id: copy.deepcopy(_visible(group))
        for group_id, group in world.groups.by_id.items()
        if isinstance(group, ClassicGroup)
    }
    return groups, world.coordinator.next_deadline_ms(), len(world.log)


def _visible(group: ClassicGroup) -> dict[str, Any]:
    return {
        "state": group.state,
        "generation": group.generation_id,
        "type": group.protocol_type,
        "protocol": group.protocol_name,
        "leader": group.leader_id,
        "since": group.state_timestamp_ms,
        "members": {
            one.member_id: (
                one.group_instance_id,
                one.protocols,
                one.assignment,
                one.rebalance_timeout_ms,
                one.session_timeout_ms,
                one.is_new,
                one.join_ticket,
                one.sync_ticket,
            )
            for one in group.members.values()
        },
        "static": dict(group.static_members),
        "pending joins": list(group.pending_joins),
        "pending syncs": list(group.pending_syncs),
        "waiting": group.awaiting_join,
        "topics": group.subscribed_topics,
        "initial": group.initial_delay and (group.initial_delay.delay_ms, group.initial_delay.extended),
    }


def durable(world: ClassicWorld) -> Any:
    """What must survive a restart: of every group what its last row says."""
    last: dict[str, Any] = {}
    for record in world.log:
        row = GROUP_ROWS.decode(record)
        assert row is not None
        last[row.key.group] = row.value  # type: ignore[attr-defined]  # Rows of classic groups have one.
    return {group: value for group, value in last.items() if value is not None}

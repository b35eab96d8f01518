"""The coordinator of classic groups: the four requests of their members, and the passing of time.

Role.   `ClassicCoordinator` is the classic part of a shard of __consumer_offsets, a `group.GroupPart`. It shares the
        table of groups with the other parts and looks only at its own kind.
Flow.   The shard calls `join`, `sync`, `heartbeat` and `leave` with a ticket and the time, `apply` with every row of a
        classic group, `loaded` after the last one, and `due` when `next_deadline_ms` has come.
Rules.  * A refused request changes nothing, with one exception: a surplus member that rejoins a full group is removed.
        * The first accepted join creates a group; its row is written at once.
        * Every ticket is answered once: when its request is decided, when its wait ends, or when its member is removed.
        * Heartbeats, syncs and commits keep a session alive. After a load all sessions restart.
Elsewhere. A rebalance: `rebalance`. Admission: `joining`. The group's state: `group`.
"""

from typing import Final

from semel.core.coordination.outcome import LogRow, Origin, Outcome, Ticket
from semel.core.groups.classic import replies
from semel.core.groups.classic.group import ClassicGroup
from semel.core.groups.classic.joining import Joining
from semel.core.groups.classic.rebalance import Rebalance, Turn
from semel.core.groups.classic.states import ClassicGroupState
from semel.core.groups.classic.timers import Timer, TimerKind, Timers
from semel.core.groups.group import Caller, GroupOutcome, Groups, GroupType
from semel.core.wire.message import Response
from semel.core.wire.messages.group_rows import GroupMetadataKey, GroupMetadataValue
from semel.core.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from semel.core.wire.messages.join_group import JoinGroupRequest
from semel.core.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from semel.core.wire.messages.sync_group import SyncGroupRequest
from semel.errors import ErrorCode, InvariantError

_PROTOCOL_REQUIRED_SINCE: Final = 5
_MANY_LEAVE_SINCE: Final = 3


class ClassicCoordinator:
    """Every classic group of a shard."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._rebalance = Rebalance(groups)

    def group(self, group_id: str) -> ClassicGroup | None:
        """The classic group of that name; None for another kind or an unknown one."""
        group = self._groups.by_id.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    # Requests

    def join(
        self, request: JoinGroupRequest, ticket: Ticket, caller: Caller, now_ms: int, *, unique: str
    ) -> GroupOutcome:
        """JoinGroup: enter the next generation. `unique` is a unique text for a new member id."""
        settings = self._groups.settings
        member_id = request.member_id
        if not request.group_id:
            return _said(ticket, replies.join_refused(ErrorCode.INVALID_GROUP_ID, member_id))
        shortest_ms, longest_ms = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
        if not shortest_ms <= request.session_timeout_ms <= longest_ms:
            return _said(ticket, replies.join_refused(ErrorCode.INVALID_SESSION_TIMEOUT, member_id))
        there = self._groups.by_id.get(request.group_id)
        if there is not None and there.type is not GroupType.CLASSIC:
            return _said(ticket, replies.join_refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ""))
        group = self.group(request.group_id)
        turn = Turn(now_ms)
        if group is not None:
            Joining(self._rebalance, group, request, ticket, caller, turn, unique=unique).run()
            return turn.outcome
        if member_id:
            return _said(ticket, replies.join_refused(ErrorCode.UNKNOWN_MEMBER_ID, member_id))
        group = ClassicGroup(request.group_id, self._rebalance.timers, state_timestamp_ms=now_ms)
        Joining(self._rebalance, group, request, ticket, caller, turn, unique=unique).run()
        if group.members or group.pending_joins:
            self._groups.by_id[group.group_id] = group
            turn.outcome.rows.append(group.created_row(now_ms))
        return turn.outcome

    def sync(self, request: SyncGroupRequest, ticket: Ticket, caller: Caller, now_ms: int) -> GroupOutcome:
        """SyncGroup: get the member's assignment; the leader hands in all assignments."""
        protocol = (request.protocol_type, request.protocol_name)
        if caller.version >= _PROTOCOL_REQUIRED_SINCE and None in protocol:
            return _said(ticket, replies.sync_refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        if not request.group_id:
            return _said(ticket, replies.sync_refused(ErrorCode.INVALID_GROUP_ID))
        group = self.group(request.group_id)
        if group is None or group.state is ClassicGroupState.EMPTY:
            return _said(ticket, replies.sync_refused(ErrorCode.UNKNOWN_MEMBER_ID))
        refused = _refuses_sync(group, request)
        if refused:
            return _said(ticket, replies.sync_refused(refused))
        turn = Turn(now_ms)
        member = group.members[request.member_id]
        self._synced(group, request.member_id)
        if group.state is ClassicGroupState.STABLE:
            turn.reply(ticket, replies.synced(group, member.assignment))
            return turn.outcome
        if member.sync_ticket is not None:  # The same member asked before, and only one answer can be of use.
            turn.reply(member.sync_ticket, replies.sync_refused(ErrorCode.REBALANCE_IN_PROGRESS))
        member.sync_ticket = ticket
        if group.leader_id == request.member_id:
            self._assign(group, request, turn)
        return turn.outcome

    def heartbeat(self, request: HeartbeatRequest, ticket: Ticket, now_ms: int) -> GroupOutcome:
        """Heartbeat: the member is alive, and learns whether it must rejoin."""
        if not request.group_id:
            return _said(ticket, HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        group = self.group(request.group_id)
        if group is None:
            return _said(ticket, HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        code = group.check_member(request.member_id, request.group_instance_id)
        if not code and request.generation_id != group.generation_id:
            code = ErrorCode.ILLEGAL_GENERATION
        if not code:
            group.heard_from(group.members[request.member_id], now_ms)
            if group.state is ClassicGroupState.PREPARING_REBALANCE:
                code = ErrorCode.REBALANCE_IN_PROGRESS
        return _said(ticket, HeartbeatResponse(error_code=code))

    def leave(self, request: LeaveGroupRequest, ticket: Ticket, caller: Caller, now_ms: int) -> GroupOutcome:
        """LeaveGroup: members leave, each by its member id, a static one also by its instance id alone."""
        if not request.group_id:
            return _said(ticket, LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        leavers = request.members
        if caller.version < _MANY_LEAVE_SINCE:
            leavers = [MemberIdentity(member_id=request.member_id)]
        group = self.group(request.group_id)
        turn = Turn(now_ms)
        answers = [
            MemberResponse(
                member_id=leaver.member_id,
                group_instance_id=leaver.group_instance_id,
                error_code=ErrorCode.UNKNOWN_MEMBER_ID if group is None else self._leave(group, leaver, turn),
            )
            for leaver in leavers
        ]
        turn.reply(ticket, replies.left(answers, caller.version))
        anybody = not all(answer.error_code for answer in answers)
        if group is not None and anybody and group.state is not ClassicGroupState.EMPTY:
            self._rebalance.prepare_or_complete(group, turn)
        return turn.outcome

    # Rows and time

    def apply(self, row: LogRow, origin: Origin) -> None:  # noqa: ARG002  # A group's rows are in no transaction.
        """Take over a row of a classic group."""
        if not isinstance(row.key, GroupMetadataKey):
            raise InvariantError(f"{row.key} is not a row of a classic group")
        group_id = row.key.group
        group = self.group(group_id)
        if isinstance(row.value, GroupMetadataValue):
            if group is None:
                group = self._groups.by_id[group_id] = ClassicGroup(group_id, self._rebalance.timers)
            group.take_over(row.value)
            return
        if group is not None:
            self._rebalance.forget(group)
            group.state = ClassicGroupState.DEAD
            del self._groups.by_id[group_id]

    def loaded(self, now_ms: int) -> GroupOutcome:
        """Restart sessions; a group over the current size limit must rebalance and shrink."""
        turn = Turn(now_ms)
        for group in self._groups.by_id.values():
            if isinstance(group, ClassicGroup):
                for member in group.members.values():
                    group.heard_from(member, now_ms)
                if len(group.members) > self._rebalance.group_max_size:
                    self._rebalance.prepare(group, turn)
        return turn.outcome

    @property
    def timers(self) -> Timers:
        """The timers of its groups."""
        return self._rebalance.timers

    def begin_rebalance(self, group_id: str, now_ms: int) -> GroupOutcome:
        """Make the members of a group that changed its kind rejoin, each within its session."""
        turn = Turn(now_ms)
        group = self.group(group_id)
        if group is not None and group.state is ClassicGroupState.STABLE:
            for member in group.members.values():
                group.heard_from(member, now_ms)
            self._rebalance.prepare(group, turn)
        return turn.outcome

    def next_deadline_ms(self) -> int | None:
        return self._rebalance.timers.next_ms()

    def due(self, now_ms: int) -> GroupOutcome:
        """Run the timers that are due. After an operation has written a group's row, the group waits until the row is
        applied."""
        turn = Turn(now_ms)
        timers = self._rebalance.timers
        written: set[str] = set()
        later = []
        while (timer := timers.pop_first(now_ms)) is not None:
            if timer.group_id in written:
                later.append(timer)
                continue
            rows = len(turn.outcome.rows)
            self._run_out(timer, turn)
            if len(turn.outcome.rows) > rows:
                written.add(timer.group_id)
        for timer in later:
            timers.set(timer, now_ms)
        return turn.outcome

    def _run_out(self, timer: Timer, turn: Turn) -> None:
        group = self.group(timer.group_id)
        if group is None:
            return
        match timer.kind:
            case TimerKind.SESSION:
                self._rebalance.session_due(group, timer.member_id, turn)
            case TimerKind.JOIN:
                self._rebalance.join_due(group, turn)
            case TimerKind.SYNC:
                self._rebalance.sync_due(group, turn)

    # Within a request

    def _assign(self, group: ClassicGroup, request: SyncGroupRequest, turn: Turn) -> None:
        """Take over the leader's assignments: a member it left out gets none, an unknown member is ignored."""
        group.check_move(ClassicGroupState.STABLE)
        given = {one.member_id: bytes(one.assignment) for one in request.assignments}
        turn.outcome.rows.append(group.as_row(given, turn.now_ms))
        for member in group.members.values():
            if member.sync_ticket is not None:
                turn.reply(member.sync_ticket, replies.synced(group, given.get(member.member_id, b"")))
                member.sync_ticket = None
                group.heard_from(member, turn.now_ms)

    def _synced(self, group: ClassicGroup, member_id: str) -> None:
        group.pending_syncs.pop(member_id, None)
        if not group.pending_syncs:
            self._rebalance.timers.cancel(Timer(TimerKind.SYNC, group.group_id))

    def _leave(self, group: ClassicGroup, leaver: MemberIdentity, turn: Turn) -> ErrorCode:
        member_id, instance_id = leaver.member_id, leaver.group_instance_id
        if not member_id and instance_id is not None:  # An administrator names instance ids alone.
            member_id = group.static_members.get(instance_id, "")
        if member_id not in group.pending_joins:
            refused = group.check_member(member_id, instance_id)
            if refused:
                return refused
        self._rebalance.dismiss(group, member_id, turn)
        return ErrorCode.NONE


def _refuses_sync(group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode:
    refused = group.check_member(request.member_id, request.group_instance_id)
    if refused:
        return refused
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if request.protocol_type not in (None, group.protocol_type) or request.protocol_name not in (
        None,
        group.protocol_name,
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _said(ticket: Ticket, response: Response) -> GroupOutcome:
    """An immediate reply without rows."""
    return Outcome(replies=[(ticket, response)])

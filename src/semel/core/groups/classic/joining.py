"""JoinGroup: a member asks to be in the next generation.

Role.   `join` answers the request, or lets it wait for the rebalance to end.
Rules.  * From version 4 on, a dynamic member without an id gets MEMBER_ID_REQUIRED and an id to rejoin with, so that a
          retry is still the same member. The pending id counts as an expected member for one session.
        * A static member without an id replaces the former holder of its instance id, whose waiting requests are
          fenced. In a stable group it gets the old assignment back without a rebalance, unless the group would choose
          another protocol.
        * A member that rejoins unchanged gets the current generation; only the leader starts a rebalance that way.
        * A full group (`group.max.size`) admits no new member, and surplus members that rejoin last are removed.
          Pending ids are limited too: a client that forgets its id each time must not exhaust memory.
"""

from typing import Final

from semel.core.coordination.outcome import Ticket
from semel.core.groups.classic import replies
from semel.core.groups.classic.group import ClassicGroup
from semel.core.groups.classic.member import Member, MemberProtocol, protocols_of
from semel.core.groups.classic.rebalance import Rebalance, Turn
from semel.core.groups.classic.states import ClassicGroupState
from semel.core.groups.classic.timers import NEW_MEMBER_JOIN_TIMEOUT_MS, Timer, TimerKind
from semel.core.groups.group import Caller
from semel.core.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from semel.errors import ErrorCode, InvariantError

_REBALANCE_TIMEOUT_SINCE: Final = 1
_MEMBER_ID_REQUIRED_SINCE: Final = 4
_SKIP_ASSIGNMENT_SINCE: Final = 9
PENDING_JOINS_MAX: Final = 10_000


class Joining:
    """One request to join one group."""

    __slots__ = ("caller", "group", "protocols", "rebalance", "request", "ticket", "turn", "unique")

    def __init__(
        self,
        rebalance: Rebalance,
        group: ClassicGroup,
        request: JoinGroupRequest,
        ticket: Ticket,
        caller: Caller,
        turn: Turn,
        *,
        unique: str,
    ) -> None:
        self.rebalance = rebalance
        self.group = group
        self.request = request
        self.ticket = ticket
        self.caller = caller
        self.turn = turn
        self.unique = unique
        self.protocols: tuple[MemberProtocol, ...] = protocols_of(request.protocols)

    def run(self) -> None:
        """Answer the request, or keep it waiting."""
        group, request = self.group, self.request
        if not self._has_room():
            self.rebalance.dismiss(group, request.member_id, self.turn)
            self._refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
        elif not group.supports(request.protocol_type, [protocol.name for protocol in self.protocols]):
            self._refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
        elif request.member_id:
            self._join_by_id(request.member_id)
        else:
            self._join_anew()

    def _has_room(self) -> bool:
        group, member_id = self.group, self.request.member_id
        if not member_id and len(group.pending_joins) >= PENDING_JOINS_MAX:
            return False
        size_max = self.rebalance.group_max_size
        member = group.members.get(member_id)
        match group.state:
            case ClassicGroupState.EMPTY | ClassicGroupState.DEAD:
                return True
            case ClassicGroupState.PREPARING_REBALANCE:
                # Count waiting joins, not known members: if the limit was lowered, the last members to rejoin are the
                # surplus.
                waits = member is not None and member.join_ticket is not None
                return waits or group.awaiting_join < size_max
            case ClassicGroupState.COMPLETING_REBALANCE | ClassicGroupState.STABLE:
                return member is not None or len(group.members) < size_max

    # Without a member id

    def _join_anew(self) -> None:
        instance_id = self.request.group_instance_id
        prefix = self.caller.client_id if instance_id is None else instance_id
        member_id = f"{prefix}-{self.unique}"
        if instance_id is None and self.caller.version >= _MEMBER_ID_REQUIRED_SINCE:
            self.group.pending_joins[member_id] = None
            self._expect(member_id, self.request.session_timeout_ms)
            self._refuse(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        elif instance_id is not None and instance_id in self.group.static_members:
            self._replace(self.group.static_members[instance_id], member_id)
        else:
            self._add(member_id)

    def _add(self, member_id: str) -> None:
        group = self.group
        member = Member(
            member_id=member_id,
            group_instance_id=self.request.group_instance_id,
            client_id=self.caller.client_id,
            client_host=self.caller.client_host,
            rebalance_timeout_ms=self._rebalance_timeout_ms(),
            session_timeout_ms=self.request.session_timeout_ms,
            protocols=self.protocols,
            is_new=True,
            join_ticket=self.ticket,
        )
        if not group.members:
            group.protocol_type = self.request.protocol_type
        if group.initial_delay is not None:
            group.initial_delay.extended = True
        group.add(member)
        self._expect(member_id, NEW_MEMBER_JOIN_TIMEOUT_MS)
        self.rebalance.prepare_or_complete(group, self.turn)

    def _expect(self, member_id: str, timeout_ms: int) -> None:
        """Set the deadline of a member that sends no heartbeats yet."""
        timer = Timer(TimerKind.SESSION, self.group.group_id, member_id)
        self.group.timers.set(timer, self.turn.now_ms + timeout_ms)

    def _replace(self, old_id: str, member_id: str) -> None:
        group, turn = self.group, self.turn
        old, old_leader = group.members[old_id], group.leader_id
        member = Member(
            member_id=member_id,
            group_instance_id=old.group_instance_id,
            client_id=old.client_id,
            client_host=old.client_host,
            rebalance_timeout_ms=self._rebalance_timeout_ms(),
            session_timeout_ms=self.request.session_timeout_ms,
            protocols=self.protocols,
            assignment=old.assignment,
        )
        self.rebalance.dismiss(group, old_id, turn, ErrorCode.FENCED_INSTANCE_ID)
        group.add(member)
        if old_leader == old_id:
            group.leader_id = member_id
        group.heard_from(member, turn.now_ms)
        if group.state is ClassicGroupState.STABLE and group.next_protocol() == group.protocol_name:
            assignments = {one.member_id: one.assignment for one in group.members.values()}
            turn.outcome.rows.append(group.as_row(assignments, turn.now_ms))
            self._answer(self._joined_again(member, old_leader))
            return
        group.start_waiting(member, self.ticket)
        self.rebalance.prepare_or_complete(group, turn)

    def _joined_again(self, member: Member, old_leader: str | None) -> JoinGroupResponse:
        """A returning leader has no assignment to hand in: it is told to skip that, or (before version 9) that another
        leads."""
        group, member_id = self.group, member.member_id
        if self.caller.version >= _SKIP_ASSIGNMENT_SINCE:
            leads = group.leader_id == member_id
            return replies.joined(group, member_id, lists_members=leads, skip_assignment=leads)
        return replies.joined(group, member_id, lists_members=False, leader_id=old_leader)

    # With one

    def _join_by_id(self, member_id: str) -> None:
        group = self.group
        instance_id = self.request.group_instance_id
        if member_id in group.pending_joins:
            if instance_id is not None:  # Only dynamic members get ids.
                self._refuse(ErrorCode.UNKNOWN_SERVER_ERROR, "")
            else:
                self._add(member_id)
            return
        refused = group.check_member(member_id, instance_id)
        if refused:
            self._refuse(refused, member_id)
            return
        member = group.members[member_id]
        leads = group.leader_id == member_id
        same = member.protocols == self.protocols
        match group.state:
            case ClassicGroupState.PREPARING_REBALANCE:
                self._wait(member)
            case ClassicGroupState.COMPLETING_REBALANCE if same:  # Its last answer was lost.
                self._answer(replies.joined(group, member_id, lists_members=leads))
            case ClassicGroupState.STABLE if same and not leads:
                self._answer(replies.joined(group, member_id, lists_members=False))
            case ClassicGroupState.COMPLETING_REBALANCE | ClassicGroupState.STABLE:
                self._wait(member)
            case ClassicGroupState.EMPTY | ClassicGroupState.DEAD:
                raise InvariantError(
                    f"group {group.group_id} is {group.state} and has the member {member_id}"
                )

    def _wait(self, member: Member) -> None:
        group = self.group
        if member.join_ticket is not None:  # The same member asked before, and only one answer can be of use.
            superseded = replies.join_refused(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
            self.turn.reply(member.join_ticket, superseded)
        group.update(
            member,
            self.protocols,
            rebalance_timeout_ms=self._rebalance_timeout_ms(),
            session_timeout_ms=self.request.session_timeout_ms,
        )
        group.start_waiting(member, self.ticket)
        self.rebalance.prepare_or_complete(group, self.turn)

    # Answers

    def _rebalance_timeout_ms(self) -> int:
        if self.caller.version < _REBALANCE_TIMEOUT_SINCE:
            return self.request.session_timeout_ms
        return self.request.rebalance_timeout_ms

    def _refuse(self, code: ErrorCode, member_id: str) -> None:
        self._answer(replies.join_refused(code, member_id))

    def _answer(self, response: JoinGroupResponse) -> None:
        self.turn.reply(self.ticket, response)

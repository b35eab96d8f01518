"""Classic members of a KIP-848 group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

Role.   A group that migrates between the protocols has members of both kinds. `ClassicMembers` serves the classic ones.
Flow.   `shard` calls it for classic requests to a KIP-848 group that has members.
Rules.  * A classic member's generation is its member epoch. JoinGroup is answered at once; SyncGroup returns the
          assignment. A heartbeat asks the member to rejoin for a new target, to give up partitions, or to get
          partitions that became free.
        * The coordinator assigns: a classic member is never leader, and assignments it sends are ignored.
        * Its subscription names its owned partitions, which confirms a revocation.
        * It must rejoin within its rebalance timeout after it was asked to, and sync within it after joining.
        * A classic static member that replaces the last KIP-848 member makes the group classic.
"""

from dataclasses import replace
from typing import Final

from semel.core.coordination.outcome import LogRow, Outcome, Ticket
from semel.core.groups.consumer import migration
from semel.core.groups.consumer.checks import Refusal
from semel.core.groups.consumer.embedded import by_id, read_subscription, read_version, write_assignment
from semel.core.groups.consumer.group import CONSUMER_PROTOCOL, ConsumerGroup
from semel.core.groups.consumer.leaving import Leaving
from semel.core.groups.consumer.member import Member, topic_names, without_epochs
from semel.core.groups.consumer.membership import (
    full_refusal,
    replaced_member,
    static_member,
    unknown_member,
)
from semel.core.groups.consumer.soft_state import SoftState, Timer, TimerKind
from semel.core.groups.consumer.states import MemberState
from semel.core.groups.consumer.target_assignment import Target
from semel.core.groups.consumer.turn import RegexChange, Turn
from semel.core.groups.group import Caller, GroupOutcome
from semel.core.wire.message import Response
from semel.core.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from semel.core.wire.messages.group_rows import ClassicMemberMetadata, ClassicProtocol
from semel.core.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from semel.core.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from semel.core.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from semel.core.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from semel.errors import ErrorCode

_REBALANCE_TIMEOUT_SINCE: Final = 1
_MEMBER_ID_REQUIRED_SINCE: Final = 4
_MANY_LEAVE_SINCE: Final = 3


class ClassicMembers:
    """Classic requests to KIP-848 groups of a shard."""

    def __init__(self, soft: SoftState, leaving: Leaving) -> None:
        self._soft = soft
        self._groups = soft.groups
        self._leaving = leaving

    def join(
        self,
        group: ConsumerGroup,
        request: JoinGroupRequest,
        ticket: Ticket,
        caller: Caller,
        now_ms: int,
        *,
        new_member_id: str,
    ) -> GroupOutcome:
        """JoinGroup: join, or report owned partitions and catch up."""
        settings = self._groups.settings
        shortest_ms, longest_ms = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
        if not shortest_ms <= request.session_timeout_ms <= longest_ms:
            return _said(ticket, _join_refused(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id))
        member_id = request.member_id or new_member_id
        code = self._join_flaw(group, request, member_id)
        if code:
            return _said(ticket, _join_refused(code))
        dynamic = request.group_instance_id is None
        if not request.member_id and dynamic and caller.version >= _MEMBER_ID_REQUIRED_SINCE:
            return _said(ticket, _join_refused(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        subscription = read_subscription(bytes(request.protocols[0].metadata))
        if subscription is None:
            return _said(ticket, _join_refused(ErrorCode.UNKNOWN_SERVER_ERROR))
        rows: list[LogRow] = []
        answer = self._joined(group, request, subscription, caller, now_ms, member_id, rows)
        if isinstance(answer, Refusal):
            return _said(ticket, _join_refused(answer.code))
        return Outcome(rows=rows, replies=[(ticket, answer)])

    def _join_flaw(self, group: ConsumerGroup, request: JoinGroupRequest, member_id: str) -> ErrorCode:
        if self._groups.settings.group_consumer_migration_policy == migration.DISABLED_POLICY:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        refused = full_refusal(self._groups, group, member_id)
        if refused is not None:
            return refused.code
        names = [protocol.name for protocol in request.protocols]
        if request.protocol_type != CONSUMER_PROTOCOL or not _supports(group, names):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return ErrorCode.NONE

    def _joined(
        self,
        group: ConsumerGroup,
        request: JoinGroupRequest,
        subscription: ConsumerProtocolSubscription,
        caller: Caller,
        now_ms: int,
        member_id: str,
        rows: list[LogRow],
    ) -> JoinGroupResponse | Refusal:
        found = self._member(group, request, member_id, rows)
        if isinstance(found, Refusal):
            return found
        before, known = found
        turn = Turn(self._soft, group, now_ms, rows, before)
        member = _updated(known, request, subscription, caller)
        names_changed = turn.subscribe(known, member)
        regex = turn.change_regex(member)
        if isinstance(regex, Refusal):
            return regex
        bump = names_changed or regex is not RegexChange.NONE
        epoch = turn.group_epoch(member, bump=bump)
        owned = by_id(subscription.owned_partitions, self._groups.topics)
        timeout_ms = member.rebalance_timeout_ms
        downgrades = before is not None and before.classic is None and before.instance_id is not None
        if downgrades and before is not None and self._may_downgrade(group, before):
            stale = epoch > group.assignment_epoch
            if not stale:
                target = Target(group.assignment_epoch, group.target_of(member.member_id, member.instance_id))
                moved = turn.reconcile(member, target, owned, subscription_changed=bump)
                if isinstance(moved, Refusal):
                    return moved
                member = moved
            classic = migration.downgraded(
                self._groups, group, self._leaving.classic_timers, without={before.member_id}, plus=member
            )
            if classic is not None:
                rows[:] = self._leaving.downgrade(group, classic, now_ms, rebalance=stale)
                return _join_answer(member)
        target = turn.target(member, epoch)
        reconciled = turn.reconcile(member, target, owned, subscription_changed=bump)
        if isinstance(reconciled, Refusal):
            return reconciled
        group_id = group.group_id
        self._soft.timers.cancel(Timer(TimerKind.JOIN, group_id, reconciled.member_id))
        self._soft.heard_from_member(group_id, reconciled, now_ms)
        self._soft.timers.set(Timer(TimerKind.SYNC, group_id, reconciled.member_id), now_ms + timeout_ms)
        return _join_answer(reconciled)

    def _may_downgrade(self, group: ConsumerGroup, replaced: Member) -> bool:
        return migration.may_downgrade(
            self._groups, group, without={replaced.member_id}, left=len(group.members)
        )

    def _member(
        self, group: ConsumerGroup, request: JoinGroupRequest, member_id: str, rows: list[LogRow]
    ) -> tuple[Member | None, Member] | Refusal:
        instance_id = request.group_instance_id
        if instance_id is None:
            member = group.members.get(member_id)
            return member, member or Member(member_id)
        existing = group.static_member(instance_id)
        if request.member_id:
            static = static_member(group, instance_id, member_id)
            return static if isinstance(static, Refusal) else (static, static)
        if existing is None:
            return None, Member(member_id)
        return existing, replaced_member(group, existing, member_id, rows)

    def sync(
        self, group: ConsumerGroup, request: SyncGroupRequest, ticket: Ticket, now_ms: int
    ) -> GroupOutcome:
        """SyncGroup: return the member's assignment."""
        member = self._classic_member(group, request.member_id, request.group_instance_id)
        if isinstance(member, ErrorCode):
            return _said(ticket, SyncGroupResponse(error_code=member))
        code = self._sync_flaw(group, member, request, now_ms)
        if code:
            return _said(ticket, SyncGroupResponse(error_code=code))
        self._soft.timers.cancel(Timer(TimerKind.SYNC, group.group_id, member.member_id))
        self._soft.heard_from_member(group.group_id, member, now_ms)
        version = read_version(_protocols(member)[0].metadata) or 0
        return _said(
            ticket,
            SyncGroupResponse(
                protocol_type=request.protocol_type,
                protocol_name=request.protocol_name,
                assignment=write_assignment(without_epochs(member.assigned), self._groups.topics, version),
            ),
        )

    def _sync_flaw(
        self, group: ConsumerGroup, member: Member, request: SyncGroupRequest, now_ms: int
    ) -> ErrorCode:
        if request.generation_id != member.member_epoch:
            return ErrorCode.ILLEGAL_GENERATION
        if request.protocol_type not in (None, CONSUMER_PROTOCOL) or request.protocol_name not in (
            None,
            _protocols(member)[0].name,
        ):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if (
            group.assignment_epoch > member.member_epoch
            and member.state is not MemberState.UNREVOKED_PARTITIONS
        ):
            self._expect_join(group, member, now_ms)
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def heartbeat(
        self, group: ConsumerGroup, request: HeartbeatRequest, ticket: Ticket, now_ms: int
    ) -> GroupOutcome:
        """Heartbeat: extend the session; say whether the member must rejoin."""
        member = self._classic_member(group, request.member_id, request.group_instance_id)
        if isinstance(member, ErrorCode):
            return _said(ticket, HeartbeatResponse(error_code=member))
        if request.generation_id != member.member_epoch:
            return _said(ticket, HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION))
        self._soft.heard_from_member(group.group_id, member, now_ms)
        code = ErrorCode.NONE
        if (
            member.member_epoch < group.assignment_epoch
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or (member.state is MemberState.UNRELEASED_PARTITIONS and not _waits(group, member))
        ):
            self._expect_join(group, member, now_ms)
            code = ErrorCode.REBALANCE_IN_PROGRESS
        return _said(ticket, HeartbeatResponse(error_code=code))

    def leave(
        self, group: ConsumerGroup, request: LeaveGroupRequest, ticket: Ticket, caller: Caller, now_ms: int
    ) -> GroupOutcome:
        """LeaveGroup: remove members of either kind."""
        leavers = request.members
        if caller.version < _MANY_LEAVE_SINCE:
            leavers = [MemberIdentity(member_id=request.member_id)]
        gone: dict[str, Member] = {}
        answers = []
        for leaver in leavers:
            member = self._leaver(group, leaver)
            code = ErrorCode.NONE
            if isinstance(member, Refusal):
                code = member.code
            else:
                gone[member.member_id] = member
            answers.append(
                MemberResponse(
                    member_id=leaver.member_id, group_instance_id=leaver.group_instance_id, error_code=code
                )
            )
        answer = LeaveGroupResponse(members=answers)
        if caller.version < _MANY_LEAVE_SINCE:
            answer = LeaveGroupResponse(error_code=answers[0].error_code)
        return Outcome(rows=self._leaving.fence(group, gone.values(), now_ms), replies=[(ticket, answer)])

    def _leaver(self, group: ConsumerGroup, leaver: MemberIdentity) -> Member | Refusal:
        if leaver.group_instance_id is None:
            return group.members.get(leaver.member_id) or unknown_member(group, leaver.member_id)
        if leaver.member_id:
            return static_member(group, leaver.group_instance_id, leaver.member_id)
        found = group.static_member(leaver.group_instance_id)  # An administrator names instance ids alone.
        return found or unknown_member(group, leaver.member_id)

    def _classic_member(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None
    ) -> Member | ErrorCode:
        if instance_id is None:
            member = group.members.get(member_id)
        else:
            static = static_member(group, instance_id, member_id)
            if isinstance(static, Refusal):
                return static.code
            member = static
        return ErrorCode.UNKNOWN_MEMBER_ID if member is None or member.classic is None else member

    def _expect_join(self, group: ConsumerGroup, member: Member, now_ms: int) -> None:
        timer = Timer(TimerKind.JOIN, group.group_id, member.member_id)
        if self._soft.timers.get(timer) is None:
            self._soft.timers.set(timer, now_ms + member.rebalance_timeout_ms)


def _supports(group: ConsumerGroup, names: list[str]) -> bool:
    """Whether all classic members share one of these protocols."""
    if not names:
        return False
    known = [{one.name for one in _protocols(m)} for m in group.members.values() if m.classic is not None]
    return any(all(name in of_member for of_member in known) for name in names)


def _protocols(member: Member) -> list[ClassicProtocol]:
    return [] if member.classic is None else member.classic.supported_protocols


def _updated(
    known: Member, request: JoinGroupRequest, subscription: ConsumerProtocolSubscription, caller: Caller
) -> Member:
    """The member updated from the request."""
    rebalance_timeout_ms = request.rebalance_timeout_ms
    if caller.version < _REBALANCE_TIMEOUT_SINCE:
        rebalance_timeout_ms = request.session_timeout_ms
    return replace(
        known,
        instance_id=known.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=subscription.rack_id or known.rack_id,
        rebalance_timeout_ms=rebalance_timeout_ms,
        subscribed_topic_names=topic_names(subscription.topics),
        subscribed_topic_regex="",
        client_id=caller.client_id,
        client_host=caller.client_host,
        classic=ClassicMemberMetadata(
            session_timeout_ms=request.session_timeout_ms,
            supported_protocols=[
                ClassicProtocol(name=one.name, metadata=bytes(one.metadata)) for one in request.protocols
            ],
        ),
    )


def _waits(group: ConsumerGroup, member: Member) -> bool:
    """Whether another member still holds a partition of this member's target."""
    return any(
        partition not in member.assigned.get(topic_id, {})
        and group.partition_epoch(topic_id, partition) is not None
        for topic_id, partitions in group.target.get(member.member_id, {}).items()
        for partition in partitions
    )


def _join_answer(member: Member) -> JoinGroupResponse:
    return JoinGroupResponse(
        generation_id=member.member_epoch,
        protocol_type=CONSUMER_PROTOCOL,
        protocol_name=_protocols(member)[0].name,
        member_id=member.member_id,
    )


def _join_refused(code: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, member_id=member_id, protocol_name=None)


def _said(ticket: Ticket, response: Response) -> GroupOutcome:
    return Outcome(replies=[(ticket, response)])

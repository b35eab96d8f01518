"""ConsumerGroupHeartbeat: a member of a KIP-848 group joins, stays, or leaves.

Role.   `Heartbeat` decides one request. `coordinator` writes its rows and sends its answers, or only its refusal.
Rules.  * Epoch 0 joins or rejoins: an unknown group is created, and a classic group of consumers becomes a KIP-848
          group. Epoch -1 leaves. With -2 a static member leaves temporarily and keeps its partitions.
        * A member may name its previous epoch, in case its last answer was lost, if it owns no more than its
          assignment.
        * A static member replaces its predecessor only after that has left, or if that is a classic member.
        * The answer carries the assignment for a joining member, for a full request (an answer may have been lost), and
          after a change. Otherwise the assignment is omitted: it is unchanged.
"""

from dataclasses import replace

from semel.core.coordination.outcome import LogRow, Ticket
from semel.core.groups.classic.group import ClassicGroup
from semel.core.groups.consumer import migration
from semel.core.groups.consumer.checks import NOT_SENT, Refusal
from semel.core.groups.consumer.group import ConsumerGroup
from semel.core.groups.consumer.leaving import Leaving
from semel.core.groups.consumer.member import Member, topic_names, without_epochs
from semel.core.groups.consumer.membership import (
    full_refusal,
    no_group,
    replaced_member,
    static_member,
    unknown_member,
)
from semel.core.groups.consumer.soft_state import SoftState
from semel.core.groups.consumer.states import JOIN_EPOCH, STATIC_LEAVE_EPOCH
from semel.core.groups.consumer.turn import RegexChange, Turn
from semel.core.groups.group import Caller, GroupType
from semel.core.wire.message import Response
from semel.core.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from semel.errors import ErrorCode

_Answer = ConsumerGroupHeartbeatResponse | Refusal


class Heartbeat:
    """One request."""

    __slots__ = (
        "_caller",
        "_groups",
        "_leaving",
        "_member_id",
        "_now_ms",
        "_request",
        "_soft",
        "answers",
        "rows",
    )

    def __init__(
        self,
        soft: SoftState,
        leaving: Leaving,
        request: ConsumerGroupHeartbeatRequest,
        caller: Caller,
        now_ms: int,
        *,
        new_member_id: str,
    ) -> None:
        self._soft = soft
        self._groups = soft.groups
        self._leaving = leaving
        self._request = request
        self._caller = caller
        self._now_ms = now_ms
        self._member_id = request.member_id or new_member_id
        self.rows: list[LogRow] = []
        self.answers: list[tuple[Ticket, Response]] = []
        """Answers for members that wait in a classic group which has become a KIP-848 group."""

    def run(self) -> _Answer:
        """The answer; after a refusal, the rows and answers are dropped."""
        return self._leave() if self._request.member_epoch < JOIN_EPOCH else self._live()

    def _live(self) -> _Answer:
        request, rows, now_ms = self._request, self.rows, self._now_ms
        joining = request.member_epoch == JOIN_EPOCH
        group = self._group_to_join() if joining else self._group()
        if isinstance(group, Refusal):
            return group
        refused = full_refusal(self._groups, group, request.member_id)
        if refused is not None:
            return refused
        found = self._member(group)
        if isinstance(found, Refusal):
            return found
        before, known = found
        turn = Turn(self._soft, group, now_ms, rows, before)
        member = _updated(known, request, self._caller)
        names_changed = turn.subscribe(known, member)
        regex = turn.change_regex(member)
        if isinstance(regex, Refusal):
            return regex
        bump = names_changed or regex is RegexChange.RESOLVED
        target = turn.target(member, turn.group_epoch(member, bump=bump))
        changed = names_changed or regex is not RegexChange.NONE
        moved = turn.reconcile(member, target, _owned(request), subscription_changed=changed)
        if isinstance(moved, Refusal):
            return moved
        self._soft.heard_from(group.group_id, moved.member_id, now_ms)
        answer = ConsumerGroupHeartbeatResponse(
            member_id=moved.member_id,
            member_epoch=moved.member_epoch,
            heartbeat_interval_ms=self._groups.own_number(
                group.group_id,
                "consumer.heartbeat.interval.ms",
                self._groups.settings.group_consumer_heartbeat_interval_ms,
            ),
        )
        if joining or _is_full(request) or moved.assigned != known.assigned:
            answer.assignment = Assignment(
                topic_partitions=[
                    TopicPartitions(topic_id=topic_id, partitions=list(partitions))
                    for topic_id, partitions in without_epochs(moved.assigned).items()
                ]
            )
        return answer

    # The group

    def _group(self) -> ConsumerGroup | Refusal:
        group_id = self._request.group_id
        group = self._groups.by_id.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if group is not None:
            return no_group(self._groups, group_id)
        return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")

    def _group_to_join(self) -> ConsumerGroup | Refusal:
        """The group, or a new one that its first rows will create."""
        group_id = self._request.group_id
        group = self._groups.by_id.get(group_id)
        if group is None:
            return ConsumerGroup(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if group.type is GroupType.CLASSIC and group.is_empty:
            self.rows += group.tombstones()
            return ConsumerGroup(group_id)
        return self._upgraded(group) if isinstance(group, ClassicGroup) else no_group(self._groups, group_id)

    def _upgraded(self, classic: ClassicGroup) -> ConsumerGroup | Refusal:
        refused = migration.upgrade_refused(self._groups, classic)
        if refused is not None:
            return refused
        group = migration.upgraded(self._groups, classic, self._soft.hashes)
        if isinstance(group, ConsumerGroup):
            self.rows += migration.upgrade_rows(classic, group)
            self.answers += migration.upgrade_answers(classic)
            for member in group.members.values():
                self._soft.heard_from_member(group.group_id, member, self._now_ms)
        return group

    # The member

    def _member(self, group: ConsumerGroup) -> tuple[Member | None, Member] | Refusal:
        """The member this one replaces (or None), and the requesting member as known so far."""
        request, member_id = self._request, self._member_id
        joining = request.member_epoch == JOIN_EPOCH
        if request.instance_id is None:
            member = group.members.get(member_id)
            if member is None:
                return (None, Member(member_id)) if joining else unknown_member(group, member_id)
            return _epoch_flaw(member, request) or (member, member)
        if not joining:
            static = static_member(group, request.instance_id, member_id)
            if isinstance(static, Refusal):
                return static
            return _epoch_flaw(static, request) or (static, static)
        existing = group.static_member(request.instance_id)
        if existing is None:
            member = group.members.get(member_id)
            return member, member or Member(member_id)
        if existing.classic is None and existing.member_epoch != STATIC_LEAVE_EPOCH:
            return Refusal(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {request.instance_id} cannot join the group because "
                f"the instance id is owned by {existing.member_id} member.",
            )
        return existing, replaced_member(group, existing, member_id, self.rows)

    def _leave(self) -> _Answer:
        request = self._request
        group = self._groups.by_id.get(request.group_id)
        if not isinstance(group, ConsumerGroup):
            return no_group(self._groups, request.group_id)
        answer = ConsumerGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch
        )
        if request.instance_id is None:
            member = group.members.get(request.member_id)
            if member is None:
                return unknown_member(group, request.member_id)
        else:
            static = static_member(group, request.instance_id, request.member_id)
            if isinstance(static, Refusal):
                return static
            member = static
            if request.member_epoch == STATIC_LEAVE_EPOCH:
                # It will return and keeps its partitions, as if owned from epoch 0.
                away = replace(
                    member,
                    member_epoch=STATIC_LEAVE_EPOCH,
                    assigned={t: dict.fromkeys(parts, 0) for t, parts in member.assigned.items()},
                    pending_revocation={},
                )
                self.rows.append(away.assignment_row(group.group_id))
                return answer
        self.rows += self._leaving.fence(group, [member], self._now_ms)
        return answer


def _updated(known: Member, request: ConsumerGroupHeartbeatRequest, caller: Caller) -> Member:
    """The member updated from the request; omitted fields stay."""
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        known,
        instance_id=known.instance_id if request.instance_id is None else request.instance_id,
        rack_id=known.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=known.rebalance_timeout_ms if timeout_ms == NOT_SENT else timeout_ms,
        server_assignor=known.server_assignor if request.server_assignor is None else request.server_assignor,
        subscribed_topic_names=known.subscribed_topic_names if names is None else topic_names(names),
        subscribed_topic_regex=known.subscribed_topic_regex if regex is None else regex,
        client_id=caller.client_id,
        client_host=caller.client_host,
        classic=None,
    )


def _owned(request: ConsumerGroupHeartbeatRequest) -> list[tuple[bytes, list[int]]] | None:
    if request.topic_partitions is None:
        return None
    return [(one.topic_id, one.partitions) for one in request.topic_partitions]


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the request carries every field, as after a lost answer."""
    subscribed = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return request.rebalance_timeout_ms != NOT_SENT and subscribed and request.topic_partitions is not None


def _epoch_flaw(member: Member, request: ConsumerGroupHeartbeatRequest) -> Refusal | None:
    """Why a member's epoch is wrong. The previous epoch is accepted, because an answer may have been lost."""
    received, known = request.member_epoch, member.member_epoch
    if received in (JOIN_EPOCH, known):
        return None
    lost_answer = received < known and received == member.previous_member_epoch
    if lost_answer and member.owns_only_assigned(_owned(request)):
        return None
    than = "greater" if received > known else "smaller"
    return Refusal(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {than} member epoch ({received}) than the one known by the group "
        f"coordinator ({known}). The member must abandon all its partitions and rejoin.",
    )

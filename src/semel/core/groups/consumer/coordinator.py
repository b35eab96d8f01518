"""The coordinator of KIP-848 groups: heartbeats, leaving, descriptions, and the passing of time.

Role.   `ConsumerCoordinator` is the KIP-848 part of a shard of __consumer_offsets, a `group.GroupPart`. It shares the
        table of groups with the other parts.
Flow.   The shard calls `heartbeat` and `describe` with a ticket, `apply` with every row of these groups, `loaded` after
        the last one, and `due` when `next_deadline_ms` has come.
Rules.  * Only rows change a group: an operation decides by what rows have said, and what it decides is rows.
        * One change of a group at a time: of two clocks of a group that ran out together, the second waits until the
          rows of the first were applied.
        * A member that is heard of no more loses its partitions; so does one that does not let go in its time.
        * A group without members stays until its offsets are gone, or somebody deletes it.
Elsewhere. The steps of a heartbeat: `turn`. Members that speak the classic protocol: `classic_members`.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, TypeVar

from semel.core.coordination.outcome import LogRow, Origin, Outcome, Ticket
from semel.core.groups.consumer import regexes
from semel.core.groups.consumer.checks import NOT_SENT, Refusal
from semel.core.groups.consumer.description import described
from semel.core.groups.consumer.group import (
    ConsumerGroup,
    ResolvedRegex,
    epoch_row,
    member_gone_rows,
    regex_row,
    target_row,
)
from semel.core.groups.consumer.member import Member, topic_names, without_epochs
from semel.core.groups.consumer.soft_state import SoftState, Timer, TimerKind
from semel.core.groups.consumer.states import JOIN_EPOCH, STATIC_LEAVE_EPOCH, MemberState
from semel.core.groups.consumer.subscriptions import Subscriptions
from semel.core.groups.consumer.turn import RegexChange, Turn
from semel.core.groups.group import Caller, GroupOutcome, Groups, GroupType
from semel.core.wire.message import Response, Row
from semel.core.wire.messages.consumer_group_describe import ConsumerGroupDescribeResponse, DescribedGroup
from semel.core.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from semel.core.wire.messages.group_rows import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from semel.errors import ErrorCode, InvariantError

R = TypeVar("R", bound=Row)
CONSUMER_GROUP_KEYS: Final[tuple[type[Row], ...]] = (
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupRegularExpressionKey,
)


class ConsumerCoordinator:
    """Every KIP-848 group of a shard."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._soft = SoftState(groups)

    def group(self, group_id: str) -> ConsumerGroup | None:
        """The KIP-848 group of that name."""
        group = self._groups.by_id.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    # Requests

    def heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        ticket: Ticket,
        caller: Caller,
        now_ms: int,
        *,
        new_member_id: str,
    ) -> GroupOutcome:
        """Join, live on, or leave. `new_member_id` is for a member of version 0 that has none yet."""
        rows: list[LogRow] = []
        if request.member_epoch < JOIN_EPOCH:
            answer = self._leave(request, rows)
        else:
            answer = self._heartbeat(request, caller, now_ms, rows, new_member_id=new_member_id)
        if isinstance(answer, Refusal):
            return _said(
                ticket, ConsumerGroupHeartbeatResponse(error_code=answer.code, error_message=answer.message)
            )
        return Outcome(rows=rows, replies=[(ticket, answer)])

    def _heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        caller: Caller,
        now_ms: int,
        rows: list[LogRow],
        *,
        new_member_id: str,
    ) -> ConsumerGroupHeartbeatResponse | Refusal:
        joining = request.member_epoch == JOIN_EPOCH
        group = self._group_to_join(request.group_id, rows) if joining else self._group_of(request.group_id)
        if isinstance(group, Refusal):
            return group
        refused = self._full(group, request.member_id)
        if refused is not None:
            return refused
        found = self._member(group, request, rows, new_member_id=new_member_id)
        if isinstance(found, Refusal):
            return found
        before, known = found
        turn = Turn(self._soft, group, now_ms, rows, before)
        member = _updated(known, request, caller)
        names_changed = turn.subscribe(known, member)
        regex = turn.change_regex(member)
        if isinstance(regex, Refusal):
            return regex
        bump = names_changed or regex is RegexChange.RESOLVED
        target = turn.target(member, turn.group_epoch(member, bump=bump))
        moved = turn.reconcile(
            member,
            target,
            _owned(request),
            subscription_changed=names_changed or regex is not RegexChange.NONE,
        )
        if isinstance(moved, Refusal):
            return moved
        self._soft.heard_from(group.group_id, moved.member_id, now_ms)
        answer = ConsumerGroupHeartbeatResponse(
            member_id=moved.member_id,
            member_epoch=moved.member_epoch,
            heartbeat_interval_ms=self._groups.settings.group_consumer_heartbeat_interval_ms,
        )
        if joining or _is_full(request) or moved.assigned != known.assigned:
            answer.assignment = Assignment(
                topic_partitions=[
                    TopicPartitions(topic_id=topic_id, partitions=list(partitions))
                    for topic_id, partitions in without_epochs(moved.assigned).items()
                ]
            )
        return answer

    def _leave(
        self, request: ConsumerGroupHeartbeatRequest, rows: list[LogRow]
    ) -> ConsumerGroupHeartbeatResponse | Refusal:
        group = self.group(request.group_id)
        if group is None:
            return self._not_found(request.group_id)
        answer = ConsumerGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch
        )
        if request.instance_id is None:
            member = group.members.get(request.member_id)
            if member is None:
                return _unknown_member(group, request.member_id)
        else:
            static = _static_member(group, request.instance_id, request.member_id)
            if isinstance(static, Refusal):
                return static
            member = static
            if request.member_epoch == STATIC_LEAVE_EPOCH:
                # It will be back: what it owns stays its own, as from the beginning of its time.
                away = replace(
                    member,
                    member_epoch=STATIC_LEAVE_EPOCH,
                    assigned={t: dict.fromkeys(parts, 0) for t, parts in member.assigned.items()},
                    pending_revocation={},
                )
                rows.append(away.assignment_row(group.group_id))
                return answer
        rows += self.fence(group, [member])
        return answer

    def describe(self, group_id: str, ticket: Ticket) -> GroupOutcome:
        """ConsumerGroupDescribe for one group."""
        group = self.group(group_id)
        if group is None:
            refused = self._not_found(group_id)
            found = DescribedGroup(group_id=group_id, error_code=refused.code, error_message=refused.message)
        else:
            found = described(group, self._groups)
        return _said(ticket, ConsumerGroupDescribeResponse(groups=[found]))

    # Within a request

    def _group_to_join(self, group_id: str, rows: list[LogRow]) -> ConsumerGroup | Refusal:
        """The group, or one that does not exist yet: its first rows will make it."""
        group = self._groups.by_id.get(group_id)
        if group is None:
            return ConsumerGroup(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if group.type is GroupType.CLASSIC and group.is_empty:
            rows += group.tombstones()
            return ConsumerGroup(group_id)
        return self._not_found(group_id)

    def _group_of(self, group_id: str) -> ConsumerGroup | Refusal:
        group = self.group(group_id)
        if group is not None:
            return group
        if group_id in self._groups.by_id:
            return self._not_found(group_id)
        return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")

    def _not_found(self, group_id: str) -> Refusal:
        there = group_id in self._groups.by_id
        return Refusal(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Group {group_id} is not a consumer group." if there else f"Group {group_id} not found.",
        )

    def _full(self, group: ConsumerGroup, member_id: str) -> Refusal | None:
        size_max = self._groups.settings.group_consumer_max_size
        if len(group.members) < size_max or member_id in group.members:
            return None
        return Refusal(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {size_max} members.",
        )

    def _member(
        self,
        group: ConsumerGroup,
        request: ConsumerGroupHeartbeatRequest,
        rows: list[LogRow],
        *,
        new_member_id: str,
    ) -> tuple[Member | None, Member] | Refusal:
        """Whom the group has in the place of the one that asks, and what is known of the one that asks."""
        member_id = request.member_id or new_member_id
        joining = request.member_epoch == JOIN_EPOCH
        if request.instance_id is None:
            member = group.members.get(member_id)
            if member is None:
                return (None, Member(member_id)) if joining else _unknown_member(group, member_id)
            return _epoch_flaw(member, request) or (member, member)
        if not joining:
            static = _static_member(group, request.instance_id, member_id)
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
        replaced = replace(existing, member_id=member_id, member_epoch=0, previous_member_epoch=0)
        rows += replacement_rows(group, existing, replaced)
        return existing, replaced

    def fence(self, group: ConsumerGroup, members: Iterable[Member]) -> list[LogRow]:
        """The rows that put members out of a group: it gets a new epoch, and with it a new target."""
        gone = list(members)
        rows: list[LogRow] = []
        for member in gone:
            rows += member_gone_rows(group.group_id, member.member_id)
            self._soft.forget_member(group.group_id, member.member_id)
        after = Subscriptions(group, without=gone)
        for regex in dict.fromkeys(member.subscribed_topic_regex for member in gone):
            if regex and regex not in after.regexes:
                rows.append(regex_row(group.group_id, regex, None))
        metadata_hash = self._soft.hashes.of(after.topic_names())
        rows.append(epoch_row(group.group_id, group.epoch + 1, metadata_hash))
        return rows

    # Rows

    def apply(self, row: LogRow, origin: Origin) -> None:  # noqa: ARG002  # A group's rows are in no transaction.
        """Take over a row of a KIP-848 group."""
        group_id = _group_id(row.key)
        group = self.group(group_id)
        if group is None:
            if row.value is None:
                return
            group = self._groups.by_id[group_id] = ConsumerGroup(group_id)
        match row.key:
            case ConsumerGroupMetadataKey():
                if row.value is None:
                    del self._groups.by_id[group_id]
                    self._soft.forget_group(group_id)
                else:
                    group.apply_epoch(_value(row, ConsumerGroupMetadataValue))
            case ConsumerGroupMemberMetadataKey(member_id=member_id):
                if row.value is None:
                    group.remove_member(member_id)
                else:
                    member = group.members.get(member_id, Member(member_id))
                    group.apply_member(member.with_metadata(_value(row, ConsumerGroupMemberMetadataValue)))
            case ConsumerGroupTargetAssignmentMetadataKey():
                group.apply_target_epoch(_value_or_none(row, ConsumerGroupTargetAssignmentMetadataValue))
            case ConsumerGroupTargetAssignmentMemberKey(member_id=member_id):
                group.apply_target(member_id, _value_or_none(row, ConsumerGroupTargetAssignmentMemberValue))
            case ConsumerGroupCurrentMemberAssignmentKey(member_id=member_id):
                assignment = _value_or_none(row, ConsumerGroupCurrentMemberAssignmentValue)
                if assignment is not None or member_id in group.members:
                    member = group.members.get(member_id, Member(member_id))
                    group.apply_member(member.with_assignment(assignment))
            case ConsumerGroupRegularExpressionKey(regular_expression=regex):
                group.apply_regex(regex, _value_or_none(row, ConsumerGroupRegularExpressionValue))
            case ConsumerGroupPartitionMetadataKey():
                group.has_partition_metadata = row.value is not None

    # Time

    def loaded(self, now_ms: int) -> GroupOutcome:
        """Sessions begin anew, and so does the time to let partitions go."""
        for group in self._groups.by_id.values():
            if isinstance(group, ConsumerGroup):
                for member in group.members.values():
                    self._soft.heard_from(group.group_id, member.member_id, now_ms)
                    if member.state is MemberState.UNREVOKED_PARTITIONS:
                        timer = Timer(TimerKind.REBALANCE, group.group_id, member.member_id)
                        self._soft.timers.set(timer, now_ms + member.rebalance_timeout_ms)
        return Outcome()

    def next_deadline_ms(self) -> int | None:
        return self._soft.timers.next_ms()

    def due(self, now_ms: int) -> GroupOutcome:
        """Put out whose time has run out, and resolve expressions."""
        rows: list[LogRow] = []
        touched: set[str] = set()
        for timer in self._soft.timers.pop_due(now_ms):
            if timer.group_id in touched:
                self._soft.timers.set(timer, now_ms)
                continue
            more = self._run_out(timer, now_ms)
            if more:
                touched.add(timer.group_id)
                rows += more
        return Outcome(rows=rows)

    def _run_out(self, timer: Timer, now_ms: int) -> list[LogRow]:
        group = self.group(timer.group_id)
        if group is None:
            return []
        if timer.kind is TimerKind.REGEX:
            return self._resolve(group, now_ms)
        member = group.members.get(timer.member_id)
        if member is None:
            return []
        if timer.kind is TimerKind.REBALANCE and (
            member.state is not MemberState.UNREVOKED_PARTITIONS or member.member_epoch < 0
        ):
            return []
        return self.fence(group, [member])

    def _resolve(self, group: ConsumerGroup, now_ms: int) -> list[LogRow]:
        """Look which topics the group's expressions stand for now."""
        names = self._groups.topics.topics.keys()
        resolved = {
            regex: ResolvedRegex(regexes.resolve(regex, names), now_ms) for regex in group.regex_counts
        }
        self._soft.names_resolved(group.group_id)
        rows = [regex_row(group.group_id, regex, topics) for regex, topics in resolved.items()]
        known = {regex: group.regexes[regex].topics for regex in resolved if regex in group.regexes}
        changed = any(topics.topics != known.get(regex, ()) for regex, topics in resolved.items())
        after = Subscriptions(group, resolved={**group.regexes, **resolved})
        names_read = after.topic_names()
        metadata_hash = self._soft.hashes.of(names_read)
        if changed or metadata_hash != group.metadata_hash:
            rows.append(epoch_row(group.group_id, group.epoch + 1, metadata_hash))
            self._soft.topics_seen(group.group_id, names_read)
        return rows


def replacement_rows(group: ConsumerGroup, old: Member, new: Member) -> list[LogRow]:
    """One member takes the place of another, with all that one had."""
    return [
        *member_gone_rows(group.group_id, old.member_id),
        new.metadata_row(group.group_id),
        target_row(group.group_id, new.member_id, group.target.get(old.member_id, {})),
        new.assignment_row(group.group_id),
    ]


def _updated(known: Member, request: ConsumerGroupHeartbeatRequest, caller: Caller) -> Member:
    """The member with what the request says; what it does not say stays."""
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
    """Whether it says everything: so does a member that has lost an answer."""
    subscribed = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return request.rebalance_timeout_ms != NOT_SENT and subscribed and request.topic_partitions is not None


def _epoch_flaw(member: Member, request: ConsumerGroupHeartbeatRequest) -> Refusal | None:
    """Why the epoch a member names is not its own. The one before will do if its answer may have been lost."""
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


def _static_member(group: ConsumerGroup, instance_id: str, member_id: str) -> Member | Refusal:
    """The member with this instance id, if it is the one that asks."""
    member = group.static_member(instance_id)
    if member is None:
        return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        return Refusal(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}.",
        )
    return member


def _unknown_member(group: ConsumerGroup, member_id: str) -> Refusal:
    return Refusal(
        ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}."
    )


def _said(ticket: Ticket, response: Response) -> GroupOutcome:
    """Answered at once; nothing has changed."""
    return Outcome(replies=[(ticket, response)], rows_only=True)


def _group_id(key: Row) -> str:
    group_id = getattr(key, "group_id", None)
    if not isinstance(group_id, str):
        raise InvariantError(f"{key} is no row of a KIP-848 group")
    return group_id


def _value(row: LogRow, kind: type[R]) -> R:
    if not isinstance(row.value, kind):
        raise InvariantError(f"the row {row.key} has the value {row.value}")
    return row.value


def _value_or_none(row: LogRow, kind: type[R]) -> R | None:
    return None if row.value is None else _value(row, kind)

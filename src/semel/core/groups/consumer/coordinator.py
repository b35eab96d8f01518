"""The coordinator of KIP-848 groups: heartbeats, leaving, descriptions, and the passing of time.

Role.   `ConsumerCoordinator` is the KIP-848 part of a shard of __consumer_offsets, a `group.GroupPart`. It shares the
        table of groups with the other parts.
Flow.   The shard calls `heartbeat` and `describe` with a ticket, `apply` with every row of these groups, `loaded` after
        the last one, and `due` when `next_deadline_ms` has come.
Rules.  * Only rows change a group: an operation reads the applied state and returns rows.
        * One change of a group at a time: if two timers of a group are due, the second waits until the rows of the
          first are applied.
        * A member whose session ends loses its partitions; so does a member that does not revoke within its rebalance
          timeout.
        * A group without members stays until its offsets are gone, or it is deleted.
Elsewhere. Heartbeats: `heartbeat`, with the steps in `turn`. Classic members: `classic_members`.
"""

from typing import Final, TypeVar

from semel.core.coordination import regexes
from semel.core.coordination.outcome import LogRow, Origin, Outcome, Ticket
from semel.core.groups.classic.coordinator import ClassicCoordinator
from semel.core.groups.consumer.checks import Refusal
from semel.core.groups.consumer.classic_members import ClassicMembers
from semel.core.groups.consumer.description import described
from semel.core.groups.consumer.group import ConsumerGroup, ResolvedRegex, epoch_row, regex_row
from semel.core.groups.consumer.heartbeat import Heartbeat
from semel.core.groups.consumer.leaving import Leaving
from semel.core.groups.consumer.member import Member
from semel.core.groups.consumer.membership import no_group
from semel.core.groups.consumer.soft_state import SoftState, Timer, TimerKind
from semel.core.groups.consumer.states import MemberState
from semel.core.groups.consumer.subscriptions import Subscriptions
from semel.core.groups.group import Caller, GroupOutcome, Groups
from semel.core.wire.message import Row
from semel.core.wire.messages.consumer_group_describe import ConsumerGroupDescribeResponse, DescribedGroup
from semel.core.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
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
from semel.errors import InvariantError

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

    def __init__(self, groups: Groups, classic: ClassicCoordinator) -> None:
        self._groups = groups
        self._classic = classic
        self._soft = SoftState(groups)
        self._leaving = Leaving(self._soft, classic.timers)
        self.classic_members = ClassicMembers(self._soft, self._leaving)
        """Serves classic members."""

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
        """ConsumerGroupHeartbeat: join, stay, or leave. `new_member_id` is for a version 0 member without an id."""
        heartbeat = Heartbeat(self._soft, self._leaving, request, caller, now_ms, new_member_id=new_member_id)
        answer = heartbeat.run()
        if isinstance(answer, Refusal):
            refused = ConsumerGroupHeartbeatResponse(error_code=answer.code, error_message=answer.message)
            return Outcome(replies=[(ticket, refused)], rows_only=True)
        return Outcome(rows=heartbeat.rows, replies=[*heartbeat.answers, (ticket, answer)])

    def describe(self, group_id: str, ticket: Ticket) -> GroupOutcome:
        """ConsumerGroupDescribe for one group."""
        group = self.group(group_id)
        if group is None:
            refused = no_group(self._groups, group_id)
            found = DescribedGroup(group_id=group_id, error_code=refused.code, error_message=refused.message)
        else:
            found = described(group, self._groups)
        answer = ConsumerGroupDescribeResponse(groups=[found])
        return Outcome(replies=[(ticket, answer)], rows_only=True)

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
        """Restart sessions and rebalance timeouts."""
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
        """Fence members whose timers are due, and resolve regular expressions."""
        outcome: GroupOutcome = Outcome()
        touched: set[str] = set()
        for timer in self._soft.timers.pop_due(now_ms):
            if timer.group_id in touched:
                self._soft.timers.set(timer, now_ms)
            elif timer.kind is TimerKind.DOWNGRADED:
                begun = self._classic.begin_rebalance(timer.group_id, now_ms)
                outcome.rows += begun.rows
                outcome.replies += begun.replies
                touched.add(timer.group_id)
            elif rows := self._run_out(timer, now_ms):
                outcome.rows += rows
                touched.add(timer.group_id)
        return outcome

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
        return self._leaving.fence(group, [member], now_ms)

    def _resolve(self, group: ConsumerGroup, now_ms: int) -> list[LogRow]:
        """Match the group's regular expressions against the current topics."""
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


def _group_id(key: Row) -> str:
    group_id = getattr(key, "group_id", None)
    if not isinstance(group_id, str):
        raise InvariantError(f"{key} is not a row of a KIP-848 group")
    return group_id


def _value(row: LogRow, kind: type[R]) -> R:
    if not isinstance(row.value, kind):
        raise InvariantError(f"the row {row.key} has the value {row.value}")
    return row.value


def _value_or_none(row: LogRow, kind: type[R]) -> R | None:
    return None if row.value is None else _value(row, kind)

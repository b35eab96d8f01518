"""One request's change of a KIP-848 group, step by step: subscription, epoch, target, reconciliation.

Role.   `Turn` collects the rows of one operation. A heartbeat and a classic member's join take the same steps.
Flow.   subscribe -> group_epoch -> target -> reconcile; each sees the group as it was before the request.
Rules.  * A change of subscriptions or topics bumps the epoch. An unresolved expression does not yet; its resolution
          will.
        * A target is not computed more often than every `group.consumer.assignment.interval.ms`: members that join
          together are assigned together. Until then they move towards the current target.
        * A computation with a time in the future delays nothing: rows carry wall-clock time, and the clock was set
          back.
"""

from enum import Enum, auto
from typing import Final

from semel.core.coordination import regexes
from semel.core.coordination.outcome import LogRow
from semel.core.groups.consumer.checks import Refusal
from semel.core.groups.consumer.group import ConsumerGroup, epoch_row, regex_row
from semel.core.groups.consumer.member import Member
from semel.core.groups.consumer.reconciliation import Situation, reconcile
from semel.core.groups.consumer.soft_state import SoftState, Timer, TimerKind
from semel.core.groups.consumer.states import MemberState
from semel.core.groups.consumer.subscriptions import Subscriptions, topic_ids
from semel.core.groups.consumer.target_assignment import Target, next_target
from semel.core.wire.messages.group_rows import ConsumerGroupPartitionMetadataKey
from semel.errors import ErrorCode

_REGEX_REFRESH_MIN_MS: Final = 10_000
_NEVER_MS: Final = -(1 << 63)


class RegexChange(Enum):
    """The effect of a request on a member's regular expression."""

    NONE = auto()
    UNRESOLVED = auto()
    RESOLVED = auto()


class Turn:
    """The rows of one operation on one group, for one member."""

    __slots__ = ("before", "group", "now_ms", "rows", "soft")

    def __init__(
        self, soft: SoftState, group: ConsumerGroup, now_ms: int, rows: list[LogRow], before: Member | None
    ) -> None:
        self.soft = soft
        self.group = group
        self.now_ms = now_ms
        self.rows = rows
        self.before = before
        """The member's old state, or that of the member whose instance it takes over."""

    def subscribe(self, known: Member, member: Member) -> bool:
        """Write a member's metadata if it changed; whether its topic names changed."""
        if member != known:
            self.rows.append(member.metadata_row(self.group.group_id))
        return member.subscribed_topic_names != known.subscribed_topic_names

    def change_regex(self, member: Member) -> RegexChange | Refusal:
        """Take over a member's regular expression and schedule its resolution."""
        group = self.group
        old = "" if self.before is None else self.before.subscribed_topic_regex
        new = member.subscribed_topic_regex
        change, needed = RegexChange.NONE, False
        if old != new:
            change = RegexChange.UNRESOLVED
            if old and group.regex_counts[old] == 1:
                self.rows.append(regex_row(group.group_id, old, None))
            if not new:
                change = RegexChange.RESOLVED
            elif not group.regex_counts[new]:
                flaw = regexes.flaw(new)
                if flaw is not None:
                    return Refusal(
                        ErrorCode.INVALID_REGULAR_EXPRESSION,
                        f"SubscribedTopicRegex `{new}` is not a valid regular expression: {flaw}.",
                    )
                needed = True
            elif new in group.regexes:
                change = RegexChange.RESOLVED
        if needed or group.regex_counts:
            self._maybe_resolve(member, needed=needed)
        return change

    def _maybe_resolve(self, member: Member, *, needed: bool) -> None:
        group, soft = self.group, self.soft
        timer = Timer(TimerKind.REGEX, group.group_id)
        last_ms = next((regex.timestamp_ms for regex in group.regexes.values()), _NEVER_MS)
        if soft.timers.get(timer) is not None or self._is_within(last_ms, _REGEX_REFRESH_MIN_MS):
            return
        after = Subscriptions(group, without=[] if self.before is None else [self.before], plus=member)
        interval_ms = soft.groups.settings.group_consumer_regex_refresh_interval_ms
        needed = (
            needed
            or len(after.regexes) != len(group.regexes)
            or soft.names_changed(group.group_id)
            or not self._is_within(last_ms, interval_ms)
        )
        if needed and after.regexes:
            soft.timers.set(timer, self.now_ms)

    def _is_within(self, since_ms: int, interval_ms: int) -> bool:
        """Whether less than the interval has passed since then; False for a time in the future."""
        return since_ms <= self.now_ms <= since_ms + interval_ms

    def group_epoch(self, member: Member, *, bump: bool) -> int:
        """The group's epoch after this request."""
        group = self.group
        if not bump and not self.soft.topics_changed(group.group_id):
            return group.epoch
        after = Subscriptions(group, without=[] if self.before is None else [self.before], plus=member)
        names = after.topic_names()
        metadata_hash = self.soft.hashes.of(names)
        epoch = group.epoch
        if bump or metadata_hash != group.metadata_hash:
            epoch += 1
            self.rows.append(epoch_row(group.group_id, epoch, metadata_hash))
        self.soft.topics_seen(group.group_id, names)
        if group.has_partition_metadata:
            self.rows.append(LogRow(ConsumerGroupPartitionMetadataKey(group_id=group.group_id), None))
        return epoch

    def target(self, member: Member, group_epoch: int) -> Target:
        """The member's target."""
        group = self.group
        groups = self.soft.groups
        interval_ms = groups.own_number(
            group.group_id,
            "consumer.assignment.interval.ms",
            groups.settings.group_consumer_assignment_interval_ms,
        )
        last_ms = group.assignment_timestamp_ms
        is_new = last_ms != 0 and last_ms <= self.now_ms < last_ms + interval_ms
        if group_epoch <= group.assignment_epoch or is_new:
            return Target(group.assignment_epoch, group.target_of(member.member_id, member.instance_id))
        target, rows = next_target(
            self.soft.groups,
            group,
            group_epoch=group_epoch,
            before=self.before,
            member=member,
            now_ms=self.now_ms,
        )
        self.rows += rows
        return target

    def reconcile(
        self,
        member: Member,
        target: Target,
        owned: list[tuple[bytes, list[int]]] | None,
        *,
        subscription_changed: bool,
    ) -> Member | Refusal:
        """The member after one step towards its target."""
        if not subscription_changed and member.is_reconciled_to(target.epoch):
            return member  # Nearly always.
        group = self.group
        subscribed = topic_ids(member, group.regexes, self.soft.groups.topics)
        around = Situation(
            target.epoch,
            target.assigned,
            frozenset(subscribed),
            group.partition_epoch,
            owned,
            subscription_changed,
        )
        moved = reconcile(member, around)
        if moved is None:
            return Refusal(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The consumer group member is in a unknown state. "
                "The member must abandon all its partitions and rejoin.",
            )
        if moved != member:
            self.rows.append(moved.assignment_row(group.group_id))
            if moved.classic is None:
                timer = Timer(TimerKind.REBALANCE, group.group_id, moved.member_id)
                if moved.state is MemberState.UNREVOKED_PARTITIONS:
                    self.soft.timers.set(timer, self.now_ms + moved.rebalance_timeout_ms)
                else:
                    self.soft.timers.cancel(timer)
        return moved

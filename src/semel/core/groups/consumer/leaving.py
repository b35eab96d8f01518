"""Removing members: they leave, their session ends, or they do not revoke in time.

Role.   `Leaving.fence` gives the rows that remove members from a group.
Rules.  * The group gets a new epoch, so that other members get their partitions.
        * If only classic members are left, the group becomes classic again, if allowed, and its members must rejoin.
          The classic group replaces the old one at once, because rows do not keep its members' protocols; the rebalance
          begins once the rows are applied.
"""

from collections.abc import Iterable

from semel.core.coordination.outcome import LogRow
from semel.core.groups.classic.group import ClassicGroup
from semel.core.groups.classic.timers import Timers
from semel.core.groups.consumer import migration
from semel.core.groups.consumer.group import ConsumerGroup, epoch_row, member_gone_rows, regex_row
from semel.core.groups.consumer.member import Member
from semel.core.groups.consumer.soft_state import SoftState, Timer, TimerKind
from semel.core.groups.consumer.subscriptions import Subscriptions


class Leaving:
    """For all KIP-848 groups of a shard."""

    def __init__(self, soft: SoftState, classic_timers: Timers) -> None:
        self._soft = soft
        self.classic_timers = classic_timers

    def fence(self, group: ConsumerGroup, members: Iterable[Member], now_ms: int) -> list[LogRow]:
        """The rows that remove members from a group."""
        gone = list(members)
        if not gone:
            return []
        ids = {member.member_id for member in gone}
        left = len(group.members) - len(ids)
        if migration.may_downgrade(self._soft.groups, group, without=ids, left=left):
            classic = migration.downgraded(self._soft.groups, group, self.classic_timers, without=ids)
            if classic is not None:
                return self.downgrade(group, classic, now_ms, rebalance=True)
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

    def downgrade(
        self, group: ConsumerGroup, classic: ClassicGroup, now_ms: int, *, rebalance: bool
    ) -> list[LogRow]:
        """The rows that make a KIP-848 group a classic one."""
        for member_id in group.members:
            self._soft.forget_member(group.group_id, member_id)
        self._soft.forget_group(group.group_id)
        self._soft.groups.by_id[group.group_id] = classic
        for member in classic.members.values():
            classic.heard_from(member, now_ms)
        if rebalance:
            self._soft.timers.set(Timer(TimerKind.DOWNGRADED, group.group_id), now_ms)
        return migration.downgrade_rows(group, classic, now_ms)

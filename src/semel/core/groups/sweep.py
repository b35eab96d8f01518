"""Expiry of offsets and groups: too old, or their topic was deleted.

Role.   A shard checks all of its groups periodically, after topics were deleted, and after loading.
Flow.   `shard.due` asks for rows; while there is more to do, the next deadline is now.
Rules.  * Kafka's rules of age: `Group.offset_expiry` says from when. Offsets of subscribed topics are kept, and so are
          those of partitions with an open transaction.
        * An offset whose topic was deleted, or recreated under another id, is removed at any age.
        * A group without members, offsets and open transactions is removed too.
        * One step gives a bounded number of rows, which are written as one batch. If the log refuses a batch that
          large, the next has half as many rows; a group of which even one row is refused waits for the next sweep.
"""

from collections import deque
from typing import Final

from semel.core.coordination.outcome import LogRow
from semel.core.groups.group import Group, Groups, OffsetExpiry
from semel.core.groups.offsets import Offsets
from semel.core.groups.rows import NO_EXPIRY, CommittedOffset, offset_tombstone
from semel.core.wire.messages.group_rows import OffsetCommitKey
from semel.core.wire.primitives import ZERO_UUID

ROWS_MAX: Final = 500
"""Rows per batch, not counting a group's last tombstones."""


class Sweep:
    """The sweeps of one shard's groups."""

    __slots__ = ("_groups", "_left", "_next_ms", "_offered", "_offsets", "_rows_max", "_seen")

    def __init__(self, groups: Groups, offsets: Offsets) -> None:
        self._groups = groups
        self._offsets = offsets
        self._left: deque[str] = deque()
        self._next_ms: int | None = None
        self._offered: LogRow | None = (
            None  # The first of the last returned rows, and the groups of these rows.
        )
        self._seen: list[str] = []
        self._rows_max = ROWS_MAX

    def begin(self, now_ms: int) -> None:
        """Start a sweep over every group as soon as possible."""
        self._left = deque(self._groups.by_id)
        self._next_ms = now_ms

    def next_deadline_ms(self) -> int | None:
        return self._next_ms

    def due(self, now_ms: int) -> list[LogRow]:
        """The tombstones that are due, as many as fit into one batch."""
        if self._next_ms is None or now_ms < self._next_ms:
            return []
        if self._offered is None and not self._left:
            self._left.extend(self._groups.by_id)
        self._check_taken()
        rows: list[LogRow] = []
        while self._left:
            group = self._groups.by_id.get(self._left[0])
            if group is not None:
                offered = len(rows)
                is_all = self._look_over(group, now_ms, rows)
                if len(rows) > offered:
                    self._seen.append(group.group_id)
                if not is_all:
                    break  # The batch is full; this group continues in the next.
            self._left.popleft()
        if rows:
            self._offered = rows[0]
        else:
            self._next_ms = now_ms + self._groups.settings.offsets_retention_check_interval_ms
            self._rows_max = ROWS_MAX
        return rows

    def _check_taken(self) -> None:
        """If the log refused the last rows, halve the batch; skip a group of which even one row is refused."""
        offered, seen = self._offered, self._seen
        self._offered, self._seen = None, []
        if offered is None or self._is_gone(offered):
            return
        if self._rows_max == 1:
            if self._left and self._left[0] == seen[0]:
                self._left.popleft()
            return
        self._rows_max = max(1, self._rows_max // 2)
        if self._left and self._left[0] == seen[-1]:
            seen.pop()
        self._left.extendleft(reversed(seen))

    def _is_gone(self, tombstone: LogRow) -> bool:
        key = tombstone.key
        if not isinstance(key, OffsetCommitKey):
            return True  # A group's own rows are few; the next sweep returns them again.
        place = (key.group, key.topic, key.partition)
        return self._offsets.get(*place) is None and not self._offsets.is_pending(*place)

    def _look_over(self, group: Group, now_ms: int, rows: list[LogRow]) -> bool:
        """Add a group's tombstones; whether all of them fitted."""
        expiry = group.offset_expiry()
        kept = 0
        for topic, partitions in self._offsets.of_group(group.group_id).items():
            spared = expiry is None or group.is_subscribed_to(topic)
            for partition, committed in partitions.items():
                if self._is_orphan(topic, committed) or (
                    not spared
                    and expiry is not None
                    and self._is_old(committed, expiry, now_ms)
                    and not self._offsets.is_pending(group.group_id, topic, partition)
                ):
                    if len(rows) >= self._rows_max:
                        return False
                    rows.append(offset_tombstone(group.group_id, topic, partition))
                else:
                    kept += 1
        for (topic, partition), pending in self._offsets.pending(group.group_id).items():
            if not all(self._is_orphan(topic, offset) for offset in pending):
                kept += 1
            elif self._offsets.get(group.group_id, topic, partition) is None:
                if len(rows) >= self._rows_max:
                    return False
                rows.append(offset_tombstone(group.group_id, topic, partition))
        if not kept and expiry is not None and group.is_empty:
            rows.extend(group.tombstones())
        return True

    def _is_orphan(self, topic: str, committed: CommittedOffset) -> bool:
        found = self._groups.topics.topic(topic)
        if found is None:
            return self._groups.topics.is_gone(topic)
        return committed.topic_id not in (ZERO_UUID, found.topic_id.bytes)

    def _is_old(self, committed: CommittedOffset, expiry: OffsetExpiry, now_ms: int) -> bool:
        if committed.expire_timestamp_ms != NO_EXPIRY:
            return now_ms >= committed.expire_timestamp_ms
        since_ms = committed.commit_timestamp_ms if expiry.since_ms is None else expiry.since_ms
        return now_ms - since_ms >= self._groups.settings.offsets_retention_ms

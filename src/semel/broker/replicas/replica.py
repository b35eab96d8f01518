"""A replica of a partition on this broker: its log, how durable that is, and the role it has.

Role.   Everything that every replica has: the log, its syncs, its counts. `leader` is what this broker does beside that while it
        leads; it is None while another broker does, and then clients are told NOT_LEADER_OR_FOLLOWER. `follower` is what it does
        while another broker leads.
Flow.   `Partitions` makes one per log and hands it what the metadata, or an order of the controller, says: `lead`, `follow`, or
        neither.
Rules.  * Three things have three names. Durable: on this disk, as far as the topic asks (`LedPartition.durable_offset`). Replicated:
          on every replica in sync (`core.replication.leading`). Visible: below the high watermark, and for committed readers below
          the last stable offset. With one replica the first decides all three.
        * A role ends with its waiters told; the next one begins without them. It has one role at a time, or none.
"""

import uuid
from collections.abc import Iterable

from semel.broker.metrics.counts import PartitionCounts
from semel.broker.replicas.followed_partition import FollowedPartition
from semel.broker.replicas.led_partition import LedPartition
from semel.broker.replicas.surroundings import Surroundings
from semel.errors import ErrorCode
from semel.log.group_commit import GroupCommit
from semel.log.partition_log import PartitionLog
from semel.runtime.bundle import Runtime


class Replica:
    """One replica."""

    __slots__ = ("_runtime", "_segments", "commits", "counts", "follower", "leader", "log", "topic_id")

    def __init__(self, log: PartitionLog, topic_id: uuid.UUID, runtime: Runtime) -> None:
        self.log = log
        self.topic_id = topic_id
        self.commits = GroupCommit(log, runtime.tasks, runtime.clock)
        self.counts = PartitionCounts(log.log_end_offset)
        self.leader: LedPartition | None = None
        self.follower: FollowedPartition | None = None
        self._runtime = runtime
        self._segments = log.active.base_offset

    def lead(
        self,
        surroundings: Surroundings,
        *,
        leader_epoch: int,
        partition_epoch: int,
        replicas: Iterable[int],
        isr: Iterable[int],
    ) -> LedPartition:
        """Lead as the metadata says, from now on or still."""
        if self.leader is None:
            self.unfollow(surroundings)
            self.leader = LedPartition(
                self.log, self.topic_id, self.commits, self.counts, self._runtime, surroundings
            )
        self.leader.become(
            leader_epoch=leader_epoch, partition_epoch=partition_epoch, replicas=replicas, isr=isr
        )
        return self.leader

    def unlead(self, code: ErrorCode) -> None:
        """Lead no more; who waits here is told `code`."""
        leader, self.leader = self.leader, None
        if leader is not None:
            leader.end(code)

    def follow(
        self, surroundings: Surroundings, *, leader_id: int, leader_epoch: int, partition_epoch: int
    ) -> None:
        """Follow as an order says, from now on or still."""
        self.unlead(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self.follower is None:
            self.follower = FollowedPartition(
                self.log, self.topic_id, self.commits, self.counts, self._runtime
            )
        begins = self.follower.become(
            leader_id=leader_id, leader_epoch=leader_epoch, partition_epoch=partition_epoch
        )
        if begins and surroundings.replication is not None:
            surroundings.replication.follow(self.follower)

    def unfollow(self, surroundings: Surroundings) -> None:
        """Follow no more: nothing changes the log after this, until there is another role."""
        follower, self.follower = self.follower, None
        if follower is not None:
            if surroundings.replication is not None:
                surroundings.replication.stop(follower)
            follower.end()

    def wants_sync(self, now_ms: int) -> bool:
        """Whether the log is to be synced in the background: segments were closed, its topic asks for it, or a leader epoch has begun
        that only memory knows. Where there are other replicas, tools compare its file with theirs."""
        is_shared = self.follower is not None or (
            self.leader is not None and bool(self.leader.leading.followers)
        )
        has_news = is_shared and not self.log.leader_epochs.is_written
        return self.rolled() or has_news or self.log.flush_due(now_ms)

    def rolled(self) -> bool:
        """Whether segments were closed since this was last asked: they want a sync in the background."""
        before, self._segments = self._segments, self.log.active.base_offset
        return self._segments > before

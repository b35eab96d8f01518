"""One partition this broker follows: its leader's batches are appended here, as they are.

Role.   The shell of `core.replication.following` for one log. It lasts as long as this broker follows without interruption; a
        new leader, or a new epoch of the same, goes on with it.
Flow.   `become` when a controller names the leader, then `Fetchers.follow`. A `Fetcher` takes the next question from `ask`, tells
        the answer to `told`, and does what follows: `append` and `show`; cuts are `log_cuts`'.
Rules.  * Batches keep offsets, epochs, producers and bytes of the leader, so that this log can lead next. Nothing is judged but
          what damage could have changed: checksums, and that offsets rise.
        * The high watermark is the leader's, as far as this log reaches, and never goes back but by a cut.
        * Consumers may read here, up to the high watermark (KIP-392). Replicas ask the leader.
        * Long answers are appended in pieces, with pauses between.
Elsewhere. Which leader is asked, and when: `fetcher` and `fetchers`. Where to cut: the core. Cutting: `log_cuts`.
"""

import uuid
from collections.abc import Iterator
from typing import Final, NamedTuple

from semel.broker.metrics.counts import PartitionCounts
from semel.broker.waiting import Waiters
from semel.core.cluster import fencing
from semel.core.records import batch
from semel.core.replication.epochs import EpochEnd, epoch_end
from semel.core.replication.following import Ask, Following, Step, Told, visible_offset
from semel.errors import ErrorCode, LogError
from semel.log.group_commit import GroupCommit
from semel.log.partition_log import PartitionLog
from semel.runtime.bundle import Runtime
from semel.types import TopicPartition

BATCHES_AT_ONCE: Final = 500
"""Batches that are appended in one turn of the loop, some milliseconds of work; a batch has up to a few megabytes."""
BYTES_AT_ONCE: Final = 4 * 1024 * 1024
UNKNOWN_LAG: Final = -1


class FollowedPartition:
    """One partition, followed here."""

    __slots__ = (
        "_monotonic_ms",
        "_now_ms",
        "commits",
        "counts",
        "following",
        "lag",
        "log",
        "topic_id",
        "topic_partition",
        "waiters",
    )

    def __init__(
        self,
        log: PartitionLog,
        topic_id: uuid.UUID,
        commits: GroupCommit,
        counts: PartitionCounts,
        runtime: Runtime,
    ) -> None:
        self.log = log
        self.topic_id = topic_id
        self.topic_partition: TopicPartition = log.topic_partition
        self.commits = commits
        self.counts = counts
        self.following = Following()
        self.waiters = Waiters()
        """Long polls of consumers: they wait for the high watermark."""
        self.lag = UNKNOWN_LAG
        """Records the leader shows that are not here, as its last answer said; as Kafka's ConsumerLag of a fetcher."""
        self._now_ms = runtime.clock.now_ms
        self._monotonic_ms = runtime.clock.monotonic_ms

    def become(self, *, leader_id: int, leader_epoch: int, partition_epoch: int) -> bool:
        """Follow this leader; whether fetching begins anew."""
        return self.following.become(
            leader_id=leader_id, leader_epoch=leader_epoch, partition_epoch=partition_epoch
        )

    # The leader is asked

    def ask(self) -> Ask | None:
        """The next fetch, or None if there is to be none now."""
        log = self.log
        return self.following.ask(
            log_end_offset=log.log_end_offset,
            log_start_offset=log.log_start_offset,
            latest_epoch=log.leader_epochs.latest,
            now_ms=self._monotonic_ms(),
        )

    def told(self, asked: Ask, told: Told) -> Step:
        """The step that follows from an answer."""
        log = self.log
        return self.following.told(
            asked,
            told,
            entries=log.leader_epochs.entries,
            log_end_offset=log.log_end_offset,
            high_watermark=log.high_watermark,
            now_ms=self._monotonic_ms(),
        )

    def wait(self) -> None:
        """Ask nothing for a while."""
        self.following.delay(self._monotonic_ms())

    # The log

    def pieces(self, records: memoryview) -> Iterator[memoryview]:
        """The whole batches of an answer, in pieces for one turn each. Raises `CorruptBatchError`."""
        begin = end = count = 0
        for position, header in batch.headers(records):
            end = position + header.size_bytes
            count += 1
            if count == BATCHES_AT_ONCE or end - begin >= BYTES_AT_ONCE:
                yield records[begin:end]
                begin, count = end, 0
        if end > begin:
            yield records[begin:end]

    def begins_below(self, records: memoryview) -> int | None:
        """Where the first batch begins, if that is below the only offset this empty log knows: the leader's log begins, or
        began, inside of that batch. Kafka's followers begin with the whole batch then."""
        log = self.log
        if log.log_start_offset < log.log_end_offset or len(records) < batch.HEADER_SIZE:
            return None
        header = batch.read_header(records)
        return header.base_offset if header.base_offset < log.log_end_offset <= header.last_offset else None

    def append(self, piece: memoryview) -> None:
        """Append whole batches. Raises `LogError` where they do not follow, `CorruptBatchError`, or `DiskRefusedError`."""
        refused = self.log.append_as_follower(piece, self._now_ms())
        if refused is not None:
            raise DiskRefusedError(refused.reason)
        self.counts.replicated_bytes_in += len(piece)

    def show(self, leader_high_watermark: int) -> None:
        """Everything the leader has sent is appended: the high watermark is the leader's."""
        log = self.log
        self.lag = max(0, leader_high_watermark - log.log_end_offset)
        offset = visible_offset(
            leader_high_watermark, log_start_offset=log.log_start_offset, log_end_offset=log.log_end_offset
        )
        if log.advance_high_watermark(offset) and self.waiters:
            self.waiters.wake()

    # Consumers

    def check_leader_epoch(self, epoch: int) -> ErrorCode:
        """The answer to a client that believes in this leader epoch (-1: in none)."""
        return fencing.leader_epoch(epoch, self.following.leader_epoch)

    def epoch_end(self, epoch: int) -> EpochEnd:
        """Where a leader epoch ended in this log."""
        return epoch_end(self.log.leader_epochs.entries, epoch, self.log.log_end_offset)

    def end(self) -> None:
        """Follow no more: consumers that wait look again."""
        self.waiters.wake()

    @property
    def is_flush_due(self) -> bool:
        """Whether what was appended has to be on disk before the leader hears of it."""
        return self.log.flush_due(self._now_ms())


class Asked(NamedTuple):
    """A question, and the partition it was asked for."""

    partition: FollowedPartition
    ask: Ask


class DiskRefusedError(LogError):
    """The disk took no more of a followed partition."""

"""A follower of a partition: the fetches it sends its leader, and the steps that follow from the answers.

Role.   Kafka's rules for one followed partition, without log, clock or network.
Flow.   `become` when a controller names the leader. `ask` gives the next fetch, `told` what its answer means: append, cut, wait.
        Out of range: the leader's ends are asked for, and `ends` says from where to go on.
Rules.  * A log is cut where the leader says that both part, by leader epoch, never to the high watermark (KIP-101). If the
          leader names an epoch this log does not know, the cut is a first one: the next fetch asks again (KIP-279).
        * An answer counts if its question was the last one, and leader epoch and log end are still the question's. Otherwise
          the partition may have moved on (KAFKA-7786), or was cut and has grown to the same end again.
        * A fence with the epoch that is known here means that newer metadata is on its way: nothing is asked until it comes.
        * Where nothing can be asked, appended or learned, the partition waits a while and asks again.
        * The high watermark is the leader's, as far as this log reaches.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from semel.core.replication.epochs import EpochEnd, EpochStart, epoch_end
from semel.errors import ErrorCode
from semel.types import NO_PARTITION_LEADER_EPOCH, UNKNOWN_OFFSET

BACKOFF_MS: Final = 1000  # replica.fetch.backoff.ms


@dataclass(frozen=True, slots=True)
class Ask:
    """The next fetch."""

    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int


@dataclass(frozen=True, slots=True)
class Told:
    """The leader's answer about one partition."""

    code: ErrorCode = ErrorCode.NONE
    high_watermark: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    diverging: EpochEnd | None = None


@dataclass(frozen=True, slots=True)
class Append:
    """Append the records; then both watermarks are the leader's as far as the log reaches."""

    high_watermark: int
    log_start_offset: int


@dataclass(frozen=True, slots=True)
class Truncate:
    """Cut the log: it ends at `offset` then."""

    offset: int
    is_complete: bool
    """Else the next fetch may be told to cut again."""


@dataclass(frozen=True, slots=True)
class StartAt:
    """Drop everything: the log begins and ends at `offset` then."""

    offset: int


@dataclass(frozen=True, slots=True)
class AskEnds:
    """Ask the leader where its log begins and ends, and go on with `ends`."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Ask again later, or when the metadata has changed."""


Step: TypeAlias = Append | Truncate | StartAt | AskEnds | Wait | None
"""None: the answer is to a question that is no longer asked."""


class Following:
    """One followed partition."""

    __slots__ = (
        "_asked",
        "backoff_ms",
        "has_failed",
        "leader_epoch",
        "leader_id",
        "partition_epoch",
        "retry_at_ms",
    )

    def __init__(self) -> None:
        self.backoff_ms = BACKOFF_MS
        self.leader_id = -1
        self.leader_epoch = NO_PARTITION_LEADER_EPOCH
        self.partition_epoch = -1
        self.has_failed = False
        self.retry_at_ms = 0
        self._asked: Ask | None = None

    def become(self, *, leader_id: int, leader_epoch: int, partition_epoch: int) -> bool:
        """Follow as the metadata says; whether fetching begins anew. Older metadata than the known changes nothing."""
        if partition_epoch < self.partition_epoch:
            return False
        is_new = leader_epoch > self.leader_epoch
        self.leader_id, self.partition_epoch = leader_id, partition_epoch
        if is_new:
            self.leader_epoch = leader_epoch
            self.has_failed = False
            self.retry_at_ms = 0
        return is_new

    def ask(
        self, *, log_end_offset: int, log_start_offset: int, latest_epoch: int, now_ms: int
    ) -> Ask | None:
        """The next fetch, or None if there is to be none now. A question that has no answer yet stays asked."""
        if self.has_failed or now_ms < self.retry_at_ms:
            return None
        asked = self._asked
        if (
            asked is None
            or asked.fetch_offset != log_end_offset
            or asked.leader_epoch != self.leader_epoch
            or asked.last_fetched_epoch != latest_epoch
            or asked.log_start_offset != log_start_offset
        ):
            asked = self._asked = Ask(self.leader_epoch, log_end_offset, latest_epoch, log_start_offset)
        return asked

    def told(
        self,
        asked: Ask,
        told: Told,
        *,
        entries: Sequence[EpochStart],
        log_end_offset: int,
        high_watermark: int,
        now_ms: int,
    ) -> Step:
        """The step that follows from an answer."""
        if asked is not self._asked:
            return None
        self._asked = None
        if asked.leader_epoch != self.leader_epoch or asked.fetch_offset != log_end_offset:
            return None
        match told.code:
            case ErrorCode.NONE if told.diverging is not None:
                return truncation(
                    entries, told.diverging, log_end_offset=log_end_offset, high_watermark=high_watermark
                )
            case ErrorCode.NONE:
                return Append(told.high_watermark, told.log_start_offset)
            case ErrorCode.OFFSET_OUT_OF_RANGE:
                return AskEnds()
            case ErrorCode.FENCED_LEADER_EPOCH:
                self.fail()
            case _:
                self.delay(now_ms)
        return Wait()

    def delay(self, now_ms: int) -> None:
        """Ask nothing for a while."""
        self.retry_at_ms = now_ms + self.backoff_ms

    def fail(self) -> None:
        """Ask nothing until a newer leader epoch comes."""
        self.has_failed = True

    def ends(self, *, leader_start_offset: int, leader_end_offset: int, log_end_offset: int) -> Step:
        """From where to go on after a fetch that was out of range; None: from the log's end, as before."""
        if leader_end_offset < log_end_offset:
            return Truncate(leader_end_offset, is_complete=True)
        return StartAt(leader_start_offset) if leader_start_offset > log_end_offset else None


def truncation(
    entries: Sequence[EpochStart], leader_end: EpochEnd, *, log_end_offset: int, high_watermark: int
) -> Truncate:
    """Where to cut a log, given where the leader's ended in the largest epoch both may have in common."""
    if leader_end.end_offset == UNKNOWN_OFFSET:  # The leader cannot tell, so only what is committed may stay.
        return Truncate(min(high_watermark, log_end_offset), is_complete=True)
    own = epoch_end(entries, leader_end.epoch, log_end_offset)
    if own.epoch == NO_PARTITION_LEADER_EPOCH:  # This log has no epochs that reach so far.
        return Truncate(min(leader_end.end_offset, log_end_offset), is_complete=True)
    if own.epoch != leader_end.epoch:
        return Truncate(min(own.end_offset, log_end_offset), is_complete=False)
    return Truncate(min(own.end_offset, leader_end.end_offset, log_end_offset), is_complete=True)


def visible_offset(leader_high_watermark: int, *, log_start_offset: int, log_end_offset: int) -> int:
    """A follower's high watermark."""
    return max(log_start_offset, min(leader_high_watermark, log_end_offset))

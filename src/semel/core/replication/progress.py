"""How far a follower has come, as its leader knows it from the follower's fetches.

Role.   One per remote replica of a led partition; `leading` asks it for the high watermark and for who is in sync.
Rules.  * A fetch at offset n says: everything below n is in the follower's log. Only a fetch says so.
        * Caught up: the follower has the leader's end, or had it at most `replica.lag.time.max.ms` ago. A fetch at the end the
          leader had at the previous fetch proves the time of the previous one: under steady writes none proves more.
        * A fetch from an earlier life of the follower's broker proves nothing: its log may have lost its tail since.
"""

from dataclasses import dataclass
from typing import Final

from semel.types import UNKNOWN_OFFSET

NEVER_MS: Final = -(1 << 62)
UNKNOWN_BROKER_EPOCH: Final = -1


@dataclass(slots=True)
class Progress:
    """The leader's knowledge of one follower."""

    log_end_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    leader_end_offset: int = UNKNOWN_OFFSET
    """Where the leader's log ended at the last fetch."""
    fetched_ms: int = NEVER_MS
    caught_up_ms: int = NEVER_MS
    """The latest time of which it is proven that the follower had everything."""
    broker_epoch: int = UNKNOWN_BROKER_EPOCH

    def is_stale(self, broker_epoch: int, registered_epoch: int) -> bool:
        """Whether a fetch comes from an earlier life of the follower's broker."""
        return broker_epoch != UNKNOWN_BROKER_EPOCH and broker_epoch < max(
            self.broker_epoch, registered_epoch
        )

    def fetched(
        self,
        fetch_offset: int,
        *,
        log_start_offset: int,
        leader_end_offset: int,
        now_ms: int,
        broker_epoch: int,
    ) -> None:
        """The follower has everything below `fetch_offset`, and the leader's log ends at `leader_end_offset`."""
        if fetch_offset >= leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif fetch_offset >= self.leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.log_end_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self.leader_end_offset = max(self.leader_end_offset, leader_end_offset)
        self.fetched_ms = now_ms
        self.broker_epoch = broker_epoch

    def begin_epoch(self, leader_end_offset: int, now_ms: int, *, in_sync: bool, is_known: bool) -> None:
        """A leader epoch begins. `is_known`: this broker led before, so what it knows of the follower's log still holds."""
        if not is_known:
            self.log_end_offset = self.log_start_offset = UNKNOWN_OFFSET
            self.broker_epoch = UNKNOWN_BROKER_EPOCH
        self.leader_end_offset = leader_end_offset if is_known else UNKNOWN_OFFSET
        # A member of the ISR has its time from now on; a replica outside must not hold the high watermark back.
        self.caught_up_ms = now_ms if in_sync else NEVER_MS
        self.fetched_ms = now_ms if in_sync and is_known else NEVER_MS

    def is_caught_up(self, leader_end_offset: int, now_ms: int, lag_max_ms: int) -> bool:
        """Whether it may count as in sync now."""
        return self.log_end_offset == leader_end_offset or now_ms - self.caught_up_ms <= lag_max_ms

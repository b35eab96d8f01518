"""A consumer's subscription state: topics, assigned partitions and positions.

Role.   `Subscription` holds, without I/O, the topics or partitions the user asked for, the assigned ones, and the
        position of each. All other parts of the consumer read it.
Flow.   `subscribe`, `subscribe_pattern` or `assign` -> `assign_owned` as the group says -> a position is found
        (committed, or by a reset) -> records are fetched and consumed -> a commit without arguments stores
        `all_consumed`.
Rules.  * Topics, a pattern and partitions exclude each other, as in Kafka; `unsubscribe` ends either.
        * A position is the offset of the next record to hand out. Seeking starts a new `turn`: responses to requests of
          an earlier turn are ignored. A new leader and a truncated log start one too. Records handed out before a seek
          cannot be given back; records from before the other two can.
        * A partition is fetched if it has a position, is not paused, and is not being revoked.
        * A position with an epoch is unchecked until the leader confirms that its log has every record before it; a new
          leader makes it unchecked again. An unchecked position is neither fetched nor committed.
        * Partitions keep the order in which they came, for determinism.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from semel.core.client.reset import Reset
from semel.types import TopicPartition

NO_OFFSET: Final = -1
NO_EPOCH: Final = -1


class Mode(Enum):
    """The kind of the user's subscription."""

    NOTHING = "nothing"
    TOPICS = "topics"
    PATTERN = "pattern"
    PARTITIONS = "partitions"


class SubscriptionClashError(Exception):
    """Topics, a pattern and partitions at the same time."""


class NotAssignedError(Exception):
    """The partition is not assigned to this consumer."""

    def __init__(self, where: TopicPartition) -> None:
        self.where = where
        super().__init__(str(where))


@dataclass(slots=True)
class PartitionState:
    """One partition of a consumer."""

    turn: int
    sought_in: int = 0
    """The turn of the last seek or reset; records handed out before it cannot be given back."""
    position: int | None = None
    leader_epoch: int | None = None
    """Leader epoch of the record before the position, if a record or a commit carried it."""
    is_unchecked: bool = False
    """Whether the log may have lost records before the position."""
    checked_under: int = NO_EPOCH
    """The leader's epoch under which the position is in the log."""
    reset: Reset | None = None
    """How to find a position; None looks for a committed offset first."""
    paused: bool = False
    arriving: bool = False
    """The group has given it, and the user has not been told yet."""
    leaving: bool = False
    """The group wants it back, and the user has not been told yet."""
    fetch_offset: int = NO_OFFSET
    """Offset of the next fetch: the position, or behind the buffered records."""
    buffered_bytes: int = 0
    high_watermark: int = NO_OFFSET
    last_stable_offset: int = NO_OFFSET
    log_start_offset: int = NO_OFFSET

    @property
    def is_fetchable(self) -> bool:
        return self.has_position and not (self.paused or self.leaving or self.arriving)

    @property
    def has_position(self) -> bool:
        """Whether there is a checked position."""
        return self.position is not None and not self.is_unchecked


class Subscription:
    """The subscription of one consumer."""

    def __init__(self) -> None:
        self.mode = Mode.NOTHING
        self.topics: tuple[str, ...] = ()
        """The subscribed topic names, or the names the pattern matches now."""
        self.pattern: re.Pattern[str] | None = None
        self.partitions: dict[TopicPartition, PartitionState] = {}
        self._turns = 0

    # The user's calls

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to these topics in place of the previous ones."""
        self._become(Mode.TOPICS)
        self.topics = tuple(dict.fromkeys(topics))

    def subscribe_pattern(self, pattern: re.Pattern[str]) -> None:
        """Subscribe to every topic whose whole name matches, future topics included, as in Kafka."""
        self._become(Mode.PATTERN)
        self.pattern = pattern
        self.topics = ()

    def matched(self, names: Iterable[str]) -> bool:
        """Match the pattern against these topic names; whether the set of subscribed topics changed."""
        if self.pattern is None:
            return False
        topics = tuple(sorted(name for name in names if self.pattern.fullmatch(name)))
        changed = topics != self.topics
        self.topics = topics
        return changed

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions; the ones already assigned keep their positions."""
        self._become(Mode.PARTITIONS)
        self._keep(dict.fromkeys(partitions))

    def unsubscribe(self) -> None:
        """Drop subscription and partitions."""
        self.mode = Mode.NOTHING
        self.topics = ()
        self.pattern = None
        self.partitions.clear()

    def _become(self, mode: Mode) -> None:
        if self.mode not in (Mode.NOTHING, mode):
            raise SubscriptionClashError(
                f"this consumer has {self.mode.value}, it cannot have {mode.value} at the same time: "
                "call unsubscribe() first"
            )
        self.mode = mode

    # The group's assignment

    def assign_owned(self, partitions: Iterable[TopicPartition]) -> None:
        """Replace the assignment by these partitions. New ones wait for `arrived`."""
        before = set(self.partitions)
        self._keep(dict.fromkeys(partitions))
        for where, state in self.partitions.items():
            state.arriving = where not in before

    def arrived(self) -> None:
        """The user was told of the new partitions."""
        for state in self.partitions.values():
            state.arriving = False

    def leave(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions are being revoked: hand out no more of their records."""
        for where in partitions:
            if where in self.partitions:
                self.partitions[where].leaving = True

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget these partitions."""
        for where in partitions:
            self.partitions.pop(where, None)

    def _keep(self, wanted: Iterable[TopicPartition]) -> None:
        before, self.partitions = self.partitions, {}
        for where in wanted:
            self.partitions[where] = before.get(where) or PartitionState(self._next_turn())

    # Positions

    def state(self, where: TopicPartition) -> PartitionState:
        """The state of a partition; raises `NotAssignedError`."""
        found = self.partitions.get(where)
        if found is None:
            raise NotAssignedError(where)
        return found

    def seek(self, where: TopicPartition, offset: int, leader_epoch: int | None = None) -> None:
        """Continue at this offset; with the epoch of the record before it, only after the leader confirmed it."""
        state = self.state(where)
        self._go_on_at(state, offset, leader_epoch)
        state.sought_in = state.turn

    def _go_on_at(self, state: PartitionState, offset: int, leader_epoch: int | None) -> None:
        self._begin_turn(state)
        state.position = state.fetch_offset = offset
        state.leader_epoch = leader_epoch
        state.is_unchecked = leader_epoch is not None
        state.checked_under = NO_EPOCH

    def cut_off(self, where: TopicPartition, common: int, leader_epoch: int | None, led_under: int) -> None:
        """The leader of this epoch has the consumed records only up to `common`: continue there."""
        state = self.state(where)
        self._go_on_at(state, common, leader_epoch)
        self.checked(where, state.turn, led_under)

    def go_back(self, where: TopicPartition, offset: int) -> None:
        """Records handed out in an earlier turn from this offset on were given back: continue there, unless the
        position is already before it."""
        state = self.state(where)
        if state.position is not None and state.position <= offset:
            return
        self._begin_turn(state)
        state.position = state.fetch_offset = offset

    def reset(self, where: TopicPartition, how: Reset | None) -> None:
        """Forget the position; find a new one this way, or None: from the group's committed offset."""
        self.lose_position(where, how)
        state = self.state(where)
        state.sought_in = state.turn

    def lose_position(self, where: TopicPartition, how: Reset | None) -> None:
        """Forget the position because the log does not have it."""
        state = self.state(where)
        self._begin_turn(state)
        state.position = None
        state.leader_epoch = None
        state.is_unchecked = False
        state.checked_under = NO_EPOCH
        state.fetch_offset = NO_OFFSET
        state.reset = how

    def found(self, where: TopicPartition, turn: int, offset: int, leader_epoch: int | None = None) -> bool:
        """Set the position that was looked up in `turn`; False if the turn is over or a position is set."""
        state = self.partitions.get(where)
        if state is None or state.turn != turn or state.position is not None:
            return False
        self._go_on_at(state, offset, leader_epoch)
        return True

    def consumed(self, where: TopicPartition, next_offset: int, leader_epoch: int | None) -> None:
        """Records up to before this offset were handed out."""
        state = self.state(where)
        state.position = next_offset
        if leader_epoch is not None:
            state.leader_epoch = leader_epoch

    def led_under(self, where: TopicPartition, leader_epoch: int) -> bool:
        """Note the leader's epoch; whether the position is valid, or must be checked first."""
        state = self.state(where)
        if state.is_unchecked or state.position is None or leader_epoch in (NO_EPOCH, state.checked_under):
            return not state.is_unchecked
        if state.checked_under == NO_EPOCH or state.leader_epoch is None:
            state.checked_under = leader_epoch
            return True
        self._begin_turn(state)  # Records from the previous leader may be among the ones the log has lost.
        state.fetch_offset = state.position
        state.is_unchecked = True
        return False

    def unchecked(self) -> dict[TopicPartition, PartitionState]:
        """Partitions whose position is to be checked."""
        return {
            where: state
            for where, state in self.partitions.items()
            if state.is_unchecked and not state.leaving and not state.arriving
        }

    def is_unchecked(self, where: TopicPartition, turn: int) -> bool:
        """Whether the position is still unchecked in this turn."""
        state = self.partitions.get(where)
        return state is not None and state.turn == turn and state.is_unchecked

    def checked(self, where: TopicPartition, turn: int, leader_epoch: int) -> None:
        """The leader of this epoch confirmed the position of this turn."""
        if self.is_unchecked(where, turn):
            state = self.partitions[where]
            state.is_unchecked = False
            state.checked_under = leader_epoch

    def without_position(self) -> dict[TopicPartition, PartitionState]:
        """Partitions whose position is to be found."""
        return {
            where: state
            for where, state in self.partitions.items()
            if state.position is None and not state.leaving and not state.arriving
        }

    def all_consumed(self) -> dict[TopicPartition, PartitionState]:
        """Partitions with a position; a commit without arguments stores them."""
        return {where: state for where, state in self.partitions.items() if state.has_position}

    def lags(self, *, committed_only: bool) -> Mapping[TopicPartition, int]:
        """Offsets between each position and the last known end of its partition."""
        found = {}
        for where, state in self.partitions.items():
            end = state.last_stable_offset if committed_only else state.high_watermark
            if state.position is not None and end != NO_OFFSET:
                found[where] = max(0, end - state.position)
        return found

    def _begin_turn(self, state: PartitionState) -> None:
        state.turn = self._next_turn()
        state.reset = None
        state.buffered_bytes = 0

    def _next_turn(self) -> int:
        self._turns += 1
        return self._turns

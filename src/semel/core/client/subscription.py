"""What a consumer wants to read, and how far it is: topics, partitions, positions.

Role.   `Subscription` is a consumer's memory without I/O: which topics or partitions the user asked for, which it has, and for
        each where it stands. Everything else of the consumer looks here.
Flow.   `subscribe`, `subscribe_pattern` or `assign` -> `assign_owned` as the group says -> a position is found (committed, or by
        a reset) -> fetched, consumed -> `all_consumed` is what a commit without arguments stores.
Rules.  * Topics, a pattern and partitions exclude each other, as in Kafka; `unsubscribe` ends either.
        * A position is the offset of the next record to hand out. Seeking starts a new `turn`: what was asked for in an
          earlier one is not used when it arrives. So does a new leader, and a log that was cut off; but only who seeks gives up
          what he was handed: the rest of that can be given back in any later turn.
        * A partition is fetched if it has a position, is not paused, and nobody is about to take it away.
        * A position with an epoch is unchecked until the partition's leader has said that its log still has what is before it,
          and again when there is another leader. It is not fetched from or committed until then.
        * Nothing here depends on the order of a set: partitions are kept in the order they came.
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
    """What the user asked for."""

    NOTHING = "nothing"
    TOPICS = "topics"
    PATTERN = "pattern"
    PARTITIONS = "partitions"


class SubscriptionClashError(Exception):
    """Topics, a pattern and partitions at the same time."""


class NotAssignedError(Exception):
    """A partition this consumer does not have."""

    def __init__(self, where: TopicPartition) -> None:
        self.where = where
        super().__init__(str(where))


@dataclass(slots=True)
class PartitionState:
    """One partition of a consumer."""

    turn: int
    sought_in: int = 0
    """The turn in which somebody last decided where to go on: what was handed out before it is not given back."""
    position: int | None = None
    leader_epoch: int | None = None
    """Of the record before the position, if a record or a commit told."""
    is_unchecked: bool = False
    """Whether the log may have lost what is before the position."""
    checked_under: int = NO_EPOCH
    """The leader's epoch under which the position is in the log."""
    reset: Reset | None = None
    """How to find a position; without one, what is committed is looked for first."""
    paused: bool = False
    arriving: bool = False
    """The group has given it, and the user has not been told yet."""
    leaving: bool = False
    """The group wants it back, and the user has not been told yet."""
    fetch_offset: int = NO_OFFSET
    """Where the next fetch begins: the position, or behind what is buffered."""
    buffered_bytes: int = 0
    high_watermark: int = NO_OFFSET
    last_stable_offset: int = NO_OFFSET
    log_start_offset: int = NO_OFFSET

    @property
    def is_fetchable(self) -> bool:
        return self.has_position and not (self.paused or self.leaving or self.arriving)

    @property
    def has_position(self) -> bool:
        """Whether there is one to go on from."""
        return self.position is not None and not self.is_unchecked


class Subscription:
    """One consumer's."""

    def __init__(self) -> None:
        self.mode = Mode.NOTHING
        self.topics: tuple[str, ...] = ()
        """What was subscribed to by name, or what the pattern matches at the moment."""
        self.pattern: re.Pattern[str] | None = None
        self.partitions: dict[TopicPartition, PartitionState] = {}
        self._turns = 0

    # What the user asks for

    def subscribe(self, topics: Iterable[str]) -> None:
        """Want these topics instead of those before."""
        self._become(Mode.TOPICS)
        self.topics = tuple(dict.fromkeys(topics))

    def subscribe_pattern(self, pattern: re.Pattern[str]) -> None:
        """Want every topic whose whole name matches, as in Kafka; also those to come."""
        self._become(Mode.PATTERN)
        self.pattern = pattern
        self.topics = ()

    def matched(self, names: Iterable[str]) -> bool:
        """What topics there are; whether the pattern now means others than before."""
        if self.pattern is None:
            return False
        topics = tuple(sorted(name for name in names if self.pattern.fullmatch(name)))
        changed = topics != self.topics
        self.topics = topics
        return changed

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these; those that were there before keep their positions."""
        self._become(Mode.PARTITIONS)
        self._keep(dict.fromkeys(partitions))

    def unsubscribe(self) -> None:
        """Want nothing."""
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

    # What the group gives and takes

    def assign_owned(self, partitions: Iterable[TopicPartition]) -> None:
        """The group has given these; what is no longer among them is gone. New ones wait for `arrived`."""
        before = set(self.partitions)
        self._keep(dict.fromkeys(partitions))
        for where, state in self.partitions.items():
            state.arriving = where not in before

    def arrived(self) -> None:
        """The user knows what the group has given."""
        for state in self.partitions.values():
            state.arriving = False

    def leave(self, partitions: Iterable[TopicPartition]) -> None:
        """These are about to be taken away: nothing more of them is handed out."""
        for where in partitions:
            if where in self.partitions:
                self.partitions[where].leaving = True

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """These are gone."""
        for where in partitions:
            self.partitions.pop(where, None)

    def _keep(self, wanted: Iterable[TopicPartition]) -> None:
        before, self.partitions = self.partitions, {}
        for where in wanted:
            self.partitions[where] = before.get(where) or PartitionState(self._next_turn())

    # Positions

    def state(self, where: TopicPartition) -> PartitionState:
        """A partition's; raises `NotAssignedError`."""
        found = self.partitions.get(where)
        if found is None:
            raise NotAssignedError(where)
        return found

    def seek(self, where: TopicPartition, offset: int, leader_epoch: int | None = None) -> None:
        """Go on at this offset; with the epoch of the record before it, once that was checked."""
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
        """The leader of this epoch has what was read up to `common` alone: go on there."""
        state = self.state(where)
        self._go_on_at(state, common, leader_epoch)
        self.checked(where, state.turn, led_under)

    def go_back(self, where: TopicPartition, offset: int) -> None:
        """What was handed out from this offset on, in an earlier turn, was not looked at: go on there, or before it."""
        state = self.state(where)
        if state.position is not None and state.position <= offset:
            return
        self._begin_turn(state)
        state.position = state.fetch_offset = offset

    def reset(self, where: TopicPartition, how: Reset | None) -> None:
        """Forget the position; it is found anew in this way, or where the group has committed."""
        self.lose_position(where, how)
        state = self.state(where)
        state.sought_in = state.turn

    def lose_position(self, where: TopicPartition, how: Reset | None) -> None:
        """The same, because the log does not have it."""
        state = self.state(where)
        self._begin_turn(state)
        state.position = None
        state.leader_epoch = None
        state.is_unchecked = False
        state.checked_under = NO_EPOCH
        state.fetch_offset = NO_OFFSET
        state.reset = how

    def found(self, where: TopicPartition, turn: int, offset: int, leader_epoch: int | None = None) -> bool:
        """Where a partition begins, as it was looked for in `turn`; whether that still mattered."""
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
        """The partition is led under this epoch; whether the position stands, or is to be checked first."""
        state = self.state(where)
        if state.is_unchecked or state.position is None or leader_epoch in (NO_EPOCH, state.checked_under):
            return not state.is_unchecked
        if state.checked_under == NO_EPOCH or state.leader_epoch is None:
            state.checked_under = leader_epoch
            return True
        self._begin_turn(state)  # What the leader before has sent may be what the log has lost.
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
        """Whether what was asked in this turn still matters."""
        state = self.partitions.get(where)
        return state is not None and state.turn == turn and state.is_unchecked

    def checked(self, where: TopicPartition, turn: int, leader_epoch: int) -> None:
        """The leader of this epoch has what is before the position of this turn."""
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
        """Partitions with a position: what a commit without arguments stores."""
        return {where: state for where, state in self.partitions.items() if state.has_position}

    def lags(self, *, committed_only: bool) -> Mapping[TopicPartition, int]:
        """How many offsets there are between the positions and the ends that were last heard of."""
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

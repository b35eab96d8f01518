"""The state of a worker pool: records in progress, finished records, offsets to commit, partitions to pause.

Role.   The rules that `workers` (threads) and `async_workers` (tasks of a loop) share, without waiting, locks or a consumer.
Flow.   `offer` polled records -> `take` -> the work -> `ended`; meanwhile `held_back` gives the partitions to pause,
        `to_commit` the offsets to commit.
Rules.  * The committed offset of a partition is the end of its finished prefix.
        * A partition that is revoked and assigned again gets a new `Home`: work still running for the old one is not
          counted.
        * The first permanent failure stops the pool.
        * The state is not thread-safe: a pool with threads holds a lock.
"""

from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Literal, NamedTuple

from semel.errors import ConfigError
from semel.once.errors import WorkFailedError
from semel.once.rules.lanes import Lanes
from semel.once.rules.prefix import FinishedPrefix
from semel.once.rules.retries import RetryPolicy
from semel.types import TopicPartition

Order = Literal["key", "partition", "none"]
DeadLetter = Callable[[Any, BaseException], object]
NO_RETRY: Final = RetryPolicy(attempts_max=1)
_ORDERS: Final = ("key", "partition", "none")
_WORKERS_MAX: Final = 1000


class End(Enum):
    """How the work on a record ended, if not with an error."""

    FINISHED = 1
    LEFT = 2  # The pool stopped, or the partition was revoked, before the next attempt.


Outcome = BaseException | End


@dataclass(eq=False, slots=True)
class Home:
    """One assignment of a partition. A later assignment is a new object."""

    prefix: FinishedPrefix = field(default_factory=FinishedPrefix)
    committed: int | None = None
    running: int = 0
    ours: bool = True


@dataclass(frozen=True, slots=True)
class Task:
    """A record to process."""

    record: Any
    home: Home
    lane: Hashable


class Commit:
    """Offsets to commit, with the homes they belong to."""

    def __init__(self) -> None:
        self.offsets: Final[dict[TopicPartition, int]] = {}
        self._homes: Final[list[tuple[Home, int]]] = []

    def add(self, where: TopicPartition, home: Home) -> None:
        """Add the finished prefix of a partition."""
        position = home.prefix.position
        if position is not None:
            self.offsets[where] = position
            self._homes.append((home, position))

    def done(self) -> None:
        """The commit was stored."""
        for home, position in self._homes:
            home.committed = position


class HeldBack(NamedTuple):
    """Partitions to pause and to resume."""

    pause: frozenset[TopicPartition]
    resume: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """The options of a pool."""

    workers: int = 1
    order: Order = "key"
    in_flight_max: int | None = None  # None: 100 for each worker.
    commit_interval_ms: int = 1_000
    drain_ms: int = 30_000
    retries: RetryPolicy = NO_RETRY
    dead_letter: DeadLetter | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.workers <= _WORKERS_MAX:
            raise ConfigError(f"workers is {self.workers}: it must be from 1 to {_WORKERS_MAX}")
        if self.order not in _ORDERS:
            raise ConfigError(f"order is {self.order!r}: it must be one of {', '.join(_ORDERS)}")
        if self.in_flight_max is not None and self.in_flight_max < self.workers:
            raise ConfigError(
                f"in_flight_max is {self.in_flight_max}: fewer than workers ({self.workers}) would leave some idle"
            )
        for key, value in (("commit_interval_ms", self.commit_interval_ms), ("drain_ms", self.drain_ms)):
            if value < 0:
                raise ConfigError(f"{key} is {value}: it must not be negative")

    @property
    def unfinished_max(self) -> int:
        return self.in_flight_max or 100 * self.workers


class PoolState:
    """Records in progress, by partition and lane."""

    def __init__(self, options: PoolOptions) -> None:
        self.finished = 0
        self.stopping = False
        self.failure: tuple[Any, BaseException] | None = None
        self._options: Final = options
        self._lanes: Final[Lanes[Task]] = Lanes()
        self._homes: Final[dict[TopicPartition, Home]] = {}
        self._unfinished = 0
        self._paused: frozenset[TopicPartition] = frozenset()

    # Records

    def offer(self, records: Iterable[Any], owned: Collection[TopicPartition]) -> None:
        """Add polled records; `owned` are the assigned partitions."""
        for partition in self._homes.keys() - owned:  # Revoked without a call of the pool's listener.
            self._homes.pop(partition).ours = False
        for record in records:
            partition = TopicPartition(record.topic, record.partition)
            home = self._homes.setdefault(partition, Home())
            if record.offset <= home.prefix.last:  # Revoked and assigned again inside one poll, or a seek.
                home.ours = False
                home = self._homes[partition] = Home()
            home.prefix.started(record.offset)
            self._unfinished += 1
            lane = self._lane_of(home, record)
            self._lanes.offer(Task(record, home, lane), lane)

    def _lane_of(self, home: Home, record: Any) -> Hashable:
        """The lane of a record, by the order option."""
        match self._options.order:
            case "none":
                return None
            case "partition":
                return home
            case "key":
                return None if record.key is None else (home, record.key)

    def take(self) -> Task | None:
        """The next task; None if there is none now, or the pool stops."""
        while not self.stopping and (taken := self._lanes.take()) is not None:
            _, task = taken
            if task.home.ours:
                task.home.running += 1
                return task
            self._unfinished -= 1  # Its partition was revoked: the new owner does it.
            self._lanes.done(task.lane)
        return None

    def ended(self, task: Task, outcome: Outcome) -> None:
        """The outcome of a taken task."""
        task.home.running -= 1
        self._unfinished -= 1
        self._lanes.done(task.lane)
        if outcome is End.FINISHED:
            task.home.prefix.finished(task.record.offset)
            self.finished += 1
        elif isinstance(outcome, BaseException) and self.failure is None:
            self.failure = (task.record, outcome)
            self.stopping = True

    def raise_failure(self) -> None:
        """Raise `WorkFailedError` if a permanent failure stopped the pool."""
        if self.failure is None:
            return
        record, error = self.failure
        attempts = self._options.retries.attempts_max
        raise WorkFailedError(
            f"the work on {record.topic}-{record.partition} offset {record.offset} failed after "
            f"{attempts} {'attempt' if attempts == 1 else 'attempts'}: {error!r}. Earlier records are committed, this one is not: pass "
            "`dead_letter` to set such records aside"
        ) from error

    # Bounds and commits

    def held_back(self, owned: Collection[TopicPartition]) -> HeldBack:
        """Pause above the bound, resume at half of it."""
        here, nothing = frozenset(owned), frozenset[TopicPartition]()
        limit = self._options.unfinished_max
        if self._unfinished >= limit or (self._paused and self._unfinished > limit // 2):
            pause = nothing if self._paused == here else here
            self._paused = here
            return HeldBack(pause, nothing)
        resume, self._paused = self._paused & here, nothing
        return HeldBack(nothing, resume)

    def to_commit(self, partitions: Iterable[TopicPartition] | None = None) -> Commit:
        """Uncommitted finished prefixes of these partitions, or of all."""
        commit = Commit()
        for where in self._homes if partitions is None else partitions:
            home = self._homes.get(where)
            if home is not None and home.prefix.position != home.committed:
                commit.add(where, home)
        return commit

    # The group

    def leaving(self, partitions: Iterable[TopicPartition]) -> list[Home]:
        """Stop starting work for these partitions; returns their homes, to wait for running work."""
        homes = [self._homes[where] for where in partitions if where in self._homes]
        for home in homes:
            home.ours = False
        return homes

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Forget these partitions, which another member owns."""
        for where in partitions:
            home = self._homes.pop(where, None)
            if home is not None:
                home.ours = False
        self._paused -= set(partitions)

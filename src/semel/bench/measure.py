"""One comparison measured fairly: ours and the peers in turn, in the same minute, on the same machine.

Role.   Times the subjects of a `Comparison` and gives medians with intervals, and the ratio of ours to each peer.
Flow.   A module of `semel.bench` (codec, kernels, …) has `comparisons()`; `__main__` measures each with `measure`
        and hands the results to `report`.
Rules.  * The first subject is ours. One run of any subject does the work of the comparison once.
        * Every subject is warmed up once, untimed, then rounds: each subject once per round, and every second
          round in the opposite order, so that a machine that slows down slows both ends of a ratio.
        * A round repeats a run until it lasts about `ROUND_SECONDS_MIN`, so that the clock's own cost vanishes.
        * A ratio is taken inside a round and then summarised over the rounds; medians of medians hide drift.
        * Wall time and CPU seconds are both kept: on a noisy machine the second is the robust one. CPU seconds
          include those of child processes that have ended and been waited for.
        * A peer that is not installed is left out with a note. Any other error stops the measurement.
"""

import gc
import math
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final, Protocol

from semel.errors import SemelError
from semel.peers.kafka import PeerMissingError

PAIRS_DEFAULT: Final = 7
PAIRS_MAX: Final = 1001
ROUND_SECONDS_MIN: Final = 0.05
REPEATS_MAX: Final = 10_000_000
CONFIDENCE: Final = 0.95
_GB: Final = 1e9
_MISSING: Final = (ImportError, PeerMissingError)


class BenchError(SemelError):
    """A comparison that cannot be measured as it is given."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Something that does the work of a comparison; `run` does it once."""

    name: str
    run: Callable[[], object]


def peer(name: str, prepare: Callable[[], Callable[[], object]]) -> Subject:
    """The subject that `prepare` makes; if its library is missing, one that `measure` leaves out with a note.

    Imports and set-up of a peer belong into `prepare`, so that its library may be missing and none of it is timed.
    """
    try:
        return Subject(name, prepare())
    except _MISSING as error:
        reason = str(error)  # The name `error` is gone when `missing` runs.

        def missing() -> object:
            raise ImportError(reason)

        return Subject(name, missing)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The same work done by several subjects, ours first.

    `unit` is what is counted, in the plural ("records", "messages", "batches"); `units_per_run` how many of them one
    run does; `bytes_per_run`, if given, adds GB/s and CPU seconds per GB. `target_ratio` is how many times the speed
    of each of the first `target_peers_count` peers ours must reach, `target` the same or more in words.
    """

    title: str
    unit: str
    units_per_run: float
    subjects: Sequence[Subject]
    target: str | None = None
    bytes_per_run: float | None = None
    target_ratio: float | None = None
    target_peers_count: int = 1

    def __post_init__(self) -> None:
        if not self.subjects:
            raise BenchError(f"{self.title}: a comparison needs at least one subject, ours")
        names = [subject.name for subject in self.subjects]
        if len(set(names)) != len(names):
            raise BenchError(f"{self.title}: two subjects have the same name: {', '.join(names)}")
        for name, value in (
            ("units_per_run", self.units_per_run),
            ("bytes_per_run", self.bytes_per_run),
            ("target_ratio", self.target_ratio),
        ):
            if value is not None and not (math.isfinite(value) and value > 0):
                raise BenchError(f"{self.title}: {name} is {value}; it must be a number above 0")


@dataclass(frozen=True, slots=True)
class Estimate:
    """A median, and the interval that holds the true median with a probability of at least `CONFIDENCE`.

    With fewer than six values no interval reaches that; then it is the smallest and the largest value.
    """

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class SubjectResult:
    """The times of one subject. Every figure is per unit of work, whatever the rounds repeated."""

    name: str
    repeats: int
    units_per_second: Estimate
    microseconds_per_unit: Estimate
    cpu_microseconds_per_unit: Estimate
    gb_per_second: Estimate | None
    cpu_seconds_per_gb: Estimate | None


@dataclass(frozen=True, slots=True)
class Ratio:
    """Ours beside one peer, from the rounds both ran in.

    `speed` is ours over the peer's in units per second (above 1: ours is faster); `cpu` is our CPU seconds over the
    peer's for the same work (below 1: ours needs less), or None where the clock saw no CPU time.
    """

    peer: str
    speed: Estimate
    cpu: Estimate | None


@dataclass(frozen=True, slots=True)
class ComparisonResult:
    """A measured comparison; plain data, so that it can be kept as JSON and rendered again."""

    title: str
    unit: str
    pairs: int
    subjects: tuple[SubjectResult, ...]
    ratios: tuple[Ratio, ...]
    target: str | None = None
    target_ratio: float | None = None
    target_peers: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Clock(Protocol):
    """Seconds gone by and CPU seconds used, both from any starting point."""

    def wall_seconds(self) -> float: ...

    def cpu_seconds(self) -> float: ...


class SystemClock:
    """The clocks of this machine."""

    def wall_seconds(self) -> float:
        return time.perf_counter()

    def cpu_seconds(self) -> float:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.process_time() + children.ru_utime + children.ru_stime


@dataclass(slots=True)
class _Runner:
    """A subject that is being measured: how often a round repeats it, and its seconds per run in every round."""

    subject: Subject
    repeats: int = 1
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


def measure(
    comparison: Comparison,
    pairs: int = PAIRS_DEFAULT,
    *,
    clock: Clock | None = None,
    round_seconds_min: float = ROUND_SECONDS_MIN,
) -> ComparisonResult:
    """Run every subject in `pairs` interleaved rounds and summarise them."""
    if not 1 <= pairs <= PAIRS_MAX:
        raise BenchError(f"{pairs} pairs asked for; choose between 1 and {PAIRS_MAX}")
    clock = clock or SystemClock()
    runners, notes = _warmed_up(comparison)
    for runner in runners:
        runner.repeats = _calibrate(runner.subject, clock, round_seconds_min)
    for round_index in range(pairs):
        for runner in runners if round_index % 2 == 0 else reversed(runners):
            gc.collect()  # Each subject pays for its own garbage only.
            wall, cpu = _time(runner.subject, runner.repeats, clock)
            if wall <= 0:
                raise BenchError(f"{comparison.title}: {runner.subject.name} took no time the clock can see")
            runner.wall.append(wall / runner.repeats)
            runner.cpu.append(cpu / runner.repeats)
    ours, *peers = runners
    return ComparisonResult(
        title=comparison.title,
        unit=comparison.unit,
        pairs=pairs,
        subjects=tuple(_summary(runner, comparison) for runner in runners),
        ratios=tuple(_ratio(ours, other) for other in peers),
        target=comparison.target,
        target_ratio=comparison.target_ratio,
        target_peers=tuple(
            subject.name for subject in comparison.subjects[1 : 1 + comparison.target_peers_count]
        ),
        notes=notes,
    )


def estimate(values: Sequence[float]) -> Estimate:
    """The median and its order-statistics interval, which assumes nothing about how the values are spread."""
    ordered = sorted(values)
    rank = _interval_rank(len(ordered))
    return Estimate(median(ordered), ordered[rank], ordered[-1 - rank])


def coverage(count: int) -> float:
    """The probability that the interval `estimate` gives for `count` values holds the true median."""
    outside = sum(math.comb(count, below) for below in range(_interval_rank(count) + 1)) / 2.0**count
    return max(0.0, 1 - 2 * outside)


def _interval_rank(count: int) -> int:
    """How many values may be cut at each end so that the rest still covers the median with `CONFIDENCE`.

    The number of values below the true median is binomial (count, 1/2). The interval from the value of rank r to
    its mirror image misses the median when at most r values lie on one side of it.
    """
    rank, outside = 0, 1.0
    while (outside + math.comb(count, rank + 1)) * 2 / 2.0**count <= 1 - CONFIDENCE:
        rank += 1
        outside += math.comb(count, rank)
    return rank


def _warmed_up(comparison: Comparison) -> tuple[list[_Runner], tuple[str, ...]]:
    """Run each subject once; those whose library is missing are left out, unless it is ours."""
    runners: list[_Runner] = []
    notes: list[str] = []
    for index, subject in enumerate(comparison.subjects):
        try:
            subject.run()
        except _MISSING as error:
            if index == 0:
                raise
            notes.append(f"{subject.name} was left out: {error}")
        else:
            runners.append(_Runner(subject))
    return runners, tuple(notes)


def _calibrate(subject: Subject, clock: Clock, round_seconds_min: float) -> int:
    """How often to repeat a run so that a round takes about `round_seconds_min` or longer."""
    repeats = 1
    while True:
        wall, _cpu = _time(subject, repeats, clock)
        if wall >= round_seconds_min or repeats >= REPEATS_MAX:
            return repeats
        # Too short to judge: at most ten times more, since the first runs may have been the slow ones.
        grown = 10.0 if wall <= 0 else min(10.0, round_seconds_min / wall * 1.1)
        repeats = min(REPEATS_MAX, max(repeats + 1, math.ceil(repeats * grown)))


def _time(subject: Subject, repeats: int, clock: Clock) -> tuple[float, float]:
    """Wall and CPU seconds of `repeats` runs together."""
    run = subject.run
    cpu_start, wall_start = clock.cpu_seconds(), clock.wall_seconds()
    for _ in range(repeats):
        run()
    wall_end, cpu_end = clock.wall_seconds(), clock.cpu_seconds()
    return wall_end - wall_start, cpu_end - cpu_start


def _summary(runner: _Runner, comparison: Comparison) -> SubjectResult:
    units = comparison.units_per_run
    gigabytes = None if comparison.bytes_per_run is None else comparison.bytes_per_run / _GB
    return SubjectResult(
        name=runner.subject.name,
        repeats=runner.repeats,
        units_per_second=estimate([units / seconds for seconds in runner.wall]),
        microseconds_per_unit=estimate([seconds * 1e6 / units for seconds in runner.wall]),
        cpu_microseconds_per_unit=estimate([seconds * 1e6 / units for seconds in runner.cpu]),
        gb_per_second=None
        if gigabytes is None
        else estimate([gigabytes / seconds for seconds in runner.wall]),
        cpu_seconds_per_gb=None
        if gigabytes is None
        else estimate([seconds / gigabytes for seconds in runner.cpu]),
    )


def _ratio(ours: _Runner, other: _Runner) -> Ratio:
    speeds = [theirs / mine for mine, theirs in zip(ours.wall, other.wall, strict=True)]
    cpu = None
    if min(other.cpu) > 0:
        cpu = estimate([mine / theirs for mine, theirs in zip(ours.cpu, other.cpu, strict=True)])
    return Ratio(peer=other.subject.name, speed=estimate(speeds), cpu=cpu)

"""Measurements must be fair and their arithmetic right, whatever the machine does.

Method: subjects that do nothing but move a clock by hand, so that every duration is known to the digit, and a diary
of who ran when.
"""

import gc
from collections.abc import Callable, Iterator
from itertools import cycle, repeat

import pytest

from semel.bench.measure import (
    PAIRS_MAX,
    BenchError,
    Comparison,
    Estimate,
    Subject,
    SystemClock,
    coverage,
    estimate,
    measure,
    peer,
)
from semel.peers.kafka import PeerMissingError


class HandClock:
    """Time that passes only when a subject says so."""

    def __init__(self) -> None:
        self.wall = 100.0
        self.cpu = 7.0
        self.diary: list[str] = []

    def wall_seconds(self) -> float:
        return self.wall

    def cpu_seconds(self) -> float:
        return self.cpu

    def subject(self, name: str, seconds: Iterator[float], *, cpu_share: float = 1.0) -> Subject:
        def run() -> None:
            duration = next(seconds)
            self.wall += duration
            self.cpu += duration * cpu_share
            self.diary.append(name)

        return Subject(name, run)


def test_every_figure_follows_from_the_durations() -> None:
    clock = HandClock()
    ours = clock.subject("ours", repeat(0.5), cpu_share=0.5)
    theirs = clock.subject("theirs", repeat(2.0), cpu_share=2.0)
    comparison = Comparison("copy", "records", 1000, [ours, theirs], bytes_per_run=5e8)

    result = measure(comparison, 7, clock=clock)

    mine, other = result.subjects
    assert (mine.name, mine.repeats, other.name) == ("ours", 1, "theirs")
    assert mine.units_per_second.median == pytest.approx(2000)
    assert mine.microseconds_per_unit.median == pytest.approx(500)
    assert mine.cpu_microseconds_per_unit.median == pytest.approx(250)
    assert mine.gb_per_second is not None
    assert mine.gb_per_second.median == pytest.approx(1.0)
    assert mine.cpu_seconds_per_gb is not None
    assert mine.cpu_seconds_per_gb.median == pytest.approx(0.5)
    assert other.units_per_second.median == pytest.approx(500)
    (ratio,) = result.ratios
    assert ratio.peer == "theirs"
    assert ratio.speed.median == pytest.approx(4.0)
    assert ratio.cpu is not None
    assert ratio.cpu.median == pytest.approx(0.25 / 4.0)


def test_without_bytes_there_is_no_gigabyte_figure() -> None:
    clock = HandClock()
    result = measure(Comparison("parse", "messages", 1, [clock.subject("ours", repeat(1.0))]), 2, clock=clock)
    assert result.subjects[0].gb_per_second is None
    assert result.subjects[0].cpu_seconds_per_gb is None
    assert result.ratios == ()


def test_rounds_alternate_their_order_after_one_warm_up_each() -> None:
    clock = HandClock()
    subjects = [clock.subject(name, repeat(1.0)) for name in ("ours", "b", "c")]
    measure(Comparison("order", "runs", 1, subjects), 3, clock=clock)
    warm_up, calibration = ["ours", "b", "c"], ["ours", "b", "c"]
    rounds = [["ours", "b", "c"], ["c", "b", "ours"], ["ours", "b", "c"]]
    assert clock.diary == [*warm_up, *calibration, *(name for one in rounds for name in one)]


def test_the_warm_up_is_not_timed() -> None:
    clock = HandClock()
    slow_first = iter([1000.0, *([1.0] * 10)])  # As a kernel that is compiled by its first call.
    result = measure(Comparison("jit", "runs", 1, [clock.subject("ours", slow_first)]), 5, clock=clock)
    assert result.subjects[0].microseconds_per_unit == Estimate(1e6, 1e6, 1e6)


def test_a_ratio_is_taken_inside_its_round() -> None:
    """The machine runs at a different speed in each round; both ends see it, so the ratio does not move."""
    clock = HandClock()
    speeds = [1.0, 8.0, 3.0, 20.0, 5.0]
    ours = clock.subject("ours", iter([1.0, 1.0, *speeds]))
    theirs = clock.subject("theirs", iter([3.0, 3.0, *(3 * speed for speed in speeds)]))
    (ratio,) = measure(Comparison("drift", "runs", 1, [ours, theirs]), 5, clock=clock).ratios
    assert ratio.speed.low == pytest.approx(3.0)
    assert ratio.speed.high == pytest.approx(3.0)


def test_short_runs_are_repeated_until_a_round_is_long_enough() -> None:
    clock = HandClock()
    subjects = [clock.subject("short", repeat(0.001)), clock.subject("long", repeat(0.2))]
    result = measure(Comparison("repeats", "runs", 1, subjects), 1, clock=clock, round_seconds_min=0.05)
    short, long = result.subjects
    assert 50 <= short.repeats <= 60
    assert long.repeats == 1
    assert short.microseconds_per_unit.median == pytest.approx(1000)  # Per run, not per round.


def test_a_slow_first_call_does_not_fool_the_calibration() -> None:
    clock = HandClock()
    first_slow = iter([0.04, 0.04, *([0.0001] * 100_000)])
    (subject,) = measure(
        Comparison("cold", "runs", 1, [clock.subject("ours", first_slow)]), 1, clock=clock
    ).subjects
    assert subject.repeats * 0.0001 >= 0.05


def test_a_subject_faster_than_any_clock_is_refused_instead_of_divided_by() -> None:
    clock = HandClock()
    still = Subject("still", lambda: None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("semel.bench.measure.REPEATS_MAX", 1000)
        with pytest.raises(BenchError, match="nothing: still took no time the clock can see"):
            measure(Comparison("nothing", "runs", 1, [still]), 1, clock=clock)


def test_no_cpu_time_gives_no_cpu_ratio() -> None:
    clock = HandClock()
    subjects = [clock.subject("ours", repeat(1.0)), clock.subject("idle", repeat(1.0), cpu_share=0.0)]
    assert measure(Comparison("sleep", "runs", 1, subjects), 3, clock=clock).ratios[0].cpu is None


def test_garbage_is_collected_before_each_round(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = HandClock()
    monkeypatch.setattr(gc, "collect", lambda: clock.diary.append("collect"))
    measure(Comparison("garbage", "runs", 1, [clock.subject("ours", repeat(1.0))]), 2, clock=clock)
    assert clock.diary[2:] == ["collect", "ours", "collect", "ours"]


@pytest.mark.parametrize("error", [ImportError("No module named 'kio'"), PeerMissingError("Java is missing")])
def test_a_peer_that_is_not_installed_is_left_out_with_a_note(error: Exception) -> None:
    clock = HandClock()

    def prepare() -> Callable[[], object]:
        raise error

    subjects = [
        clock.subject("ours", repeat(1.0)),
        peer("theirs", prepare),
        clock.subject("other", repeat(2.0)),
    ]
    result = measure(Comparison("gap", "runs", 1, subjects, target_ratio=2), 1, clock=clock)
    assert [subject.name for subject in result.subjects] == ["ours", "other"]
    assert [ratio.peer for ratio in result.ratios] == ["other"]
    assert result.notes == (f"theirs was left out: {error}",)
    assert result.target_peers == (
        "theirs",
    )  # The target stays what it was; it is not quietly held to another peer.


def test_a_peer_that_is_there_is_prepared_outside_the_timed_run() -> None:
    steps: list[str] = []

    def prepare() -> Callable[[], object]:
        steps.append("prepare")
        return lambda: steps.append("run")

    subject = peer("theirs", prepare)
    assert steps == ["prepare"]
    subject.run()
    subject.run()
    assert steps == ["prepare", "run", "run"]


def test_ours_may_not_be_missing_and_other_errors_stop_the_measurement() -> None:
    def missing() -> object:
        raise ImportError("No module named 'numba'")

    def broken() -> object:
        raise RuntimeError("wrong answer")

    with pytest.raises(ImportError, match="numba"):
        measure(Comparison("c", "runs", 1, [Subject("ours", missing)]), 1)
    with pytest.raises(RuntimeError, match="wrong answer"):
        measure(Comparison("c", "runs", 1, [Subject("ours", lambda: None), Subject("theirs", broken)]), 1)


# The known ranks of the distribution-free interval of a median at 95 % (smallest and largest value counted as 1).
@pytest.mark.parametrize(
    ("count", "low_rank", "high_rank", "probability"),
    [
        (1, 1, 1, 0.0),
        (5, 1, 5, 0.9375),
        (6, 1, 6, 0.96875),
        (7, 1, 7, 0.984375),
        (9, 2, 8, 0.9609),
        (15, 4, 12, 0.9648),
    ],
)
def test_the_interval_of_the_median(count: int, low_rank: int, high_rank: int, probability: float) -> None:
    values = [float(value) for value in range(1, count + 1)]
    backwards = values[::-1]
    assert estimate(backwards) == Estimate((count + 1) / 2, low_rank, high_rank)
    assert coverage(count) == pytest.approx(probability, abs=5e-5)


def test_the_interval_exists_up_to_the_largest_number_of_rounds() -> None:
    assert 0.95 <= coverage(PAIRS_MAX) < 0.96


def test_one_outlier_moves_neither_median_nor_interval() -> None:
    calm = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8]
    assert estimate([*calm[:-1], 1000.0]) == estimate(calm)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"subjects": []}, "needs at least one subject"),
        ({"subjects": [Subject("a", int), Subject("a", int)]}, "same name: a, a"),
        ({"units_per_run": 0}, "units_per_run is 0"),
        ({"bytes_per_run": -1.0}, "bytes_per_run is -1.0"),
        ({"target_ratio": float("nan")}, "target_ratio is nan"),
    ],
)
def test_a_comparison_that_cannot_be_is_refused(changes: dict[str, object], message: str) -> None:
    fields: dict[str, object] = {
        "title": "t",
        "unit": "u",
        "units_per_run": 1,
        "subjects": [Subject("a", int)],
    }
    with pytest.raises(BenchError, match=message):
        Comparison(**(fields | changes))  # type: ignore[arg-type]  # Wrong values are the point.


@pytest.mark.parametrize("pairs", [0, -1, PAIRS_MAX + 1])
def test_a_number_of_rounds_out_of_range_is_refused(pairs: int) -> None:
    with pytest.raises(BenchError, match=f"{pairs} pairs asked for"):
        measure(Comparison("t", "u", 1, [Subject("a", int)]), pairs)


def test_the_system_clock_counts_cpu_and_never_runs_backwards() -> None:
    clock = SystemClock()
    cpu, wall = clock.cpu_seconds(), clock.wall_seconds()
    numbers = cycle(range(7))
    while clock.cpu_seconds() <= cpu:  # Until it ticks; every turn is work it must count.
        sum(next(numbers) for _ in range(1000))
    assert clock.wall_seconds() > wall

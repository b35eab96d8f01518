"""The worker pool: many at once, and only what is finished is committed.

Method: topics in memory; work that the test lets finish in the order it wants, fails, or never ends. What is committed at
any moment must be below everything unfinished. The seeds' third order (commit, then let the work finish elsewhere) is played
beside it, with the loss it predicts.
"""

import asyncio
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from semel.errors import ConfigError
from semel.exceptions import CommitFailedException, WakeupException
from semel.once import RetryPolicy, WorkFailedError, process
from semel.once.rules.pool import Order
from semel.types import TopicPartition
from support.once.once_doubles import ConsumerDouble, RecordDouble, TopicsDouble

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def topics_of(records: int, keys: int = 7) -> TopicsDouble:
    topics = TopicsDouble()
    for n in range(records):
        topics.write("orders", b"%d" % n, partition=n % 2, key=b"key-%d" % (n % keys), skip=n % 2)
    return topics


class Ledger:
    """What was done, by whom it was seen."""

    def __init__(self) -> None:
        self.done: list[RecordDouble] = []
        self.lock = threading.Lock()

    def __call__(self, record: RecordDouble) -> None:
        with self.lock:
            self.done.append(record)

    def has(self, count: int) -> Callable[[], bool]:
        return lambda: len(self.done) >= count


def test_two_lines() -> None:
    topics, ledger = topics_of(100), Ledger()
    consumer = ConsumerDouble(topics)
    assert process(consumer, ledger, workers=4, topics=["orders"], until=ledger.has(100)) == 100
    assert sorted(r.value or b"" for r in ledger.done) == sorted(b"%d" % n for n in range(100))
    assert {where: topics.committed["group", where].offset for where in (P0, P1)} == consumer.positions


@pytest.mark.mission("CID-04")
@pytest.mark.parametrize("order", ["key", "partition", "none"])
def test_order_is_what_was_asked_for(order: Order) -> None:
    """Workers take different times; beside each other run only those that may."""
    topics, dice = topics_of(120), random.Random(7)
    finished: dict[object, list[int]] = defaultdict(list)
    running: set[object] = set()
    lock = threading.Lock()
    at_once = 0
    pauses = [dice.random() / 500 for _ in range(120)]

    def lane(record: RecordDouble) -> object:
        return {"key": (record.partition, record.key), "partition": record.partition, "none": record.value}[
            order
        ]

    def work(record: RecordDouble) -> None:
        nonlocal at_once
        with lock:
            assert lane(record) not in running, "two of one lane at once"
            running.add(lane(record))
            at_once = max(at_once, len(running))
        time.sleep(pauses[int(record.value or b"0")])
        with lock:
            running.remove(lane(record))
            finished[lane(record)].append(record.offset)

    def is_over() -> bool:
        with lock:
            return sum(map(len, finished.values())) == 120

    process(ConsumerDouble(topics), work, workers=5, order=order, topics=["orders"], until=is_over)
    for offsets in finished.values():
        assert offsets == sorted(offsets)
    assert 1 < at_once <= (2 if order == "partition" else 5)


@pytest.mark.parametrize("seed", range(5))
def test_a_commit_never_passes_unfinished_work(seed: int) -> None:
    """Work ends in random order while the pool commits as often as it can; each commit is compared with the truth."""
    topics, dice = topics_of(80), random.Random(seed)
    finished: dict[TopicPartition, set[int]] = {P0: set(), P1: set()}
    lock = threading.Lock()
    pauses = [dice.choice([0, 0, 0.001, 0.01]) for _ in range(80)]

    def work(record: RecordDouble) -> None:
        time.sleep(pauses[int(record.value or b"0")])
        with lock:
            finished[TopicPartition(record.topic, record.partition)].add(record.offset)

    class Watched(ConsumerDouble):
        def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
            with lock:
                for where, offset in offsets.items():
                    below = {r.offset for r in topics.logs[where] if r.offset < offset}
                    assert below <= finished[where], f"{where} was committed to {offset}"
            super().commit(offsets)

    ends = lambda: sum(map(len, finished.values())) == 80  # noqa: E731
    consumer = Watched(topics, records_max=9)
    process(consumer, work, workers=6, order="none", topics=["orders"], commit_interval_ms=0, until=ends)
    assert len(consumer.commits) > 1
    assert {where: topics.committed["group", where].offset for where in (P0, P1)} == consumer.positions


def test_work_that_goes_on_elsewhere_is_finished_there() -> None:
    """Work hands its record to another thread and returns a future: the record is committed when that has a result."""
    topics, ledger = topics_of(20), Ledger()
    with ThreadPoolExecutor(3) as elsewhere:

        def work(record: RecordDouble) -> "Future[None]":
            return elsewhere.submit(ledger, record)

        process(ConsumerDouble(topics), work, workers=3, topics=["orders"], until=ledger.has(20))
    assert len(ledger.done) == 20


def test_a_coroutine_is_work_too() -> None:
    topics, ledger = topics_of(20), Ledger()
    together = 0

    async def work(record: RecordDouble) -> None:
        nonlocal together
        together += 1
        await asyncio.sleep(0.001)
        together -= 1
        ledger(record)

    process(ConsumerDouble(topics), work, workers=4, topics=["orders"], until=ledger.has(20))
    assert len(ledger.done) == 20
    assert together == 0


@pytest.mark.mission("CID-03")
def test_asynchronous_work_that_fails_after_the_commit_is_lost_and_here_it_is_not() -> None:
    """The seeds' third order: hand the work on, commit, and then the work fails: one record is lost. The pool loses none."""
    topics = topics_of(10)

    def poll_and_hand_on(done: Ledger) -> None:
        """What the seed warns of: the loop commits while the work is still elsewhere."""
        consumer = ConsumerDouble(topics, "hand-on")
        consumer.subscribe(["orders"])
        pending = consumer.poll()  # Handed to a thread pool, which has not begun.
        consumer.commit(consumer.positions)
        for record in pending:
            if record.value != b"4":  # The work on this one fails, after the commit.
                done(record)

    lost = Ledger()
    poll_and_hand_on(lost)
    again = ConsumerDouble(topics, "hand-on")
    again.subscribe(["orders"])
    assert again.poll() == [], "the group has moved on"
    assert {r.value for r in topics.logs[P0] + topics.logs[P1]} - {r.value for r in lost.done} == {b"4"}

    kept = Ledger()
    with ThreadPoolExecutor(2) as elsewhere:
        failures = iter([True])

        def work(record: RecordDouble) -> "Future[None]":
            def later() -> None:
                if record.value == b"4" and next(failures, False):
                    raise ConnectionError("the work failed")
                kept(record)

            return elsewhere.submit(later)

        with pytest.raises(WorkFailedError, match="orders-0 offset 2 failed after 1 attempt:"):
            process(ConsumerDouble(topics), work, workers=2, topics=["orders"])
        process(ConsumerDouble(topics), work, workers=2, topics=["orders"], until=lambda: _all(topics, kept))
    assert _all(topics, kept)


def _all(topics: TopicsDouble, ledger: Ledger) -> bool:
    return {r.value for r in ledger.done} == set(topics.values("orders"))


def test_work_that_fails_stops_the_pool_before_its_record() -> None:
    topics = topics_of(40)
    ledger = Ledger()

    def work(record: RecordDouble) -> None:
        if record.value == b"10":
            raise ValueError("cannot be")
        ledger(record)

    consumer = ConsumerDouble(topics)
    with pytest.raises(WorkFailedError, match="orders-0 offset 5 failed after 1 attempt:") as caught:
        process(consumer, work, workers=3, topics=["orders"])
    assert isinstance(caught.value.__cause__, ValueError)
    assert topics.committed["group", P0].offset == 5


def test_work_is_tried_again_and_then_put_aside() -> None:
    topics, ledger = topics_of(20), Ledger()
    attempts: dict[bytes | None, int] = defaultdict(int)
    aside: list[tuple[bytes | None, str]] = []

    def work(record: RecordDouble) -> None:
        attempts[record.value] += 1
        if record.value == b"7" or (record.value == b"3" and attempts[b"3"] < 3):
            raise ValueError(f"attempt {attempts[record.value]}")
        ledger(record)

    finished = process(
        ConsumerDouble(topics),
        work,
        workers=3,
        topics=["orders"],
        retries=RetryPolicy(attempts_max=3, backoff_ms=1, backoff_max_ms=1),
        dead_letter=lambda record, error: aside.append((record.value, str(error))),
        until=lambda: len(ledger.done) == 19 and len(aside) == 1,
    )
    assert finished == 20
    assert attempts[b"3"] == attempts[b"7"] == 3
    assert aside == [(b"7", "attempt 3")]
    assert topics.committed["group", P1].offset == 20, "what was put aside is finished as well"


def test_a_dead_letter_that_fails_stops_the_pool() -> None:
    def work(record: RecordDouble) -> None:
        raise ValueError("first")

    def broken(record: RecordDouble, error: BaseException) -> None:
        raise OSError("second")

    with pytest.raises(WorkFailedError) as caught:
        process(ConsumerDouble(topics_of(2)), work, topics=["orders"], dead_letter=broken)
    assert isinstance(caught.value.__cause__, OSError)
    assert isinstance(caught.value.__cause__.__cause__, ValueError)


def test_too_much_in_flight_pauses_and_goes_on() -> None:
    topics, ledger = topics_of(200), Ledger()
    gate = threading.Event()
    highest = 0

    class Watched(ConsumerDouble):
        def poll(self, timeout_ms: int = 0) -> list[RecordDouble]:
            nonlocal highest
            polled = super().poll(timeout_ms)
            highest = max(highest, sum(self.positions.values()))
            if self.paused:
                gate.set()
            return polled

    def work(record: RecordDouble) -> None:
        gate.wait(60)  # Nothing finishes until the pool has paused.
        ledger(record)

    process(
        Watched(topics, records_max=5),
        work,
        workers=2,
        topics=["orders"],
        in_flight_max=10,
        until=ledger.has(200),
    )
    assert gate.is_set()
    assert len(ledger.done) == 200


class TakenAway:
    """A worker is at the first record of a partition when that is taken away from its consumer, in the second poll."""

    def __init__(self, records: int, *, lost: bool) -> None:
        self.topics = topics_of(records)
        self._ledger = Ledger()
        self._is_lost = lost
        self._started, self._gate = threading.Event(), threading.Event()

    def _work(self, record: RecordDouble) -> None:
        if record.value == b"0":
            self._started.set()
            self._gate.wait(60)
        self._ledger(record)

    def run(self) -> list[bytes | None]:
        """What was done of the partition that went."""
        story = self

        class Moving(ConsumerDouble):
            polls = 0

            def poll(self, timeout_ms: int = 0) -> list[RecordDouble]:
                self.polls += 1
                if self.polls == 2:
                    story._started.wait(60)
                    if not story._is_lost:  # The pool waits for what runs: somebody else must let it end.
                        threading.Timer(0.05, story._gate.set).start()
                    self.take(P0, lost=story._is_lost)
                if self.polls == 3:
                    story._gate.set()
                return super().poll(timeout_ms)

        consumer = Moving(self.topics)
        process(
            consumer,
            self._work,
            workers=1,
            order="partition",
            topics=["orders"],
            until=lambda: consumer.polls > 3,
        )
        return [record.value for record in self._ledger.done if record.partition == 0]


def test_a_partition_that_is_taken_away_is_waited_for_and_committed() -> None:
    story = TakenAway(10, lost=False)
    assert story.run() == [b"0"]
    assert story.topics.committed["group", P0].offset == 1, (
        "the one that ran was finished and committed, the others were left"
    )


def test_what_finishes_after_its_partition_is_gone_is_not_committed() -> None:
    story = TakenAway(4, lost=True)
    assert story.run() == [b"0"]
    assert ("group", P0) not in story.topics.committed


def test_a_partition_that_went_before_its_commit_got_through_is_not_committed_later() -> None:
    """A pool that is woken up commits at its end what is finished: of what it has."""
    topics, ledger, may_work, all_done = topics_of(10), Ledger(), threading.Event(), threading.Event()

    def work(record: RecordDouble) -> None:
        may_work.wait(60)
        ledger(record)
        if len(ledger.done) == 10:
            all_done.set()

    class Moving(ConsumerDouble):
        polls = 0

        def poll(self, timeout_ms: int = 0) -> list[RecordDouble]:
            self.polls += 1
            if self.polls == 2:
                may_work.set()
                all_done.wait(60)
                self.fail_commit = woken
                self.take(P0)
            return super().poll(timeout_ms)

    def woken() -> None:
        consumer.fail_commit = lambda: None
        raise WakeupException("wakeup() was called")

    consumer = Moving(topics)
    process(consumer, work, workers=1, topics=["orders"])
    assert ("group", P0) not in topics.committed, "its new owner may be further than that"
    assert topics.committed["group", P1].offset == consumer.positions[P1]


def test_a_partition_that_comes_back_begins_anew() -> None:
    """A consumer that was subscribed without the pool: it sees only that offsets go back."""
    topics, ledger = topics_of(6), Ledger()
    consumer = ConsumerDouble(topics)
    consumer.subscribe(["orders"])
    sought = False

    def until() -> bool:
        nonlocal sought
        if len(ledger.done) == 6 and not sought:
            sought = True
            consumer.seek(P0, 0)
        return len(ledger.done) == 9

    process(consumer, ledger, workers=2, until=until)
    assert len([r for r in ledger.done if r.partition == 0]) == 6
    assert {where: topics.committed["group", where].offset for where in (P0, P1)} == consumer.positions


def test_a_commit_that_the_group_refuses_loses_nothing() -> None:
    topics, ledger = topics_of(10), Ledger()
    consumer = ConsumerDouble(topics)
    refusals = iter([True, False])

    def refuse() -> None:
        if next(refusals, False):
            raise CommitFailedException("the group has moved on")

    consumer.fail_commit = refuse
    is_done = ledger.has(10)
    # Were everything done before the first commit, the refused one could be the last.
    process(
        consumer,
        ledger,
        workers=2,
        topics=["orders"],
        commit_interval_ms=0,
        until=lambda: is_done() and bool(consumer.commits),
    )
    assert {where: topics.committed["group", where].offset for where in (P0, P1)} == consumer.positions


def test_what_cannot_be_is_refused() -> None:
    consumer = ConsumerDouble(TopicsDouble())
    with pytest.raises(ConfigError, match="workers is 0"):
        process(consumer, print, workers=0)
    with pytest.raises(ConfigError, match="order is 'random'"):
        process(consumer, print, order="random")  # type: ignore[arg-type] # the mistake
    with pytest.raises(ConfigError, match=r"in_flight_max is 2: fewer than workers \(3\)"):
        process(consumer, print, workers=3, in_flight_max=2)
    with pytest.raises(ConfigError, match="drain_ms is -1"):
        process(consumer, print, drain_ms=-1)

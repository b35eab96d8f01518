"""The judgement finds each anomaly in a history written by hand, and nothing in one that is right.

Method: the histories of `semel.verify.proof.examples`; the story of a finding; files; histories of a perfect log, made at random.
"""

import random
from collections.abc import Callable

import pytest

from semel.verify.history.events import (
    COMMITTED,
    UNCOMMITTED,
    Acked,
    Assigned,
    Began,
    ClientEvent,
    Commit,
    Deciding,
    Drained,
    Ended,
    Failed,
    Fault,
    Outcome,
    Polled,
    Position,
    Repositioned,
    Sent,
    Stable,
)
from semel.verify.history.lines import HistoryError, from_lines, rounds_of, to_lines
from semel.verify.proof.anomalies import Anomaly, Finding, story_of
from semel.verify.proof.examples import (
    BROKEN,
    LIMITS,
    History,
    also,
    changed,
    handed,
    missed,
    reading,
    right,
    self_test,
    without,
)
from semel.verify.proof.judge import Limits, counts, judge, unread

PATIENT = Limits(stuck_seconds=600, unavailable_seconds=600)


def replaced(old: ClientEvent, new: ClientEvent) -> History:
    """What is right, but for one event."""
    return changed(old, new)(right())


def test_a_history_that_is_right_has_no_findings() -> None:
    history = right()
    assert judge(history, LIMITS) == []
    assert all(number == 0 for number in counts([]).values())


@pytest.mark.parametrize(("anomaly", "what", "break_it"), BROKEN, ids=[what for _, what, _ in BROKEN])
def test_each_anomaly_is_found(anomaly: Anomaly, what: str, break_it: Callable[[History], History]) -> None:
    history = break_it(right())
    findings = judge(history, LIMITS)
    assert anomaly in {finding.anomaly for finding in findings}, findings
    found = next(finding for finding in findings if finding.anomaly is anomaly)
    assert all(0 <= place < len(history) for place in found.events)
    assert len(found.events) <= 8
    assert len(story_of(found, history)) > 1


def test_every_anomaly_is_tried() -> None:
    assert {anomaly for anomaly, _, _ in BROKEN} == set(Anomaly)


def test_the_story_shows_the_faults_around_it() -> None:
    history = without({"b2"})(right())
    (found,) = judge(history, LIMITS)
    story = story_of(found, history)
    assert "1 of 2 records are visible" in story[0]
    assert any("the broker was killed" in line for line in story)
    assert not any("a1" in line for line in story), "it is about b1 and b2 only"


def test_a_poll_is_shown_around_its_record_only() -> None:
    history: History = [Polled(1.0, "reader", COMMITTED, "t", 0, tuple((n, f"v{n}") for n in range(1000)))]
    finding = Finding(Anomaly.DUPLICATE, "why", (0,), (500,))
    line = story_of(finding, history)[1]
    assert "499=v499, 500=v500, 501=v501" in line
    assert "v502" not in line


def test_a_reader_that_sought_may_go_back() -> None:
    history = also(
        Polled(3.0, "reader", COMMITTED, "records", 0, ((0, "a1"), (1, "a2"))),
        Repositioned(3.1, "reader", "records", 0),
        Polled(3.2, "reader", COMMITTED, "records", 0, ((0, "a1"),)),
        at=20,
    )(right())
    assert judge(history, LIMITS) == []


def test_a_commit_whose_answer_was_lost_may_still_arrive() -> None:
    """It sets the position back, which no broker can tell from a commit that was meant so."""
    back = replaced(
        Polled(5.25, "heir", COMMITTED, "inputs", 0, ((1, "i2"),)),
        Polled(5.25, "heir", COMMITTED, "inputs", 0, ((0, "i1"), (1, "i2"))),
    )
    lost = Commit(5.22, 5.2, "member", "readers", "inputs", 0, 0, "unknown")
    assert {one.anomaly for one in judge(back, LIMITS)} == {Anomaly.POSITION_LOST}
    assert judge([lost, *back], LIMITS) == []
    long_ago = Commit(-99.0, -100.0, "member", "readers", "inputs", 0, 0, "unknown")
    assert {one.anomaly for one in judge([long_ago, *back], LIMITS)} == {Anomaly.POSITION_LOST}


def test_a_commit_that_set_the_position_back_holds_until_the_next() -> None:
    """However long that takes: nobody stored anything since."""
    lost = Commit(5.22, 5.2, "member", "readers", "inputs", 0, 0, "unknown")
    changes = [
        changed(
            Assigned(5.24, "heir", "readers", "inputs", 0), Assigned(95.24, "heir", "readers", "inputs", 0)
        ),
        changed(
            Polled(5.25, "heir", COMMITTED, "inputs", 0, ((1, "i2"),)),
            Polled(95.25, "heir", COMMITTED, "inputs", 0, ((0, "i1"), (1, "i2"))),
        ),
        changed(
            Commit(5.27, 5.26, "heir", "readers", "inputs", 0, 2, "stored"),
            Commit(95.27, 95.26, "heir", "readers", "inputs", 0, 2, "stored"),
        ),
        changed(
            Position(51.0, "readers", "inputs", 0, 2, transforms=False),
            Position(96.0, "readers", "inputs", 0, 2, transforms=False),
        ),
    ]
    history: History = right()
    for change in changes:
        history = change(history)
    assert {one.anomaly for one in judge(history, LIMITS)} == {Anomaly.POSITION_LOST}
    assert judge([lost, *history], LIMITS) == []


def test_a_commit_that_was_asked_for_twice_may_arrive_twice() -> None:
    """A client that heard nothing asks again; what it asked first may come after what it asked last."""
    back = replaced(
        Polled(5.25, "heir", COMMITTED, "inputs", 0, ((1, "i2"),)),
        Polled(5.25, "heir", COMMITTED, "inputs", 0, ((0, "i1"), (1, "i2"))),
    )
    slow = Commit(5.2, -0.8, "member", "readers", "inputs", 0, 0, "stored")
    quick = Commit(5.2, 5.1, "member", "readers", "inputs", 0, 0, "stored")
    assert judge([slow, *back], LIMITS) == []
    assert {one.anomaly for one in judge([quick, *back], LIMITS)} == {Anomaly.POSITION_LOST}


def test_what_a_former_owner_asked_for_excuses_nothing_once_another_has_stored() -> None:
    """A group refuses it: the position that is lost is lost."""
    lost = Commit(5.22, 5.2, "member", "readers", "inputs", 0, 0, "unknown")
    again = also(
        Assigned(60.0, "third", "readers", "inputs", 0),
        Polled(60.1, "third", COMMITTED, "inputs", 0, ((0, "i1"), (1, "i2"))),
    )(right())
    assert {one.anomaly for one in judge([lost, *again], LIMITS)} == {Anomaly.POSITION_LOST}


def test_what_lies_above_the_last_stable_offset_is_not_lost() -> None:
    """It is stored and cannot be seen yet: that the last stable offset stands still is the only finding."""
    end = 2
    changes = [
        changed(Stable(5.3, "records", 0, 7, 8), Stable(5.3, "records", 0, end, 8)),
        changed(Stable(49.0, "records", 0, 9, 9), Stable(49.0, "records", 0, end, 9)),
        changed(
            Drained(50.0, "final", COMMITTED, "records", 0, 0, 9),
            Drained(50.0, "final", COMMITTED, "records", 0, 0, end),
        ),
        missed("final", "b1"),
        missed("final", "b2"),
    ]
    history: History = right()
    for change in changes:
        history = change(history)
    assert {one.anomaly for one in judge(history, LIMITS)} == {Anomaly.STUCK}
    beyond = changed(
        Drained(50.0, "final", COMMITTED, "records", 0, 0, end),
        Drained(50.0, "final", COMMITTED, "records", 0, 0, 9),
    )(history)
    assert {one.anomaly for one in judge(beyond, LIMITS)} == {Anomaly.LOST, Anomaly.STUCK}


def test_time_in_which_nobody_asks_is_no_outage() -> None:
    """A group that takes its time once all writers are done, for one."""
    late = also(Polled(500.0, "slow", COMMITTED, "inputs", 0, ((0, "i1"), (1, "i2"))))(right())
    assert judge(late, LIMITS) == []


def test_a_record_that_is_read_before_its_producer_hears_of_it_is_waited_for_by_nobody() -> None:
    late = also(
        Sent(52.0, "plain", "other", 0, "f1"),
        *(Polled(52.1, f"{one} other", one, "other", 0, ((0, "f1"),)) for one in (COMMITTED, UNCOMMITTED)),
        Acked(52.2, "plain", "f1", 0),
        Sent(500.0, "plain", "other", 0, "f2"),
        *(Polled(500.1, f"{one} other", one, "other", 0, ((1, "f2"),)) for one in (COMMITTED, UNCOMMITTED)),
        Acked(500.2, "plain", "f2", 1),
    )(right())
    assert judge(late, LIMITS) == []


def test_what_is_unavailable_is_named() -> None:
    """And nothing else is: the other partition, the other readers and the commits go on."""
    broken = {what: break_it(right()) for anomaly, what, break_it in BROKEN if anomaly is Anomaly.UNAVAILABLE}
    told = {what: [one.why.partition(" (")[0] for one in judge(broken[what], LIMITS)] for what in broken}
    assert told["one partition takes nothing, the others do"] == [
        "for 78.0 s no record was acknowledged in other-1"
    ]
    assert told["each life takes the id and aborts, none commits"] == [
        "for 78.0 s no transaction was committed"
    ]
    for isolation in (COMMITTED, UNCOMMITTED):
        assert told[f"{isolation} readers are handed nothing, the others are"] == [
            f"for 78.0 s no record was handed out to {isolation} readers of other-0"
        ]


def test_what_went_back_is_told_once() -> None:
    back = also(
        *(Stable(at, "records", 0, 4, 9) for at in (52.0, 53.0, 54.0)), Stable(55.0, "records", 0, 9, 9)
    )
    (found,) = judge(back(right()), LIMITS)
    assert found.why == "the last stable offset of records-0 was 9, and then 4"


def test_what_failed_for_certain_in_a_transaction_may_lie_there_unseen() -> None:
    """Nobody sees it, and its transaction is aborted: a batch may have been stored before the client gave it up."""
    failed = Failed(2.45, "first", "c1", True, "the transaction was aborted")
    assert judge(also(failed, at=13)(right()), LIMITS) == []


def test_a_transaction_whose_end_nobody_was_told_is_visible_or_not() -> None:
    unknown = replaced(Ended(2.3, "first", 1, "committed"), Ended(2.3, "first", 1, "unknown"))
    assert judge(unknown, LIMITS) == []
    unseen = missed("final", "b1")(missed("final", "b2")(unknown))
    assert judge(unseen, LIMITS) == []


def test_a_history_that_was_not_read_to_its_end_proves_nothing() -> None:
    assert unread(right()) == []
    history = [
        event for event in right() if not (isinstance(event, Drained) and event.process == "final raw")
    ]
    assert unread(history) == [("records", 0), ("inputs", 0), ("outputs", 0)]


def test_an_owner_that_gets_its_partition_back_stores_again() -> None:
    again = also(
        Assigned(60.0, "member", "readers", "inputs", 0),
        Commit(62.0, 61.0, "member", "readers", "inputs", 0, 2, "stored"),
    )(right())
    assert judge(again, LIMITS) == []


def test_tasks_of_spark_may_write_again_what_was_not_committed() -> None:
    """Nobody says that it sent their records; a copy that is not committed is no copy, one that is committed is one."""
    value = "output of i2 by spark:0"
    moved = replaced(Position(51.0, "group", "inputs", 0, 1), Position(51.0, "group", "inputs", 0, 2))
    once = handed("final", COMMITTED, (4, value), topic="outputs")
    twice = handed("final raw", UNCOMMITTED, (2, value), (4, value), topic="outputs")
    assert judge(twice(once(moved)), LIMITS) == []
    both = handed("final", COMMITTED, (2, value), (4, value), topic="outputs")
    assert {one.anomaly for one in judge(twice(both(moved)), LIMITS)} == {Anomaly.DUPLICATE}


def test_time_in_which_nobody_could_answer_is_excused() -> None:
    late = also(
        Fault(55.0, 170.0, "the broker stands still", blocks=True),
        Sent(52.0, "plain", "other", 0, "f1"),
        Acked(180.0, "plain", "f1", 0),
    )(right())
    assert judge(late, LIMITS) == []


def test_a_history_survives_its_file() -> None:
    history = right()
    assert list(from_lines(to_lines(history))) == history


def test_rounds_follow_each_other_in_a_file() -> None:
    """Each is a history of its own: they name their lives and values alike."""
    first, second = [Began(0.0, 0), *right()], [Began(60.0, 1), *right()]
    assert list(rounds_of(from_lines(to_lines([*first, *second])))) == [first, second]
    assert list(rounds_of(right())) == [right()], "one without a beginning, kept before there were any"
    assert list(rounds_of([])) == []


@pytest.mark.parametrize("line", ["", "[]", '{"event": "Nothing"}', '{"event": "Sent", "at": 1}', "{"])
def test_a_file_that_holds_something_else_says_where(line: str) -> None:
    good = list(to_lines(right()))[:2]
    with pytest.raises(HistoryError, match="line 3 is not an event"):
        list(from_lines([*good, line]))


@pytest.mark.parametrize("seed", range(20))
def test_histories_of_a_perfect_log_are_right(seed: int) -> None:
    """Property: whatever many producers do to a log that keeps every promise, nothing is found."""
    dice = random.Random(seed)
    history: History = []
    log: list[tuple[str | None, bool]] = []
    now = 0.0
    for number in range(dice.randint(1, 40)):
        process = f"p{dice.randint(0, 3)}"
        transaction = number if dice.random() < 0.6 else None
        commits = transaction is None or dice.random() < 0.6
        for part in range(dice.randint(1, 4)):
            now += dice.random()
            value = f"{process}:{number}:{part}"
            history.append(Sent(now, process, "records", 0, value, transaction))
            history.append(Acked(now, process, value, len(log)))
            log.append((value, commits))
        if transaction is not None:
            if commits:
                history.append(Deciding(now, process, transaction))
            known: Outcome = "committed" if commits else "aborted"
            if not commits or dice.random() < 0.6:
                history.append(Ended(now, process, transaction, known))
            elif dice.random() < 0.5:
                history.append(Ended(now, process, transaction, "unknown"))
            log.append((None, commits))
    held = {offset: value for offset, (value, _) in enumerate(log) if value is not None}
    committed = {offset: value for offset, value in held.items() if log[offset][1]}
    history += reading("final", COMMITTED, "records", committed, len(log), now)
    history += reading("final raw", UNCOMMITTED, "records", held, len(log), now)
    assert judge(history, PATIENT) == []


def test_the_judge_tests_itself() -> None:
    found = self_test()
    assert len(found) == len(BROKEN) + 1
    assert all(is_found for _, _, is_found in found)

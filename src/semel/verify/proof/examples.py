"""Histories written by hand: one in which every promise is kept, and the least change of it that breaks each.

Role.   `semel verify --self-test` and the tests of `judge` see that every anomaly is found, and that nothing is found where
        nothing is wrong. A judge that never finds anything fails all but the first.
Rules.  * Pure. `BROKEN` has at least one change for every `Anomaly`.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from semel.verify.history.events import (
    COMMITTED,
    UNCOMMITTED,
    Acked,
    Assigned,
    ClientEvent,
    Commit,
    Deciding,
    Drained,
    Ended,
    Failed,
    Fault,
    Isolation,
    Polled,
    Position,
    Sent,
    Stable,
    Took,
    Unfinished,
)
from semel.verify.proof.anomalies import Anomaly
from semel.verify.proof.judge import Limits, judge

LIMITS: Final = Limits(unavailable_seconds=60)
"""The limits that the histories below keep to."""

_LAST_READING: Final = 34
"""Where in the history below the last readers begin."""

History = list[ClientEvent]


def reading(
    process: str, isolation: Isolation, topic: str, values: dict[int, str], end: int, at: float = 50.0
) -> History:
    """A reader that is handed everything in two polls and has then drained the partition."""
    records = tuple(values.items())
    half = len(records) // 2
    parts = [part for part in (records[:half], records[half:]) if part]
    return [
        *(Polled(at, process, isolation, topic, 0, part) for part in parts),
        Drained(at, process, isolation, topic, 0, 0, end),
    ]


def right() -> History:
    """Plain writes, a committed and an aborted transaction, an abandoned one, a transformer, a group; all as promised.

    Offsets of "records": a1 a2 | b1 b2 commit(4) | c1 abort(6) | d1 abort(8); of "inputs": i1 i2; of "outputs": o1 marker.
    """
    held = {0: "a1", 1: "a2", 2: "b1", 3: "b2", 5: "c1", 7: "d1"}
    committed = {0: "a1", 1: "a2", 2: "b1", 3: "b2"}
    return [
        Sent(1.0, "plain", "records", 0, "a1"),
        Sent(1.1, "plain", "records", 0, "a2"),
        Acked(1.2, "plain", "a1", 0),
        Acked(1.3, "plain", "a2", 1),
        Sent(1.4, "plain", "records", 0, "a3"),
        Failed(1.5, "plain", "a3", True, "too large"),
        Took(2.0, "first", "id"),
        Sent(2.1, "first", "records", 0, "b1", 1),
        Sent(2.1, "first", "records", 0, "b2", 1),
        Deciding(2.2, "first", 1),
        Acked(2.2, "first", "b1", 2),
        Ended(2.3, "first", 1, "committed"),
        Sent(2.4, "first", "records", 0, "c1", 2),
        Ended(2.5, "first", 2, "aborted"),
        Sent(2.6, "first", "records", 0, "d1", 3),
        Fault(2.7, 3.7, "the broker was killed", blocks=True),
        Took(4.0, "second", "id"),
        Sent(4.1, "filler", "inputs", 0, "i1"),
        Acked(4.2, "filler", "i1", 0),
        Sent(4.3, "filler", "inputs", 0, "i2"),
        Acked(4.4, "filler", "i2", 1),
        Took(4.5, "worker", "worker id"),
        Sent(5.0, "worker", "outputs", 0, "output of i1 by worker:1", 1),
        Deciding(5.1, "worker", 1),
        Ended(5.2, "worker", 1, "committed"),
        Assigned(5.21, "member", "readers", "inputs", 0),
        Polled(5.22, "member", COMMITTED, "inputs", 0, ((0, "i1"),)),
        Commit(5.23, 5.22, "member", "readers", "inputs", 0, 1, "stored"),
        Assigned(5.24, "heir", "readers", "inputs", 0),
        Polled(5.25, "heir", COMMITTED, "inputs", 0, ((1, "i2"),)),
        Commit(5.26, 5.25, "member", "readers", "inputs", 0, 1, "refused"),
        Commit(5.27, 5.26, "heir", "readers", "inputs", 0, 2, "stored"),
        Stable(5.3, "records", 0, 7, 8),
        Stable(49.0, "records", 0, 9, 9),
        *reading("final", COMMITTED, "records", committed, 9),
        *reading("final raw", UNCOMMITTED, "records", held, 9),
        *reading("final", COMMITTED, "inputs", {0: "i1", 1: "i2"}, 2),
        *reading("final raw", UNCOMMITTED, "inputs", {0: "i1", 1: "i2"}, 2),
        *reading("final", COMMITTED, "outputs", {0: "output of i1 by worker:1"}, 2),
        *reading("final raw", UNCOMMITTED, "outputs", {0: "output of i1 by worker:1"}, 2),
        Position(51.0, "group", "inputs", 0, 1),
        Position(51.0, "readers", "inputs", 0, 2, transforms=False),
    ]


def without(values: set[str]) -> Callable[[History], History]:
    """Nobody is handed these any more."""

    def change(history: History) -> History:
        return [
            replace(event, records=tuple(one for one in event.records if one[1] not in values))
            if isinstance(event, Polled)
            else event
            for event in history
        ]

    return change


def missed(process: str, value: str) -> Callable[[History], History]:
    """One reader is not handed it."""

    def change(history: History) -> History:
        return [
            replace(event, records=tuple(one for one in event.records if one[1] != value))
            if isinstance(event, Polled) and event.process == process
            else event
            for event in history
        ]

    return change


def handed(
    process: str, isolation: Isolation, *records: tuple[int, str], topic: str = "records"
) -> Callable[[History], History]:
    """A reader is handed these as well, before it has drained the partition."""

    def change(history: History) -> History:
        place = next(
            place
            for place, event in enumerate(history)
            if isinstance(event, Drained) and (event.process, event.topic) == (process, topic)
        )
        return [
            *history[:place],
            Polled(50.0, process, isolation, topic, 0, records),
            *history[place:],
        ]

    return change


def changed(old: ClientEvent, new: ClientEvent) -> Callable[[History], History]:
    def change(history: History) -> History:
        assert old in history
        return [new if event == old else event for event in history]

    return change


def also(*events: ClientEvent, at: int | None = None) -> Callable[[History], History]:
    def change(history: History) -> History:
        place = len(history) if at is None else at
        return [*history[:place], *events, *history[place:]]

    return change


def both(*changes: Callable[[History], History]) -> Callable[[History], History]:
    def change(history: History) -> History:
        for one in changes:
            history = one(history)
        return history

    return change


_BOTH: Final[tuple[tuple[Isolation, Isolation], ...]] = (
    (COMMITTED, UNCOMMITTED),
    (UNCOMMITTED, COMMITTED),
)


def _written_and_read(at: float, value: str, *isolations: Isolation) -> History:
    """A record of another topic, handed to readers of these isolations."""
    offset = int(at)
    return [
        Sent(at, "plain", "other", 0, value),
        Acked(at, "plain", value, offset),
        *(Polled(at, f"{one} other", one, "other", 0, ((offset, value),)) for one in isolations),
    ]


BROKEN: Final[list[tuple[Anomaly, str, Callable[[History], History]]]] = [
    (Anomaly.LOST, "an acknowledged record is nowhere", without({"a2"})),
    (Anomaly.LOST, "a committed transaction is nowhere", without({"b1", "b2"})),
    (
        Anomaly.LOST,
        "it was read, and then it was gone",
        both(
            without({"a2"}),
            also(Polled(3.0, "reader", COMMITTED, "records", 0, ((0, "a1"), (1, "a2"))), at=17),
        ),
    ),
    (
        Anomaly.LOST,
        "nobody was told of it, but it was read, and then it was gone",
        both(
            changed(Acked(1.3, "plain", "a2", 1), Failed(1.3, "plain", "a2", False, "it may be stored")),
            without({"a2"}),
            also(Polled(3.0, "reader", UNCOMMITTED, "records", 0, ((0, "a1"), (1, "a2"))), at=17),
        ),
    ),
    (
        Anomaly.LOST,
        "a transaction whose end nobody was told was read, and then it was gone",
        both(
            changed(Ended(2.3, "first", 1, "committed"), Ended(2.3, "first", 1, "unknown")),
            without({"b1", "b2"}),
            also(Polled(3.0, "reader", COMMITTED, "records", 0, ((2, "b1"), (3, "b2"))), at=17),
        ),
    ),
    (
        Anomaly.LOST,
        "it lies in another partition",
        changed(Sent(1.1, "plain", "records", 0, "a2"), Sent(1.1, "plain", "inputs", 0, "a2")),
    ),
    (Anomaly.DUPLICATE, "a retry is stored again", handed("final raw", UNCOMMITTED, (8, "a1"))),
    (
        Anomaly.REORDERED,
        "the second lies before the first",
        both(
            without({"a1", "a2"}),
            changed(Acked(1.2, "plain", "a1", 0), Acked(1.2, "plain", "a1", -1)),
            changed(Acked(1.3, "plain", "a2", 1), Acked(1.3, "plain", "a2", -1)),
            handed("final", COMMITTED, (10, "a2"), (11, "a1")),
            handed("final raw", UNCOMMITTED, (10, "a2"), (11, "a1")),
        ),
    ),
    (Anomaly.PHANTOM, "what was refused is stored", handed("final raw", UNCOMMITTED, (9, "a3"))),
    (
        Anomaly.PHANTOM,
        "what was refused in a transaction is committed with it",
        changed(Acked(2.2, "first", "b1", 2), Failed(2.2, "first", "b1", True, "too large")),
    ),
    (Anomaly.PHANTOM, "nobody sent it", handed("final raw", UNCOMMITTED, (9, "z1"))),
    (
        Anomaly.PHANTOM,
        "nobody sent what it is the output of",
        handed("final raw", UNCOMMITTED, (3, "output of z1 by spark:1"), topic="outputs"),
    ),
    (
        Anomaly.PHANTOM,
        "it was sent elsewhere",
        changed(Sent(1.1, "plain", "records", 0, "a2"), Sent(1.1, "plain", "records", 1, "a2")),
    ),
    (Anomaly.ABORTED_READ, "an aborted record is handed out", handed("final", COMMITTED, (5, "c1"))),
    (
        Anomaly.ABORTED_READ,
        "a record of a transaction nobody committed",
        handed("final", COMMITTED, (7, "d1")),
    ),
    (
        Anomaly.ABORTED_READ,
        "a committed record is handed out before anybody asked to commit it",
        also(Polled(2.15, "reader", COMMITTED, "records", 0, ((2, "b1"),)), at=9),
    ),
    (Anomaly.TORN, "half of a transaction", without({"b2"})),
    (
        Anomaly.TORN,
        "half of one whose end nobody knows",
        both(
            changed(Ended(2.3, "first", 1, "committed"), Ended(2.3, "first", 1, "unknown")), without({"b1"})
        ),
    ),
    (
        Anomaly.INCONSISTENT,
        "two readers differ",
        also(Polled(3.0, "reader", UNCOMMITTED, "records", 0, ((0, "z9"),)), at=20),
    ),
    (
        Anomaly.INCONSISTENT,
        "the producer was told another offset",
        changed(Acked(1.3, "plain", "a2", 1), Acked(1.3, "plain", "a2", 2)),
    ),
    (
        Anomaly.INCONSISTENT,
        "the producer was told an offset at which nothing lies",
        changed(Acked(1.3, "plain", "a2", 1), Acked(1.3, "plain", "a2", 100)),
    ),
    (
        Anomaly.INCONSISTENT,
        "two producers were told the same offset",
        changed(Acked(4.4, "filler", "i2", 1), Acked(4.4, "filler", "i2", 0)),
    ),
    (
        Anomaly.NON_MONOTONIC,
        "a poll goes back",
        also(
            Polled(3.0, "reader", COMMITTED, "records", 0, ((0, "a1"), (1, "a2"))),
            Polled(3.1, "reader", COMMITTED, "records", 0, ((1, "a2"),)),
            at=20,
        ),
    ),
    (
        Anomaly.SKIPPED,
        "a reader that read along misses a record",
        also(
            Polled(49.5, "reader", COMMITTED, "records", 0, ((0, "a1"), (2, "b1"), (3, "b2"))),
            Drained(49.5, "reader", COMMITTED, "records", 0, 0, 9),
            at=_LAST_READING,
        ),
    ),
    (
        Anomaly.SKIPPED,
        "readers of committed records miss what is in no transaction",
        both(
            changed(Acked(1.3, "plain", "a2", 1), Failed(1.3, "plain", "a2", False, "it may be stored")),
            missed("final", "a2"),
        ),
    ),
    (Anomaly.SKIPPED, "the reader of everything misses a committed record", missed("final raw", "b1")),
    (
        Anomaly.DUPLICATE,
        "an input is transformed twice",
        both(
            also(
                Sent(5.3, "worker", "outputs", 0, "output of i1 by worker:2", 2),
                Deciding(5.4, "worker", 2),
                Ended(5.5, "worker", 2, "committed"),
                at=25,
            ),
            handed("final", COMMITTED, (2, "output of i1 by worker:2"), topic="outputs"),
            handed("final raw", UNCOMMITTED, (2, "output of i1 by worker:2"), topic="outputs"),
        ),
    ),
    (
        Anomaly.OFFSET_WITHOUT_OUTPUT,
        "the position is stored, its output is not",
        changed(Position(51.0, "group", "inputs", 0, 1), Position(51.0, "group", "inputs", 0, 2)),
    ),
    (
        Anomaly.OUTPUT_WITHOUT_OFFSET,
        "the output is stored, its position is not",
        changed(Position(51.0, "group", "inputs", 0, 1), Position(51.0, "group", "inputs", 0, 0)),
    ),
    (
        Anomaly.ZOMBIE,
        "it writes after it was replaced",
        both(
            also(
                Sent(4.6, "first", "records", 0, "e1", 4),
                Deciding(4.7, "first", 4),
                Ended(4.8, "first", 4, "unknown"),
                at=22,
            ),
            handed("final", COMMITTED, (9, "e1")),
            handed("final raw", UNCOMMITTED, (9, "e1")),
        ),
    ),
    (
        Anomaly.ZOMBIE,
        "its record is stored, though nobody committed it",
        both(
            also(Sent(4.6, "first", "records", 0, "e1", 4), at=22),
            handed("final raw", UNCOMMITTED, (9, "e1")),
        ),
    ),
    (
        Anomaly.ZOMBIE,
        "it commits after it was replaced",
        both(
            also(Deciding(4.7, "first", 3), Ended(4.8, "first", 3, "unknown"), at=22),
            handed("final", COMMITTED, (7, "d1")),
        ),
    ),
    (
        Anomaly.POSITION_LOST,
        "in the end it is below what was stored",
        changed(
            Position(51.0, "readers", "inputs", 0, 2, transforms=False),
            Position(51.0, "readers", "inputs", 0, 1, transforms=False),
        ),
    ),
    (
        Anomaly.POSITION_LOST,
        "an owner begins below what was stored",
        changed(
            Polled(5.25, "heir", COMMITTED, "inputs", 0, ((1, "i2"),)),
            Polled(5.25, "heir", COMMITTED, "inputs", 0, ((0, "i1"), (1, "i2"))),
        ),
    ),
    (
        Anomaly.UNREAD,
        "the group goes on, a record was handed to nobody",
        changed(
            Polled(5.25, "heir", COMMITTED, "inputs", 0, ((1, "i2"),)),
            Polled(5.25, "heir", COMMITTED, "inputs", 0, ()),
        ),
    ),
    (
        Anomaly.FORMER_OWNER,
        "who was taken for dead stores its position",
        changed(
            Commit(5.26, 5.25, "member", "readers", "inputs", 0, 1, "refused"),
            Commit(5.26, 5.25, "member", "readers", "inputs", 0, 1, "stored"),
        ),
    ),
    (
        Anomaly.GROUP_STUCK,
        "nobody reads on",
        also(Unfinished(112.0, "readers", "inputs", 0, 1, 2)),
    ),
    (
        Anomaly.WENT_BACK,
        "a last stable offset that was told before",
        also(Stable(52.0, "records", 0, 4, 9), Stable(53.0, "records", 0, 9, 9)),
    ),
    (
        Anomaly.WENT_BACK,
        "the end of a log that was told before",
        also(Stable(52.0, "records", 0, 9, 12), Stable(53.0, "records", 0, 9, 9)),
    ),
    (Anomaly.STUCK, "for longer than anything may take", also(Stable(200.0, "records", 0, 9, 12))),
    (
        Anomaly.STUCK,
        "and then it went on",
        also(
            Stable(60.0, "records", 0, 9, 12),
            Stable(200.0, "records", 0, 9, 14),
            Stable(210.0, "records", 0, 14, 14),
        ),
    ),
    (
        Anomaly.UNAVAILABLE,
        "nothing for two minutes",
        also(Sent(52.0, "plain", "other", 0, "f1"), Acked(180.0, "plain", "f1", 0)),
    ),
    (
        Anomaly.UNAVAILABLE,
        "for good",
        also(*(Sent(at, "plain", "other", 0, f"f{at}") for at in (52.0, 90.0, 130.0))),
    ),
    (
        Anomaly.UNAVAILABLE,
        "records are written, transactions do not end",
        also(
            *(
                event
                for at in (52.0, 90.0, 130.0)
                for event in (
                    Sent(at, "first", "other", 0, f"in {at}", int(at)),
                    Sent(at, "plain", "other", 0, f"out {at}"),
                    Acked(at, "plain", f"out {at}", int(at)),
                    Polled(at, "other", UNCOMMITTED, "other", 0, ((int(at), f"out {at}"),)),
                )
            ),
        ),
    ),
    (
        Anomaly.UNAVAILABLE,
        "records are written, nobody can read them",
        also(
            *(
                event
                for at in (52.0, 90.0, 130.0)
                for event in (Sent(at, "plain", "other", 0, f"f{at}"), Acked(at, "plain", f"f{at}", int(at)))
            ),
        ),
    ),
    (
        Anomaly.UNAVAILABLE,
        "one partition takes nothing, the others do",
        also(
            *(
                event
                for at in (52.0, 90.0, 130.0)
                for event in (
                    Sent(at, "plain", "other", 1, f"waits {at}"),
                    *_written_and_read(at, f"f{at}", COMMITTED, UNCOMMITTED),
                )
            ),
        ),
    ),
    (
        Anomaly.UNAVAILABLE,
        "each life takes the id and aborts, none commits",
        also(
            *(
                event
                for number, at in enumerate((52.0, 70.0, 90.0, 130.0))
                for event in (
                    Took(at, f"life {number}", "another id"),
                    Deciding(at + 1, f"life {number}", 1),
                    Ended(at + 2, f"life {number}", 1, "unknown" if number % 2 else "aborted"),
                )
            ),
        ),
    ),
    *(
        (
            Anomaly.UNAVAILABLE,
            f"{starving} readers are handed nothing, the others are",
            also(*(event for at in (52.0, 90.0, 130.0) for event in _written_and_read(at, f"f{at}", served))),
        )
        for starving, served in _BOTH
    ),
]


def self_test() -> list[tuple[str, str, bool]]:
    """Per history: its subject, the anomaly it holds, and whether `judge` finds it."""
    kept = [("every promise is kept", "nothing", judge(right(), LIMITS) == [])]
    return kept + [
        (what, anomaly.value, anomaly in {one.anomaly for one in judge(break_it(right()), LIMITS)})
        for anomaly, what, break_it in BROKEN
    ]

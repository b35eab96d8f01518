"""What a proof says of itself while it runs: numbers that add up over rounds, in one line.

Method: a stage written by hand, looked at again and again; the command's own line, on a terminal and not on one.
"""

import io
import sys

import pytest

from semel.cli.progress import Progress
from semel.cli.verify import PLAIN_SECONDS, WATCHED_SECONDS, _progress
from semel.verify.history.events import COMMITTED, Acked, Ended, Fault, Polled, Sent
from semel.verify.proof.programs import Stage
from semel.verify.proof.progress import Standing


class Clock:
    """Says what it is told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def stage_at(clock: Clock) -> Stage:
    return Stage({}, "run", clock, 60.0, 1, 0.01, 1000)


def test_every_event_is_counted_once_over_many_looks_and_rounds() -> None:
    clock = Clock()
    standing = Standing(3600)
    first, second = stage_at(clock), stage_at(clock)
    assert standing.line(first, "") == "    0 s of 3600: 0 acknowledged, 0 transactions, 0 read, 0 faults", (
        "nothing yet"
    )
    for offset in range(1500):
        first.history += [Sent(1.0, "p", "t", 0, f"{offset}"), Acked(1.0, "p", f"{offset}", offset)]
    first.history += [
        Ended(2.0, "p", 1, "committed"),
        Ended(2.0, "p", 2, "aborted"),
        Ended(2.0, "p", 3, "unknown"),
        Polled(2.0, "r", COMMITTED, "t", 0, ((0, "0"), (1, "1"))),
        Fault(2.0, 3.0, "the disk slow"),
    ]
    clock.now = 75.4
    told = "   75 s of 3600: 1,500 acknowledged, 1 transactions, 2 read, 1 faults"
    assert standing.line(first, "") == standing.line(first, "") == told
    second.history += [Acked(80.0, "p", "0", 0), Fault(80.0, 81.0, "the disk full")]
    second.doing = "the disk is full"
    clock.now = 82.0
    more = "   82 s of 3600: 1,501 acknowledged, 1 transactions, 2 read, 2 faults"
    assert standing.line(second, "") == f"{more}; the disk is full"
    assert standing.line(second, "calm") == f"{more}; calm", "news come first"


class Terminal(io.StringIO):
    def __init__(self, *, is_one: bool) -> None:
        super().__init__()
        self._is_one = is_one

    def isatty(self) -> bool:
        return self._is_one


@pytest.mark.parametrize(
    ("is_terminal", "every_seconds", "before", "after"),
    [(True, 0.5, "\r\x1b[2K", ""), (False, 5.0, "", "\n")],
)
def test_the_command_shows_it_now_and_then_and_news_at_once(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, every_seconds: float, before: str, after: str
) -> None:
    screen = Terminal(is_one=is_terminal)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    clock = Clock()
    bar = Progress(plain_seconds=PLAIN_SECONDS, watched_seconds=WATCHED_SECONDS, now=lambda: clock.now)
    stage, show = stage_at(clock), _progress(60, bar)

    def shown(what: str) -> str:
        screen.seek(0)
        screen.truncate()
        show(stage, what)
        return screen.getvalue()

    def line(second: int, news: str = "") -> str:
        counted = "0 acknowledged, 0 transactions, 0 read, 0 faults"
        return f"{before}{second:5} s of 60: {counted}{news}{after}"

    assert shown("") == line(0)
    clock.now = every_seconds * 0.9
    assert shown("") == "", "not yet"
    clock.now = 10.0
    assert shown("") == line(10)
    assert shown("calm") == line(10, "; calm")

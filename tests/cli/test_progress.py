"""Progress: written over where a person watches, a line now and then elsewhere, and nothing left behind.

Method: standard error as a terminal or a pipe, a clock that is set by hand.
"""

import pytest

from semel.cli import progress
from semel.cli.progress import Progress


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_pipe_gets_lines_now_and_then(capsys: pytest.CaptureFixture[str], clock: Clock) -> None:
    with Progress(plain_seconds=5.0, now=clock) as bar:
        for second in range(12):
            clock.now_s = float(second)
            bar.show(lambda: f"{clock.now_s:.0f}")
        bar.show("news", news=True)
        bar.show("news", news=True)  # The same again is none.
    assert capsys.readouterr().err == "0\n5\n10\nnews\n"


def test_a_pipe_gets_nothing_where_only_a_person_wants_it(
    capsys: pytest.CaptureFixture[str], clock: Clock
) -> None:
    with Progress(now=clock) as bar:
        bar.show("hidden")
    assert capsys.readouterr().err == ""


def test_a_terminal_is_written_over_and_cleared(
    capsys: pytest.CaptureFixture[str], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "is_watched", lambda _stream: True)
    monkeypatch.setenv("COLUMNS", "10")
    with Progress(now=clock) as bar:
        bar.show("one")
        bar.show("too soon")
        clock.now_s = 1.0
        bar.show("a line too long for it")
    over = "\r\x1b[2K"
    assert capsys.readouterr().err == f"{over}one{over}a line t…{over}"
    with Progress(now=clock) as bar:
        bar.show("kept")
        bar.end(keep=True)
    assert capsys.readouterr().err == f"{over}kept\n"

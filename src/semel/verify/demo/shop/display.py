"""Progress for people: a panel that is drawn over itself in a terminal, lines in a log.

Role.   `display_for` chooses. Both show the same: how far the till and the pipeline are, how fast, what was done to them.
Rules.  * Rendering is pure (`panel_lines`, `log_line`); only `Panel` and `Log` write.
        * A terminal that is narrow gets shorter lines, never broken ones; a terminal without block letters gets plain ones.
        * `NO_COLOR` and `TERM=dumb` are heeded.
"""

import os
import shutil
from collections.abc import Mapping
from typing import Final, Protocol, Self, TextIO

from semel.runtime.terminal import is_colored, is_watched
from semel.verify.demo.shop.timeline import BROKER, DRIVER, TILL, Timeline

_BAR_MAX: Final = 40
_HAPPENINGS: Final = 6
_LOG_SECONDS: Final = 5.0
_TITLE: Final = "Semel: a shop's orders, each counted once"
_SPARKS: Final = " ▁▂▃▄▅▆▇█"
_PLAIN_SPARKS: Final = " .:-=+*#@"
_RED, _GREEN, _BOLD, _DIM, _OFF = "\x1b[31m", "\x1b[32m", "\x1b[1m", "\x1b[2m", "\x1b[0m"


class Display(Protocol):
    """Where progress goes."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...

    def show(self, timeline: Timeline, states: Mapping[str, str]) -> None:
        """Called a few times a second."""


def display_for(stream: TextIO, environment: Mapping[str, str] = os.environ) -> Display:
    """A panel where it can be drawn, else lines."""
    if not is_watched(stream, environment):
        return Log(stream)
    return Panel(stream, colored=is_colored(stream, environment))


class Panel:
    """Draws over itself; the last drawing stays."""

    def __init__(self, stream: TextIO, *, colored: bool) -> None:
        self._stream = stream
        self._colored = colored
        self._blocks = _can_write(stream, _SPARKS + "█·")
        self._drawn = 0

    def __enter__(self) -> Self:
        self._stream.write("\x1b[?25l")  # No cursor while it is drawn.
        return self

    def __exit__(self, *exc: object) -> None:
        self._stream.write("\x1b[?25h")
        self._stream.flush()

    def show(self, timeline: Timeline, states: Mapping[str, str]) -> None:
        size = shutil.get_terminal_size()
        lines = panel_lines(timeline, states, width=size.columns - 1, blocks=self._blocks)[: size.lines - 1]
        back = f"\x1b[{self._drawn}F" if self._drawn else ""
        drawn = "".join(f"\x1b[2K{self._paint(line)}\n" for line in lines)
        self._stream.write(back + drawn + "\x1b[J")
        self._stream.flush()
        self._drawn = len(lines)

    def _paint(self, line: str) -> str:
        if not self._colored:
            return line
        color = (
            _BOLD
            if line.startswith(_TITLE[:5])
            else _RED
            if "kill -9:" in line or "by itself" in line
            else _GREEN
            if "again after" in line
            else ""
        )
        return f"{color}{line}{_OFF}" if color else line


class Log:
    """A line for everything that happens, and one every few seconds."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._told = 0
        self._next_seconds = _LOG_SECONDS

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stream.flush()

    def show(self, timeline: Timeline, states: Mapping[str, str]) -> None:
        for seconds, what in timeline.happenings[self._told :]:
            self._stream.write(f"{seconds:6.1f} s  {what}\n")
        self._told = len(timeline.happenings)
        if timeline.last.seconds >= self._next_seconds:
            self._next_seconds = timeline.last.seconds + _LOG_SECONDS
            self._stream.write(log_line(timeline, states) + "\n")
        self._stream.flush()


def log_line(timeline: Timeline, states: Mapping[str, str]) -> str:
    last, total = timeline.last, max(1, timeline.total)
    away = "".join(f"; {who} {state}" for who, state in states.items() if state == "starting")
    return (
        f"{last.seconds:6.1f} s  sent {last.sent:,} ({last.sent / total:.0%}), "
        f"counted {last.counted:,} ({last.counted / total:.0%}); {last.cuts} connections cut{away}"
    )


def panel_lines(
    timeline: Timeline, states: Mapping[str, str], *, width: int, blocks: bool = True
) -> list[str]:
    """The panel as lines of at most `width` characters."""
    last = timeline.last
    bar_width = max(8, min(_BAR_MAX, width - 50))
    title = f"{_TITLE:<{max(len(_TITLE), width - 8)}}{_clock(last.seconds)}"
    lines = [
        title,
        "",
        f"  sent     {_bar(last.sent, timeline.total, bar_width, blocks)}  {_rate(timeline, 'sent')}",
        f"  counted  {_bar(last.counted, timeline.total, bar_width, blocks)}  {_rate(timeline, 'counted')}",
        f"  per s    {_sparkline(timeline, bar_width, blocks)}",
        "",
        "  "
        + "   ".join(
            f"{who} {states.get(who, 'starting')}"
            + (f", killed {kills}x" if (kills := timeline.kills(who)) else "")
            for who in (BROKER, TILL, DRIVER)
        ),
        f"  connection: {last.cuts} times cut, {last.delays} answers late, {last.copies} requests delivered twice",
        "",
        *(f"  {_clock(seconds)}  {what}" for seconds, what in timeline.happenings[-_HAPPENINGS:]),
    ]
    return [line[:width].rstrip() for line in lines]


def _bar(done: int, total: int, width: int, blocks: bool) -> str:
    share = min(1.0, done / max(1, total))
    filled = int(share * width)
    full, empty = ("█", "·") if blocks else ("#", ".")
    return f"{full * filled}{empty * (width - filled)} {share:4.0%} {done:>10,}"


def _rate(timeline: Timeline, name: str) -> str:
    return f"{timeline.rate_now(name):>8,.0f}/s"


def _sparkline(timeline: Timeline, width: int, blocks: bool) -> str:
    """The count of each second, the latest on the right."""
    letters = _SPARKS if blocks else _PLAIN_SPARKS
    rates = timeline.rates("counted", 1.0)
    highest = max([1.0, *rates])
    return "".join(letters[round(rate / highest * (len(letters) - 1))] for rate in rates[-width:])


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"


def _can_write(stream: TextIO, text: str) -> bool:
    try:
        text.encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True

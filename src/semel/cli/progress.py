"""Progress of a command, on standard error: one line that is written over itself where a person watches, else a line now and then.

Role.   `Progress` is all that commands use: `verify`, its simulation, the demonstration of records, and long reads and writes of files.
Rules.  * A pipe gets whole lines, at most one in `plain_seconds`, or none at all; news gets a line at once.
        * The line is cut at the terminal's width: a line that wraps cannot be written over.
"""

import shutil
import sys
import time
from collections.abc import Callable
from typing import Final

import click

from semel.cli.output import cut
from semel.runtime.closing import Closing
from semel.runtime.terminal import is_watched

_WATCHED_SECONDS: Final = 0.2
_OVER: Final = "\r\x1b[2K"


class Progress(Closing):
    """One line about how far something is; a context that leaves the cursor on an empty line."""

    def __init__(
        self,
        *,
        plain_seconds: float | None = None,
        watched_seconds: float = _WATCHED_SECONDS,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Without `plain_seconds` nothing but news is written where nobody watches."""
        self.is_watched = is_watched(sys.stderr)
        self._every = watched_seconds if self.is_watched else plain_seconds
        self._now = now
        self._shown_at = float("-inf")
        self._shown = ""
        self._is_open = False

    def show(self, line: str | Callable[[], str], *, news: bool = False) -> None:
        """Show the line if it is time again, or at once where it is news; a function is called only then."""
        now = self._now()
        if not news and (self._every is None or now - self._shown_at < self._every):
            return
        text = line if isinstance(line, str) else line()
        if not self.is_watched and text == self._shown:
            return
        self._shown_at, self._shown = now, text
        if self.is_watched:
            self._is_open = True
            click.echo(
                _OVER + cut(text, shutil.get_terminal_size().columns - 1), err=True, nl=False, color=True
            )
        else:
            click.echo(text, err=True)

    def end(self, *, keep: bool = False) -> None:
        """Clear the line, or leave it where it is and go to the next one."""
        if self._is_open:
            self._is_open = False
            click.echo("\n" if keep else _OVER, err=True, nl=False, color=True)

    def close(self) -> None:
        """Leave nothing behind."""
        self.end()

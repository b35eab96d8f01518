"""Colours and lines that are written over are for a person's terminal alone.

Method: streams that say they are a terminal or not, and the environments of both.
"""

import io

import pytest

from semel.runtime.terminal import is_colored, is_watched


class Stream(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.mark.parametrize(
    ("terminal", "environment", "watched", "colored"),
    [
        (True, {"TERM": "xterm"}, True, True),
        (True, {"TERM": "xterm", "NO_COLOR": "1"}, True, False),
        (True, {"TERM": "xterm", "NO_COLOR": ""}, True, True),
        (True, {"TERM": "dumb"}, False, False),
        (True, {}, False, False),
        (False, {"TERM": "xterm"}, False, False),
    ],
)
def test_who_sees_what(terminal: bool, environment: dict[str, str], watched: bool, colored: bool) -> None:
    stream = Stream(terminal)
    assert is_watched(stream, environment) is watched
    assert is_colored(stream, environment) is colored

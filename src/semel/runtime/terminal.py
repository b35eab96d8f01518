"""Whether somebody watches: what may be drawn, coloured or written over itself.

Role.   The commands' tables, marks and progress, and the demonstrations' panel, ask here before they write more than plain lines.
Rules.  * A pipe or a file gets plain lines, never a colour or a line that is written over.
        * `TERM=dumb`, or no TERM, is a terminal without a cursor: it is treated as a pipe. `NO_COLOR` with any content turns colours off.
"""

import os
from collections.abc import Mapping
from typing import TextIO


def is_watched(stream: TextIO, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a person sees the stream on a terminal that can move its cursor."""
    return stream.isatty() and environment.get("TERM", "") not in ("", "dumb")


def is_colored(stream: TextIO, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether colours are shown there and wanted."""
    return is_watched(stream, environment) and not environment.get("NO_COLOR")

"""The clocks of classic groups.

Role.   Keys of the `Deadlines` that all classic groups of a shard share: what it is that time may run out for.
"""

from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from semel.core.coordination.deadlines import Deadlines

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000
"""How long a member nobody knows yet may wait for a rebalance to end: it has no id to send heartbeats with, and if it
gave up and came back it would be counted twice."""


class TimerKind(IntEnum):
    """What time may run out for."""

    SESSION = 0
    """To hear from a member, or from one that was given an id."""
    JOIN = 1
    """To join the next generation."""
    SYNC = 2
    """To ask for one's part of a generation."""


class Timer(NamedTuple):
    """A clock of a group, or of one of its members."""

    kind: TimerKind
    group_id: str
    member_id: str = ""


Timers: TypeAlias = Deadlines[Timer]

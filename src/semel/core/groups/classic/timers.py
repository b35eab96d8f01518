"""The timers of classic groups.

Role.   Keys of the `Deadlines` that all classic groups of a shard share.
"""

from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from semel.core.coordination.deadlines import Deadlines

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000
"""How long a new member may wait for a rebalance to end: it has no id for heartbeats, and if it retried it would count
twice."""


class TimerKind(IntEnum):
    """The kinds of deadlines."""

    SESSION = 0
    """For a heartbeat of a member, or the join of a pending id."""
    JOIN = 1
    """For members to join the next generation."""
    SYNC = 2
    """For members to send SyncGroup."""


class Timer(NamedTuple):
    """A timer of a group, or of one of its members."""

    kind: TimerKind
    group_id: str
    member_id: str = ""


Timers: TypeAlias = Deadlines[Timer]

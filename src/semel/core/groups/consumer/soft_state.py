"""State of a shard's KIP-848 groups that is in no row: timers, and the topics of the last computation.

Rules.  * This state may be lost: after a load the timers restart and every group checks its topics again.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from semel.core.coordination.deadlines import Deadlines
from semel.core.groups.consumer.member import Member
from semel.core.groups.consumer.subscriptions import TopicHashes
from semel.core.groups.group import Groups, Topic


class TimerKind(IntEnum):
    """The kinds of deadlines."""

    SESSION = 0
    """For a heartbeat of a member."""
    REBALANCE = 1
    """For a member to confirm a revocation."""
    JOIN = 2
    """For a classic member to rejoin after it was asked to."""
    SYNC = 3
    """For a classic member to send SyncGroup after joining."""
    REGEX = 4
    """To resolve a group's regular expressions: at once, but outside the request that caused it."""
    DOWNGRADED = 5
    """To begin the rebalance of a group that has become classic, once its rows are applied."""


class Timer(NamedTuple):
    """A timer of a group, or of one of its members."""

    kind: TimerKind
    group_id: str
    member_id: str = ""


@dataclass(slots=True)
class SoftState:
    """Shared by the parts that change KIP-848 groups of a shard."""

    groups: Groups
    timers: Deadlines[Timer] = field(default_factory=Deadlines)
    hashes: TopicHashes = field(init=False)
    _topics_seen: dict[str, list[tuple[str, Topic | None]]] = field(default_factory=dict)
    _names_resolved: dict[str, frozenset[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.hashes = TopicHashes(self.groups.topics)

    # Topics

    def topics_changed(self, group_id: str) -> bool:
        """Whether a topic of the group has changed since the last computation."""
        seen = self._topics_seen.get(group_id)
        find = self.groups.topics.topic
        return seen is None or any(find(name) is not topic for name, topic in seen)

    def topics_seen(self, group_id: str, names: Iterable[str]) -> None:
        """Note that the group was computed with the current state of these topics."""
        find = self.groups.topics.topic
        self._topics_seen[group_id] = [(name, find(name)) for name in sorted(names)]

    def names_changed(self, group_id: str) -> bool:
        """Whether topics were created or deleted since the group's expressions were last resolved."""
        resolved = self._names_resolved.get(group_id)
        return resolved is None or resolved ^ self.groups.topics.topics.keys() != set()

    def names_resolved(self, group_id: str) -> None:
        """Note that the group's expressions were resolved with the current topics."""
        self._names_resolved[group_id] = frozenset(self.groups.topics.topics)

    # Timers

    def heard_from(
        self, group_id: str, member_id: str, now_ms: int, session_timeout_ms: int | None = None
    ) -> None:
        """Restart a member's session."""
        if session_timeout_ms is None:
            session_timeout_ms = self.groups.own_number(
                group_id,
                "consumer.session.timeout.ms",
                self.groups.settings.group_consumer_session_timeout_ms,
            )
        self.timers.set(Timer(TimerKind.SESSION, group_id, member_id), now_ms + session_timeout_ms)

    def heard_from_member(self, group_id: str, member: Member, now_ms: int) -> None:
        """The same for a member of either kind: a classic member has its own session timeout."""
        own = None if member.classic is None else member.classic.session_timeout_ms
        self.heard_from(group_id, member.member_id, now_ms, own)

    def forget_member(self, group_id: str, member_id: str) -> None:
        """Cancel the member's timers."""
        for kind in (TimerKind.SESSION, TimerKind.REBALANCE, TimerKind.JOIN, TimerKind.SYNC):
            self.timers.cancel(Timer(kind, group_id, member_id))

    def forget_group(self, group_id: str) -> None:
        """Drop the group's timers and topics."""
        self.timers.cancel(Timer(TimerKind.REGEX, group_id))
        self._topics_seen.pop(group_id, None)
        self._names_resolved.pop(group_id, None)

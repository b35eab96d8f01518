"""The errors that keep a client from its work now: in the log within a second, and in the text of every timeout.

Role.   One `Troubles` for each client, shared by all of its connections. It remembers failures that are tried again, writes
        one WARNING for each kind of trouble, and one line when that kind is over.
Flow.   a retry loop meets an error: `met` -> the log, if it is time to -> the same attempt succeeds: `over`. A call that runs out
        of time asks `last` for its text.
Rules.  * A trouble that passes within half a second is not logged. A trouble that stays is logged before a second is over, also
          where pauses are long.
        * A kind of trouble has one line at a time, whatever the number of its subjects: the next after 1, 2, 4 … 60 s.
        * While no broker of the cluster can be reached, single brokers are not spoken of.
        * Nothing here waits or sets a timer: a simulation runs the same, whoever listens to its log.
"""

import logging
from collections.abc import Callable
from enum import Enum, unique
from typing import Final

_logger: Final = logging.getLogger(__name__)
_SECOND_MS: Final = 1000
_STEP_MAX_MS: Final = 60_000
_FRESH_MS: Final = 5000
"""A subject that nobody met for so long is not in trouble any more, or nobody asks for it."""
_SUBJECTS_MAX: Final = 100


@unique
class Kind(Enum):
    """Of trouble; the value says in words that it is over."""

    CLUSTER = "{} can be reached again"
    BROKER = "{} answers again"
    TOPIC = "topic {} is there"
    PARTITION = "{} can be read again"
    GROUP = "group {} has its coordinator again"
    RECORDS = "{} takes records again"
    TRANSACTION = "TransactionalId {} goes on"
    CALL = "{} is done"


class _Met:
    """One subject in trouble."""

    __slots__ = ("met_ms", "since_ms", "text")

    def __init__(self, now_ms: int) -> None:
        self.since_ms = self.met_ms = now_ms
        self.text = ""


class _Said:
    """The log's last word about a kind."""

    __slots__ = ("not_before_ms", "since_ms", "step_ms")

    def __init__(self, since_ms: int) -> None:
        self.since_ms = since_ms
        self.step_ms = _SECOND_MS
        self.not_before_ms = 0


class Troubles:
    """Of one client."""

    def __init__(self, now_ms: Callable[[], int], *, who: str, retry_backoff_ms: int) -> None:
        self._now_ms = now_ms
        self._who = who
        self._pause_ms = retry_backoff_ms
        self._kinds: dict[Kind, dict[str, _Met]] = {}
        self._said: dict[Kind, _Said] = {}
        self._last: tuple[int, Kind, str, str] | None = None

    @property
    def is_any(self) -> bool:
        """Whether `over` may have something to do: asked before every call of it, on the path of every answer."""
        return bool(self._kinds)

    def met(self, kind: Kind, subject: str, text: str, way_out: str = "", *, is_old: bool = False) -> None:
        """`text` says what keeps the client from `subject`; it will be tried again. `is_old`: it took a second to be met."""
        now_ms = self._now_ms()
        self._last = now_ms, kind, subject, text
        subjects = self._kinds.setdefault(kind, {})
        one = subjects.get(subject)
        if one is None and len(subjects) >= _SUBJECTS_MAX:
            self._forget_old(subjects, now_ms)
            if len(subjects) >= _SUBJECTS_MAX:
                return  # Enough of this kind speak for it.
        if one is None or now_ms - one.met_ms > max(_FRESH_MS, 2 * self._pause_ms):
            one = subjects[subject] = _Met(now_ms)
        one.met_ms = now_ms
        one.text = f"{text}: {way_out}" if way_out else text
        if is_old or self._is_due(now_ms - one.since_ms):
            self._say(kind, one, now_ms)

    def _is_due(self, lasted_ms: int) -> bool:
        """Whether the next attempt, after a pause that has doubled until now, would come too late to be the one to say it."""
        return 2 * lasted_ms + self._pause_ms >= _SECOND_MS

    def _say(self, kind: Kind, one: _Met, now_ms: int) -> None:
        if kind is Kind.BROKER and self._kinds.get(Kind.CLUSTER):
            return
        said = self._said.get(kind)
        if (
            said is None or now_ms > said.not_before_ms + _STEP_MAX_MS
        ):  # Nobody has met one of the kind for long.
            said = self._said[kind] = _Said(one.since_ms)
        if now_ms < said.not_before_ms:
            return
        said.not_before_ms = now_ms + said.step_ms
        said.step_ms = min(2 * said.step_ms, _STEP_MAX_MS)
        subjects = self._kinds[kind]
        self._forget_old(subjects, now_ms)
        more = "" if len(subjects) < 2 else f" (and {len(subjects) - 1} more like it)"
        lasted_s = (now_ms - one.since_ms) // _SECOND_MS
        since = f" [for {lasted_s} s now]" if lasted_s else ""
        _logger.warning("%s: %s%s%s", self._who, one.text, more, since)

    def _forget_old(self, subjects: dict[str, _Met], now_ms: int) -> None:
        for subject in [name for name, one in subjects.items() if now_ms - one.met_ms > _FRESH_MS]:
            del subjects[subject]

    def over(self, kind: Kind, subject: str | None = None) -> None:
        """The subject (None: every one of the kind) is in no trouble now."""
        subjects = self._kinds.get(kind)
        if subjects is None:
            return
        names = list(subjects) if subject is None else [subject] if subject in subjects else []
        for name in names:
            del subjects[name]
        if subjects or not names:
            return
        del self._kinds[kind]
        said = self._said.pop(kind, None)
        if said is not None:
            lasted_s = max(1, (self._now_ms() - said.since_ms) // _SECOND_MS)
            what = kind.value.format(names[-1])
            _logger.warning("%s: %s, after %d s", self._who, what, lasted_s)

    def has(self, kind: Kind) -> bool:
        """Whether something of this kind is in trouble."""
        return bool(self._kinds.get(kind))

    def last(self, since_ms: int) -> str:
        """The last trouble met since then on the monotonic clock, or still there, as the end of a sentence; empty: none."""
        if self._last is None:
            return ""
        met_ms, kind, subject, text = self._last
        is_there = subject in self._kinds.get(kind, ()) and self._now_ms() - met_ms <= _FRESH_MS
        return f"; the last error: {text}" if met_ms >= since_ms or is_there else ""

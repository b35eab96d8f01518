"""Did the system go on? Last stable offsets that go back or stand still, and times in which nobody got what was asked for.

Role.   The part of `judge` that knows limits of time.
Rules.  Pure. The promises, and their breaches:
        * Last stable offset and log end only grow, over restarts too: an answer never names less than an earlier one. They are
          looked at one answer after the other, so that no late answer is taken for a later one.
        * A last stable offset that is not the end of its log goes on within the limit, and is the end when all is over.
        * Within the limit somebody who asks gets it: a write to a partition, the begin, end or commit of a transaction, a read.
          Each partition, and each isolation of reading it, is looked at alone: a working partition does not hide a failing one.
          Commits are looked at alone too: a new life and an abort are an end of a transaction and no commit. Time in which a
          fault blocked everybody does not count, nor does time before anybody asked.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias

from semel.verify.history.events import (
    COMMITTED,
    UNCOMMITTED,
    Acked,
    ClientEvent,
    Deciding,
    Ended,
    Failed,
    Fault,
    Isolation,
    Polled,
    Sent,
    Stable,
    Took,
)
from semel.verify.proof.anomalies import Anomaly, Finding
from semel.verify.proof.index import Place


def stuck(history: Sequence[ClientEvent], limit_seconds: float) -> Iterator[Finding]:
    """Where the last stable offset stood still for too long, or was not at the end when all was over."""
    since: dict[Place, tuple[int, float, int]] = {}
    latest: dict[Place, int] = {}
    told: set[Place] = set()
    for place, event in enumerate(history):
        if not isinstance(event, Stable):
            continue
        where = event.topic, event.partition
        latest[where] = place
        before = since.get(where)
        if event.stable >= event.end:
            since.pop(where, None)
        elif before is None or before[0] != event.stable:
            since[where] = event.stable, event.at, place
        elif event.at - before[1] > limit_seconds and where not in told:
            told.add(where)
            yield Finding(
                Anomaly.STUCK,
                f"the last stable offset of {event.topic}-{event.partition} stood at {event.stable} for "
                f"{event.at - before[1]:.0f} s; the log ends at {event.end}",
                (before[2], place),
            )
    for where, place in latest.items():
        event = history[place]
        if isinstance(event, Stable) and event.stable < event.end and where not in told:
            yield Finding(
                Anomaly.STUCK,
                f"when all was over, the last stable offset of {event.topic}-{event.partition} was {event.stable}; "
                f"the log ends at {event.end}",
                (place,),
            )


def went_back(history: Sequence[ClientEvent]) -> Iterator[Finding]:
    """Where a last stable offset or the end of a log was below what had been told before."""
    highest: dict[tuple[Place, str], tuple[int, int]] = {}
    for place, event in enumerate(history):
        if not isinstance(event, Stable):
            continue
        for what, offset in (("last stable offset", event.stable), ("end", event.end)):
            key = (event.topic, event.partition), what
            before = highest.get(key)
            if before is None or offset >= before[0]:
                highest[key] = offset, place
                continue
            yield Finding(
                Anomaly.WENT_BACK,
                f"the {what} of {event.topic}-{event.partition} was {before[0]}, and then {offset}",
                (before[1], place),
            )
            highest[key] = offset, place  # Told once, not with every look from now on.


class _Service(StrEnum):
    """The services that may be unavailable, in the words of the report."""

    WRITES = "no record was acknowledged in"
    TRANSACTIONS = "no transaction was begun or ended"
    COMMITS = "no transaction was committed"
    READS = "no record was handed out to"


_Asked: TypeAlias = tuple[_Service, str]
"""A service, and of what: partitions, and readers of each isolation in each, are looked at alone."""


@dataclass(slots=True)
class _Wait:
    """Somebody asked, and nobody has got anything since."""

    at: float
    place: int
    is_told: bool = False


def unavailable(history: Sequence[ClientEvent], limit_seconds: float) -> Iterator[Finding]:
    """Where nobody got what was asked for, for too long."""
    blocked = [(event.at, event.until) for event in history if isinstance(event, Fault) and event.blocks]
    demand = _Demand()
    waits: dict[_Asked, _Wait] = {}
    for place, event in enumerate(history):
        step = demand.of(event)
        for service in (*step.asked, *step.got, *step.refused):
            wait = waits.get(service)
            if wait is None or wait.is_told:
                continue
            seconds, excused = event.at - wait.at, _covered(wait.at, event.at, blocked)
            if seconds - excused > limit_seconds:
                wait.is_told = True
                yield Finding(
                    Anomaly.UNAVAILABLE,
                    f"for {seconds:.1f} s {' '.join(service).strip()} ({excused:.1f} s of them excused by faults)",
                    (wait.place, place),
                )
        for service in step.got:
            waits.pop(service, None)
        for service in step.asked:
            waits.setdefault(service, _Wait(event.at, place))


@dataclass(frozen=True, slots=True)
class _Step:
    """The content of an event: requests, successes, and refusals."""

    asked: tuple[_Asked, ...] = ()
    got: tuple[_Asked, ...] = ()
    refused: tuple[_Asked, ...] = ()


_TRANSACTIONS: Final[_Asked] = (_Service.TRANSACTIONS, "")
_COMMITS: Final[_Asked] = (_Service.COMMITS, "")


@dataclass(slots=True)
class _Demand:
    """The open requests of each service, event after event."""

    plain: dict[str, Place] = field(default_factory=dict)
    """Values outside transactions that nothing was said of yet, and where they were sent to."""
    read: dict[tuple[Isolation, Place], int] = field(default_factory=dict)
    """The highest offset that anybody was handed."""

    def of(self, event: ClientEvent) -> _Step:
        match event:
            case Sent(transaction=None):
                where = event.topic, event.partition
                self.plain[event.value] = where
                return _Step(asked=(_writes(where),))
            case Sent():
                return _Step(asked=(_TRANSACTIONS,))
            case Acked() if event.value in self.plain:
                where = self.plain.pop(event.value)
                return _Step(asked=self._unread(where, event.offset), got=(_writes(where),))
            case Failed() if event.value in self.plain:
                return _Step(refused=(_writes(self.plain.pop(event.value)),))
            case Deciding():
                return _Step(asked=(_TRANSACTIONS, _COMMITS))
            case Ended(outcome="committed"):
                return _Step(got=(_TRANSACTIONS, _COMMITS))
            case Ended(outcome="aborted"):
                return _Step(got=(_TRANSACTIONS,), refused=(_COMMITS,))
            case Ended():
                return _Step(refused=(_TRANSACTIONS, _COMMITS))
            case Took():
                return _Step(got=(_TRANSACTIONS,))
            case Polled() if event.records:
                where = event.topic, event.partition
                before = self.read.get((event.isolation, where), -1)
                self.read[event.isolation, where] = max(before, event.records[-1][0])
                return _Step(got=(_reads(event.isolation, where),))
            case _:
                return _Step()

    def _unread(self, where: Place, offset: int) -> tuple[_Asked, ...]:
        """Readers that are still to be handed it: one may have been before its producer heard of it."""
        isolations: tuple[Isolation, ...] = (COMMITTED, UNCOMMITTED)
        return tuple(
            _reads(isolation, where)
            for isolation in isolations
            if offset > self.read.get((isolation, where), -1)
        )


def _writes(where: Place) -> _Asked:
    return _Service.WRITES, f"{where[0]}-{where[1]}"


def _reads(isolation: Isolation, where: Place) -> _Asked:
    return _Service.READS, f"{isolation} readers of {where[0]}-{where[1]}"


def _covered(start: float, end: float, intervals: list[tuple[float, float]]) -> float:
    """How much of a time the intervals cover."""
    total, reached = 0.0, start
    for first, last in sorted(intervals):
        first, last = max(first, reached), min(last, end)
        if last > first:
            total += last - first
            reached = last
    return total

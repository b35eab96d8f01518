"""Did the system go on? Last stable offsets that stand still, and times in which nobody got what was asked for.

Role.   The part of `judge` that knows limits of time.
Rules.  Pure. What is promised, and what breaks it:
        * A last stable offset that is not the end of its log goes on within the limit, and is the end when all is over.
        * Whoever writes, ends a transaction or reads gets an answer within the limit; each of the three is looked at alone, so
          that one that works does not hide another that does not. Time in which a fault blocked everybody does not count, nor
          does time in which nobody asked.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from semel.verify.proof.anomalies import Anomaly, Finding
from semel.verify.proof.events import (
    Acked,
    Committing,
    Ended,
    Event,
    Failed,
    Fault,
    Polled,
    Sent,
    Stable,
    Took,
)
from semel.verify.proof.index import Place


def stuck(history: Sequence[Event], limit_seconds: float) -> Iterator[Finding]:
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


class _Service(Enum):
    """What may be unavailable, in the words of the report."""

    WRITES = "no record was acknowledged"
    TRANSACTIONS = "no transaction came to its end"
    READS = "no record was handed out"


@dataclass(slots=True)
class _Wait:
    """Somebody asked, and nobody has got anything since."""

    at: float
    place: int
    is_told: bool = False


def unavailable(history: Sequence[Event], limit_seconds: float) -> Iterator[Finding]:
    """Where nobody got what was asked for, for too long."""
    blocked = [(event.at, event.until) for event in history if isinstance(event, Fault) and event.blocks]
    inside = {event.value for event in history if isinstance(event, Sent) and event.transaction is not None}
    waits: dict[_Service, _Wait] = {}
    for place, event in enumerate(history):
        asked, got, looked_at = _about(event, inside)
        for service in (*asked, *got, *looked_at):
            wait = waits.get(service)
            if wait is None or wait.is_told:
                continue
            seconds, excused = event.at - wait.at, _covered(wait.at, event.at, blocked)
            if seconds - excused > limit_seconds:
                wait.is_told = True
                yield Finding(
                    Anomaly.UNAVAILABLE,
                    f"for {seconds:.1f} s {service.value} ({excused:.1f} s of them excused by faults)",
                    (wait.place, place),
                )
        for service in got:
            waits.pop(service, None)
        for service in asked:
            waits.setdefault(service, _Wait(event.at, place))


def _about(
    event: Event, inside: set[str]
) -> tuple[tuple[_Service, ...], tuple[_Service, ...], tuple[_Service, ...]]:
    """What somebody asks for here, what somebody got, and what somebody was told not to have got."""
    match event:
        case Sent():
            return ((_Service.WRITES if event.transaction is None else _Service.TRANSACTIONS),), (), ()
        case Acked() if event.value not in inside:
            return (_Service.READS,), (_Service.WRITES,), ()
        case Failed() if event.value not in inside:
            return (), (), (_Service.WRITES,)
        case Committing():
            return (_Service.TRANSACTIONS,), (), ()
        case Ended(outcome="unknown"):
            return (), (), (_Service.TRANSACTIONS,)
        case Ended() | Took():
            return (), (_Service.TRANSACTIONS,), ()
        case Polled():
            return (), (_Service.READS,), ()
        case _:
            return (), (), ()


def _covered(start: float, end: float, intervals: list[tuple[float, float]]) -> float:
    """How much of a time the intervals cover."""
    total, reached = 0.0, start
    for first, last in sorted(intervals):
        first, last = max(first, reached), min(last, end)
        if last > first:
            total += last - first
            reached = last
    return total

"""The anomalies of a history, and how a finding is told.

Role.   `Anomaly` is the list a proof prints, one line each; a `Finding` is one instance with the events that show it.
Rules.  * A finding names events by their place in the history, fewest first: as many as a reader needs to see the breach.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from semel.verify.history.events import ClientEvent, Fault, Polled
from semel.verify.history.lines import kept_fields, name_of

_NEAR_RECORDS: Final = 1
_FAULTS_SHOWN_MAX: Final = 3
_FAULT_NEAR_SECONDS: Final = 5.0


class Anomaly(StrEnum):
    """The kinds of broken promises, in the words of the report."""

    LOST = "acknowledged write lost"
    DUPLICATE = "record stored twice"
    REORDERED = "records of a producer out of order"
    PHANTOM = "refused or unsent record stored"
    ABORTED_READ = "aborted record read"
    TORN = "transaction torn"
    INCONSISTENT = "offset with two values"
    NON_MONOTONIC = "poll went back"
    SKIPPED = "poll passed over a record"
    OFFSET_WITHOUT_OUTPUT = "position stored, output missing"
    OUTPUT_WITHOUT_OFFSET = "output stored, position not"
    POSITION_LOST = "stored position lost"
    UNREAD = "position stored, record never handed out"
    FORMER_OWNER = "position of a former owner stored"
    GROUP_STUCK = "group never came to its end"
    ZOMBIE = "fenced producer still wrote"
    WENT_BACK = "last stable offset or log end went back"
    STUCK = "last stable offset stuck"
    UNAVAILABLE = "unavailable too long"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong."""

    anomaly: Anomaly
    why: str
    events: tuple[int, ...] = ()
    """Places in the history."""
    offsets: tuple[int, ...] = ()
    """Which records of a poll it is about."""


def story_of(finding: Finding, history: Sequence[ClientEvent]) -> list[str]:
    """The smallest part of the history that shows the finding, in order, with the faults around it."""
    shown = sorted(set(finding.events))
    if not shown:
        return [finding.why]
    times = [history[place].at for place in shown]
    first, last = min(times), max(times)
    near = sorted(
        (
            place
            for place, event in enumerate(history)
            if isinstance(event, Fault)
            and event.at <= last + _FAULT_NEAR_SECONDS
            and event.until >= first - _FAULT_NEAR_SECONDS
        ),
        key=lambda place: abs(history[place].at - first),
    )
    told = sorted({*shown, *near[:_FAULTS_SHOWN_MAX]}, key=lambda place: (history[place].at, place))
    lines = [
        finding.why,
        *(f"  {history[place].at:9.3f} s  {_told(history[place], finding.offsets)}" for place in told),
    ]
    if len(near) > _FAULTS_SHOWN_MAX:
        lines.append(f"  and {len(near) - _FAULTS_SHOWN_MAX} more faults around it")
    return lines


def _told(event: ClientEvent, offsets: tuple[int, ...]) -> str:
    if isinstance(event, Polled) and offsets:
        concerned = [place for place, (offset, _) in enumerate(event.records) if offset in offsets]
        kept = sorted(
            {
                near
                for place in concerned
                for near in range(place - _NEAR_RECORDS, place + _NEAR_RECORDS + 1)
                if 0 <= near < len(event.records)
            }
        )
        records = ", ".join(f"{event.records[place][0]}={event.records[place][1]}" for place in kept)
        return (
            f"{event.process} polled {event.topic}-{event.partition} ({event.isolation}): … {records} … "
            f"of {len(event.records)}"
        )
    if isinstance(event, Fault):
        return f"fault, until {event.until:.3f} s: {event.what}"
    values = {name: value for name, value in kept_fields(event).items() if name != "at"}
    return f"{name_of(event)}({', '.join(f'{name}={value!r}' for name, value in values.items())})"

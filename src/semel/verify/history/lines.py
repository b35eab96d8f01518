"""The history of clients of a real cluster as lines: one JSON object an event, to keep and to judge again.

Role.   `proof` writes a history of `ClientEvent`s; nothing in it knows which broker it was: the same history is written on Semel and on any
        Kafka.
Flow.   events in the order they were seen -> `to_lines` / `from_lines`.
Rules.  * The names in the lines are those of the first version: a transaction's `Deciding` is kept as `Committing`, which applications
          only say of a commit.
        * Fields that only the wire shows are not kept.
        * A long proof is many histories, one a round: each begins with `Began`, and names of values and lives may be used again.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any, Final

from semel.errors import SemelError
from semel.verify.history.events import (
    Acked,
    Assigned,
    Began,
    ClientEvent,
    Commit,
    Deciding,
    Drained,
    Ended,
    Failed,
    Fault,
    Polled,
    Position,
    Repositioned,
    Sent,
    Stable,
    Took,
    Unfinished,
)


class HistoryError(SemelError):
    """A file that holds no history."""


_KINDS: Final[Mapping[str, type[ClientEvent]]] = {
    "Committing" if kind is Deciding else kind.__name__: kind
    for kind in (
        Began,
        Sent,
        Acked,
        Failed,
        Took,
        Deciding,
        Ended,
        Polled,
        Repositioned,
        Drained,
        Assigned,
        Commit,
        Position,
        Unfinished,
        Stable,
        Fault,
    )
}
_NAMES: Final = {kind: name for name, kind in _KINDS.items()}
_KEPT: Final = {
    kind: [one.name for one in fields(kind) if "wire" not in one.metadata] for kind in _KINDS.values()
}


def name_of(event: ClientEvent) -> str:
    """Its name in a file."""
    return _NAMES[type(event)]


def kept_fields(event: ClientEvent) -> dict[str, Any]:
    """Its fields that a file holds."""
    return {name: getattr(event, name) for name in _KEPT[type(event)]}


def to_lines(history: Iterable[ClientEvent]) -> Iterator[str]:
    """A line of JSON for each event."""
    for event in history:
        yield json.dumps({"event": name_of(event), **kept_fields(event)}, separators=(",", ":"))


def from_lines(lines: Iterable[str]) -> Iterator[ClientEvent]:
    """The events these lines hold."""
    for number, line in enumerate(lines, start=1):
        try:
            values = json.loads(line)
            kind = _KINDS[values.pop("event")]
            if kind is Polled:
                values["records"] = tuple((int(offset), str(value)) for offset, value in values["records"])
            event: ClientEvent = kind(**values)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise HistoryError(
                f"line {number} is not an event of a history: {line[:80]!r} ({error})"
            ) from error
        yield event


def rounds_of(events: Iterable[ClientEvent]) -> Iterator[list[ClientEvent]]:
    """The histories that follow each other, one at a time."""
    history: list[ClientEvent] = []
    for event in events:
        if isinstance(event, Began) and history:
            yield history
            history = []
        history.append(event)
    if history:
        yield history

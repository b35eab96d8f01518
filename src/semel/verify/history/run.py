"""The history of a simulated run: all its events, what the logs held in the end, and the flaws seen on the way."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from semel.verify.history.events import Event, Given, LogState, Place, Unsure
from semel.verify.history.telling import concerns, line, moment

E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A batch as the log holds it at the end."""

    base_offset: int
    producer_id: int
    values: tuple[bytes, ...]
    producer_epoch: int = -1
    is_transactional: bool = False
    commits: bool | None = None
    """For a marker: whether it commits."""


@dataclass(slots=True)
class History:
    """All events of a run, in order, and what the logs held in the end."""

    events: list[Event] = field(default_factory=list)
    logs: dict[Place, tuple[LogState, list[StoredBatch]]] = field(default_factory=dict)
    """Read from the files after the last opening."""
    flaws: list[str] = field(default_factory=list)
    """Facts seen by an actor or the world that must never be, whatever else happened."""

    def add(self, event: Event) -> None:
        self.events.append(event)

    def of(self, kind: type[E]) -> Iterator[E]:
        """The events of one kind, in order."""
        return (event for event in self.events if isinstance(event, kind))

    def topic_at(self, topic: str, since: float, until: float) -> bytes | None:
        """The id the name stood for all the time from `since` to `until`; None if that is not certain."""
        known: bytes | None = None
        for change in self.of(Unsure):
            if change.topic != topic:
                continue
            if change.since <= until and change.until >= since:
                return None
            if change.until < since:
                known = change.topic_id
        return known

    def story(self, topic: str | None = None, *, until: float = math.inf, last: int = 60) -> str:
        """A line per event up to a moment: all of them, or what concerns one topic and the whole world."""
        batches = {(one.producer, one.batch) for one in self.of(Given) if one.topic == topic}
        chosen = [
            event
            for event in self.events
            if moment(event) <= until and (topic is None or concerns(event, topic, batches))
        ]
        return "\n".join(line(event) for event in chosen[-last:])

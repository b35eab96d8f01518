"""A history, arranged for judging: the sending and outcome of each value, and the content of the logs in the end.

Role.   `Index.of` reads a history once; the judges ask it.
Rules.  * Pure. The content of a log is what the last reader that drained it was handed, of each isolation: earlier readers may have
          seen records that are gone since. Without such a reader nothing is said about what is missing in it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from semel.verify.history.events import (
    COMMITTED,
    UNCOMMITTED,
    Acked,
    ClientEvent,
    Deciding,
    Drained,
    Ended,
    Failed,
    Polled,
    Sent,
    Took,
)

Place: TypeAlias = tuple[str, int]
"""Topic and partition."""
Transaction: TypeAlias = tuple[str, int]
"""Process and its number of the transaction."""


@dataclass(slots=True)
class Log:
    """A partition as the last reader of one isolation was handed it, once everything was over."""

    values: dict[int, str] = field(default_factory=dict)
    start: int = 0
    end: int = 0


@dataclass(slots=True)
class Index:
    """All facts about each value, transaction and log. Integers are places in the history."""

    history: Sequence[ClientEvent]
    sent: dict[str, int] = field(default_factory=dict)
    acked: dict[str, int] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    parts: dict[Transaction, list[str]] = field(default_factory=dict)
    """The values of each transaction."""
    committing: dict[Transaction, int] = field(default_factory=dict)
    ended: dict[Transaction, int] = field(default_factory=dict)
    took: dict[str, list[int]] = field(default_factory=dict)
    """Transactional id -> who had it, one after the other."""
    polls: list[int] = field(default_factory=list)
    logs: dict[str, dict[Place, Log]] = field(default_factory=dict)
    """Isolation -> partition -> what it holds."""
    offsets: dict[str, list[tuple[Place, int]]] = field(default_factory=dict)
    """Value -> where it lies, committed or not."""
    handed: dict[tuple[str, Place], list[int]] = field(default_factory=dict)
    """Reader and partition -> the polls that were handed to it."""
    _polled: dict[Place, dict[int, list[int]]] | None = None
    """Partition -> offset -> the polls that handed it out; made when it is asked for."""

    @classmethod
    def of(cls, history: Sequence[ClientEvent]) -> "Index":
        index = cls(history)
        for place, event in enumerate(history):
            index._add(place, event)
        for isolation in (UNCOMMITTED, COMMITTED):
            for where, log in index.logs.get(isolation, {}).items():
                for offset, value in log.values.items():
                    places = index.offsets.setdefault(value, [])
                    if (where, offset) not in places:
                        places.append((where, offset))
        return index

    def _add(self, place: int, event: ClientEvent) -> None:
        match event:
            case Sent():
                self.sent[event.value] = place
                if event.transaction is not None:
                    self.parts.setdefault((event.process, event.transaction), []).append(event.value)
            case Acked():
                self.acked[event.value] = place
            case Failed():
                self.failed[event.value] = place
            case Deciding():
                self.committing[event.process, event.transaction] = place
            case Ended():
                self.ended[event.process, event.transaction] = place
            case Took():
                self.took.setdefault(event.transactional_id, []).append(place)
            case Polled():
                self.polls.append(place)
                reader = event.process, (event.topic, event.partition)
                self.handed.setdefault(reader, []).append(place)
            case Drained():
                self._fill(event)
            case _:
                pass

    def _fill(self, drained: Drained) -> None:
        where = drained.topic, drained.partition
        log = Log(start=drained.start, end=drained.end)
        self.logs.setdefault(drained.isolation, {})[where] = log
        for place in self.handed.get((drained.process, where), ()):
            poll = self.history[place]
            if isinstance(poll, Polled) and poll.isolation == drained.isolation:
                log.values.update(poll.records)

    @property
    def visible(self) -> dict[str, tuple[Place, int]]:
        """Value -> where readers of committed records find it."""
        return {
            value: (where, offset)
            for where, log in self.logs.get(COMMITTED, {}).items()
            for offset, value in log.values.items()
        }

    def is_visible(self, where: Place, offset: int) -> bool:
        """Whether readers of committed records find something there."""
        log = self.logs.get(COMMITTED, {}).get(where)
        return log is not None and offset in log.values

    def is_seen(self, value: str) -> bool:
        """Whether readers of committed records find it where it was sent to."""
        return any(self.is_visible(*one) for one in self.own_places(value))

    def is_beyond(self, value: str) -> bool:
        """Whether it lies where readers of committed records cannot see yet: the last stable offset stands before it."""
        return any(offset >= self.logs[COMMITTED][where].end for where, offset in self.own_places(value))

    def own_places(self, value: str) -> list[tuple[Place, int]]:
        """Where it lies in the partition that it was sent to, of those that were read to their end."""
        sent = self.sent_as(value)
        if sent is None:
            return []
        own = sent.topic, sent.partition
        known = own in self.logs.get(COMMITTED, {})
        return [one for one in self.offsets.get(value, ()) if known and one[0] == own]

    def sent_as(self, value: str) -> Sent | None:
        place = self.sent.get(value)
        event = None if place is None else self.history[place]
        return event if isinstance(event, Sent) else None

    def outcome(self, transaction: Transaction) -> str:
        """The end its application knows: committed, aborted, or unknown once it has asked to commit."""
        place = self.ended.get(transaction)
        ended = None if place is None else self.history[place]
        if isinstance(ended, Ended) and ended.outcome != "unknown":
            return ended.outcome
        return "unknown" if transaction in self.committing else "aborted"

    def events_of(self, value: str) -> tuple[int, ...]:
        """Where a record was sent and what was said of it and of its transaction."""
        sent = self.sent_as(value)
        places = [self.sent.get(value), self.acked.get(value), self.failed.get(value)]
        if sent is not None and sent.transaction is not None:
            places += [self.events_of_end((sent.process, sent.transaction))]
        return tuple(place for place in places if place is not None)

    def events_of_end(self, transaction: Transaction) -> int | None:
        return self.ended.get(transaction, self.committing.get(transaction))

    def all_polls(self) -> Iterator[tuple[int, Polled]]:
        """Every poll, with its place."""
        for place in self.polls:
            poll = self.history[place]
            if isinstance(poll, Polled):
                yield place, poll

    def polls_of(self, where: Place, offset: int) -> list[int]:
        """The polls in which somebody was handed this offset."""
        if self._polled is None:
            self._polled = {}
            for place, poll in self.all_polls():
                offsets = self._polled.setdefault((poll.topic, poll.partition), {})
                for one, _value in poll.records:
                    offsets.setdefault(one, []).append(place)
        return self._polled.get(where, {}).get(offset, [])


def named(transaction: Transaction) -> str:
    return f"transaction {transaction[1]} of {transaction[0]}"

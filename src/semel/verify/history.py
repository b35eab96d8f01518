"""What happened in a run, as plain values: who sent what, who was told what, who read what, and how the logs came back.

Role.   Actors and the world add events while a run goes on; `invariants` judges them when it is over.
Flow.   An event is added the moment its actor learns of it. Nothing is ever changed or removed.
Rules.  * Pure: no clock, no files. Times are seconds of virtual time and come with the event.
        * A value is the bytes of one record, unique in the run: it is the record's name everywhere.
        * A topic's name may stand for several topics one after the other. Whoever speaks of a topic by name says when it
          asked and when it was answered; `topic_at` tells which topic that was, or that nobody can know.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from semel.core.idempotence.producer_window import ProducerEntry
from semel.types import UNKNOWN_OFFSET, TopicPartition

Ending: TypeAlias = Literal["kill", "power cut", "clean stop"]


class Place(NamedTuple):
    """A partition of one topic; a topic created again under the old name is another one."""

    topic_id: bytes
    partition: int


@dataclass(frozen=True, slots=True)
class Given:
    """An application handed a batch to its producer, once."""

    at: float
    producer: str
    """The producer's process: a new one after it was killed."""
    batch: int
    topic: str
    partition: int
    values: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Settled:
    """The producer was told that its batch is stored."""

    at: float
    since: float
    """When the attempt left that was answered."""
    producer: str
    batch: int
    topic_id: bytes | None
    """Where the answer names it."""
    base_offset: int
    attempt: int
    """Which attempt was answered."""


@dataclass(frozen=True, slots=True)
class GivenUp:
    """The producer told its application that the batch failed."""

    at: float
    producer: str
    batch: int
    code: str
    maybe_stored: bool


@dataclass(frozen=True, slots=True)
class Read:
    """A consumer got records of one partition."""

    at: float
    since: float
    reader: str
    turn: int
    """Rises when the reader starts again from the beginning, or from where the log begins by now."""
    topic: str
    topic_id: bytes | None
    partition: int
    records: tuple[tuple[int, bytes], ...]
    limit: int
    """The high watermark of the same answer; for committed reads, the last stable offset."""


@dataclass(frozen=True, slots=True)
class Stable:
    """A reader of committed records was told the last stable offset, and it was another one than before."""

    at: float
    since: float
    reader: str
    topic: str
    topic_id: bytes | None
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Unsure:
    """Between these times the name may have stood for an old topic, a new one, or none."""

    topic: str
    since: float
    until: float
    topic_id: bytes
    """What it stands for from then on."""


@dataclass(frozen=True, slots=True)
class IdGiven:
    """A producer got an id."""

    at: float
    producer: str
    producer_id: int


@dataclass(frozen=True, slots=True)
class RecordsDeleted:
    """Records below `low_watermark` were reported as deleted."""

    at: float
    place: Place
    low_watermark: int


@dataclass(frozen=True, slots=True)
class LogState:
    """One log at a moment."""

    topic: str
    start: int
    end: int
    high_watermark: int
    recovery_point: int
    synced_answers: bool
    """`flush.messages=1`: an answer promises that the record survives a power cut."""
    producers: tuple[ProducerEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class Reopened:
    """The broker serves again."""

    at: float
    endings: tuple[Ending, ...]
    """How it ended since it last served: more than one where a start failed or was cut short."""
    before: Mapping[Place, LogState]
    after: Mapping[Place, LogState]

    @property
    def power_was_cut(self) -> bool:
        return "power cut" in self.endings


@dataclass(frozen=True, slots=True)
class Owned:
    """A member of a group learned what is its own."""

    at: float
    since: float
    """When it asked."""
    member: str
    """The member's process."""
    owner: str
    """As the coordinator knows it: its group instance id, or its member id."""
    generation_id: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Committing:
    """A member asked for positions to be stored."""

    at: float
    commit: int
    """Unique in the run."""
    member: str
    generation_id: int
    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Committed:
    """The coordinator answered: stored, or refused."""

    at: float
    commit: int
    code: str
    """NONE if it is stored."""


@dataclass(frozen=True, slots=True)
class CommittedSeen:
    """Somebody asked what is stored; -1 where nothing is."""

    at: float
    since: float
    who: str
    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Introduced:
    """A transactional producer was given an identity; whoever had the transactional id before is fenced."""

    at: float
    since: float
    """When it asked."""
    producer: str
    transactional_id: str
    producer_id: int
    producer_epoch: int
    ends: Mapping[Place, int]
    """Where the logs ended when it learned of it, if that was said to fence others and the broker was there."""
    keeps: bool = False
    """Whether it keeps what another has prepared: that one's markers are still to come, and nothing else of it."""


@dataclass(frozen=True, slots=True)
class Deciding:
    """A transactional producer is about to commit, or to abort. Batches no commit ever names must never be seen."""

    at: float
    producer: str
    transaction: int
    commit: bool
    batches: tuple[int, ...]
    offsets: Mapping[TopicPartition, int]
    """What it consumed."""
    is_final: bool = False
    """Decided by another system, after everything was stored (two-phase commit): it must come about, whoever ends it."""


@dataclass(frozen=True, slots=True)
class Decided:
    """What became of it, as far as its producer knows: committed, aborted or unknown."""

    at: float
    producer: str
    transaction: int
    fate: str


@dataclass(frozen=True, slots=True)
class Happened:
    """Anything else worth telling."""

    at: float
    what: str


Event: TypeAlias = (
    Given
    | Settled
    | GivenUp
    | Read
    | Stable
    | Unsure
    | IdGiven
    | RecordsDeleted
    | Reopened
    | Owned
    | Committing
    | Committed
    | CommittedSeen
    | Introduced
    | Deciding
    | Decided
    | Happened
)
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
    """What an actor or the world saw that must never be, whatever else happened."""

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
            if _moment(event) <= until and (topic is None or _concerns(event, topic, batches))
        ]
        return "\n".join(_line(event) for event in chosen[-last:])


def _moment(event: Event) -> float:
    return event.until if isinstance(event, Unsure) else event.at


def _concerns(event: Event, topic: str, batches: set[tuple[str, int]]) -> bool:
    match event:
        case Given() | Read() | Stable() | Unsure():
            return event.topic == topic
        case Settled() | GivenUp():
            return (event.producer, event.batch) in batches
        case Owned():
            return any(one.topic == topic for one in event.partitions)
        case Committing() | CommittedSeen():
            return any(one.topic == topic for one in event.offsets)
        case Deciding():
            return any((event.producer, batch) in batches for batch in event.batches)
        case Reopened() | Happened() | IdGiven() | RecordsDeleted() | Committed() | Introduced() | Decided():
            return True


def _line(event: Event) -> str:
    return f"{_moment(event):10.4f}  {_text(event)}"


def _text(event: Event) -> str:
    match event:
        case Given():
            return f"{event.producer} gives batch {event.batch} for {event.topic}-{event.partition}: {_values(event.values)}"
        case Settled():
            offset = (
                "an unknown offset" if event.base_offset == UNKNOWN_OFFSET else f"offset {event.base_offset}"
            )
            return f"{event.producer}: batch {event.batch} is stored at {offset}"
        case GivenUp():
            stored = "may be stored" if event.maybe_stored else "is not stored"
            return f"{event.producer}: batch {event.batch} failed ({event.code}), it {stored}"
        case Read():
            first, last = event.records[0][0], event.records[-1][0]
            values = _values(tuple(value for _offset, value in event.records))
            return (
                f"{event.reader}/{event.turn} reads {event.topic}-{event.partition} from {first} to "
                f"{last} of {event.limit}: {values}"
            )
        case Stable():
            return f"{event.reader} may read {event.topic}-{event.partition} up to {event.offset}"
        case Unsure():
            return f"{event.topic} is {event.topic_id.hex()}, unsure since {event.since:.4f}"
        case IdGiven():
            return f"{event.producer} has the producer id {event.producer_id}"
        case RecordsDeleted():
            return f"{_place(event.place)} begins at {event.low_watermark} by request"
        case Reopened():
            return _text_of_opening(event)
        case Owned() | Committing() | Committed() | CommittedSeen():
            return _text_of_group(event)
        case Introduced() | Deciding() | Decided():
            return _text_of_transaction(event)
        case Happened():
            return event.what


def _text_of_opening(event: Reopened) -> str:
    logs = ", ".join(
        f"{state.topic}-{place.partition} [{state.start}, {state.end})"
        + (f" was {before.end}" if (before := event.before.get(place)) and before.end != state.end else "")
        for place, state in event.after.items()
    )
    return f"serves after {' and '.join(event.endings) or 'nothing'}: {logs}"


def _text_of_group(event: Owned | Committing | Committed | CommittedSeen) -> str:
    match event:
        case Owned():
            names = " ".join(map(_partition, event.partitions)) or "nothing"
            return f"{event.member} as {event.owner} owns {names} in generation {event.generation_id}"
        case Committing():
            return (
                f"{event.member} commits {_offsets(event.offsets)} in generation "
                f"{event.generation_id} (commit {event.commit})"
            )
        case Committed():
            return f"commit {event.commit}: {event.code}"
        case CommittedSeen():
            return f"{event.who} is told, asked at {event.since:.4f}: {_offsets(event.offsets)}"


def _text_of_transaction(event: Introduced | Deciding | Decided) -> str:
    match event:
        case Introduced():
            return (
                f"{event.producer} is {event.transactional_id} with producer {event.producer_id}, epoch "
                f"{event.producer_epoch}, asked at {event.since:.4f}"
            )
        case Deciding():
            what = "will commit" if event.is_final else "commits" if event.commit else "aborts"
            return (
                f"{event.producer} {what} transaction {event.transaction}: batches "
                f"{event.batches}, {_offsets(event.offsets)}"
            )
        case Decided():
            return f"{event.producer}: transaction {event.transaction} is {event.fate}"


def _place(place: Place) -> str:
    return f"{place.topic_id.hex()[:8]}-{place.partition}"


def _partition(one: TopicPartition) -> str:
    return f"{one.topic}-{one.partition}"


def _offsets(offsets: Mapping[TopicPartition, int]) -> str:
    return " ".join(f"{_partition(one)}@{offset}" for one, offset in offsets.items()) or "nothing"


def _values(values: tuple[bytes, ...]) -> str:
    return " ".join(value.partition(b" ")[0].decode() for value in values)

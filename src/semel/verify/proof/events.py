"""What clients of a real cluster saw, as plain values: the only thing the judgement knows.

Role.   `programs` and their kin add events the moment a client learns something; `judge` looks for what cannot be, once all is over. Nothing
        here knows which broker it was: the same history is written on Semel and on any Kafka.
Flow.   events in the order they were seen -> `to_lines` / `from_lines`: one JSON object a line, to keep and to judge again.
Rules.  * Pure. `at` is seconds since the run began, on one clock.
        * A value is the text of one record, unique in the run: an application that sends again sends another value.
        * A process is one life of a client: after a kill or a fencing the next life has another name.
        * Nothing is ever changed or removed.
        * A long proof is many histories, one a round: each begins with `Began`, and names of values and lives may be used again.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Final, Literal, TypeAlias

from semel.errors import SemelError

COMMITTED: Final = "read_committed"
UNCOMMITTED: Final = "read_uncommitted"

Isolation: TypeAlias = Literal["read_committed", "read_uncommitted"]
Outcome: TypeAlias = Literal["committed", "aborted", "unknown"]
CommitOutcome: TypeAlias = Literal["stored", "refused", "unknown"]


class HistoryError(SemelError):
    """A file that holds no history."""


@dataclass(frozen=True, slots=True)
class Began:
    """A round: what comes after it, up to the next one, is a history of its own."""

    at: float
    number: int


@dataclass(frozen=True, slots=True)
class Sent:
    """An application handed a record to its producer."""

    at: float
    process: str
    topic: str
    partition: int
    value: str
    transaction: int | None = None
    """Which transaction of this process it is part of."""


@dataclass(frozen=True, slots=True)
class Acked:
    """The producer said that it is stored, and where; -1 if it is stored and nobody knows where."""

    at: float
    process: str
    value: str
    offset: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The producer said that it failed: for certain, or so that it may be stored all the same."""

    at: float
    process: str
    value: str
    certain: bool
    error: str


@dataclass(frozen=True, slots=True)
class Took:
    """`init_transactions` returned: this process has the transactional id, and nobody before it has."""

    at: float
    process: str
    transactional_id: str


@dataclass(frozen=True, slots=True)
class Committing:
    """The application asked to commit; a transaction of which this is not said was never to be committed."""

    at: float
    process: str
    transaction: int


@dataclass(frozen=True, slots=True)
class Ended:
    """What the application was told of the end of its transaction."""

    at: float
    process: str
    transaction: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Polled:
    """A reader was handed records of one partition, in this order."""

    at: float
    process: str
    isolation: Isolation
    topic: str
    partition: int
    records: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Repositioned:
    """A reader was told to read elsewhere: it was assigned the partition, or it sought."""

    at: float
    process: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Drained:
    """A reader has been handed all there is between two offsets, once everything was over."""

    at: float
    process: str
    isolation: Isolation
    topic: str
    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Assigned:
    """A member of a group was given a partition: it reads on from the position that is stored."""

    at: float
    process: str
    group: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Commit:
    """What a member of a group was told of a position that it wanted stored."""

    at: float
    asked_at: float
    process: str
    group: str
    topic: str
    partition: int
    offset: int
    outcome: CommitOutcome


@dataclass(frozen=True, slots=True)
class Position:
    """What a group had stored at the end: everything of its input below `offset` is done."""

    at: float
    group: str
    topic: str
    partition: int
    offset: int
    transforms: bool = True
    """Done means that there is an output; if not, that a member was handed it."""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A group that nobody disturbed any more did not come to the end of its input."""

    at: float
    group: str
    topic: str
    partition: int
    offset: int
    end: int


@dataclass(frozen=True, slots=True)
class Stable:
    """How far readers of committed records could see, and where the log ended."""

    at: float
    topic: str
    partition: int
    stable: int
    end: int


@dataclass(frozen=True, slots=True)
class Fault:
    """What was done to the system; until then nobody may expect an answer if it `blocks`."""

    at: float
    until: float
    what: str
    blocks: bool = False


Event: TypeAlias = (
    Began
    | Sent
    | Acked
    | Failed
    | Took
    | Committing
    | Ended
    | Polled
    | Repositioned
    | Drained
    | Assigned
    | Commit
    | Position
    | Unfinished
    | Stable
    | Fault
)

_KINDS: Final = {
    kind.__name__: kind
    for kind in (
        Began,
        Sent,
        Acked,
        Failed,
        Took,
        Committing,
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


def to_lines(history: Iterable[Event]) -> Iterator[str]:
    """A line of JSON for each event."""
    for event in history:
        yield json.dumps({"event": type(event).__name__, **asdict(event)}, separators=(",", ":"))


def from_lines(lines: Iterable[str]) -> Iterator[Event]:
    """The events these lines hold."""
    for number, line in enumerate(lines, start=1):
        try:
            values = json.loads(line)
            kind = _KINDS[values.pop("event")]
            if kind is Polled:
                values["records"] = tuple((int(offset), str(value)) for offset, value in values["records"])
            event: Event = kind(**values)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise HistoryError(f"line {number} is no event of a history: {line[:80]!r} ({error})") from error
        yield event


def rounds_of(events: Iterable[Event]) -> Iterator[list[Event]]:
    """The histories that follow each other, one at a time."""
    history: list[Event] = []
    for event in events:
        if isinstance(event, Began) and history:
            yield history
            history = []
        history.append(event)
    if history:
        yield history

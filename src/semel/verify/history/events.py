"""The events of a run, as plain values: the words in which simulated and real histories are written.

Role.   Actors of a simulated world and programs on a real cluster add events the moment they learn something; judgements look for what
        cannot be, once all is over.
Flow.   `run.History` keeps what a simulation adds; `lines` keeps what clients of a real cluster add, a JSON object a line.
Rules.  * Pure: no clock, no files. Times are seconds since the run began, on one clock, and come with the event.
        * Nothing is ever changed or removed.
        * One word has one meaning. Actors speak the wire and work in batches (`Given`, `Settled`, `GivenUp`, `Read`, `CommitAsked`);
          applications use a client and work in records (`Sent`, `Acked`, `Failed`, `Polled`, `Commit`). Transactions are the same to
          both (`Took`, `Deciding`, `Ended`); fields only the wire shows are marked `WIRE`.
        * A value is one record, unique in the run: it is the record's name everywhere. An application that sends again sends another.
        * A process is one life of a client: after a kill or a fencing the next life has another name.
        * A topic's name may stand for several topics one after the other. A wire event that names a topic says when it was asked and
          answered; `History.topic_at` tells which topic that was, or that nobody can know.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from semel.core.idempotence.producer_window import ProducerEntry
from semel.types import TopicPartition

COMMITTED: Final = "read_committed"
UNCOMMITTED: Final = "read_uncommitted"

Isolation: TypeAlias = Literal["read_committed", "read_uncommitted"]
Outcome: TypeAlias = Literal["committed", "aborted", "unknown"]
CommitOutcome: TypeAlias = Literal["stored", "refused", "unknown"]
WIRE: Final[Mapping[str, Any]] = {"wire": True}
"""Marks a field that only an actor on the wire can fill, and that no file holds."""
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
    refused_by: str = ""
    """The broker that refused it, in a world of several; nothing if none did."""


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
class StableSeen:
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
    """The topic its name stands for from then on."""


@dataclass(frozen=True, slots=True)
class IdGiven:
    """A producer got an id."""

    at: float
    producer: str
    producer_id: int
    broker: str = "broker"
    """Which one, in a world of several: brokers that are no cluster give the same ids."""


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
    broker: str = "broker"
    """Which one, in a world of several."""

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
class CommitAsked:
    """A member asked for positions to be stored."""

    at: float
    commit: int
    """Unique in the run."""
    member: str
    generation_id: int
    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class CommitAnswered:
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
class Elected:
    """ZooKeeper holds that this one leads, with this epoch."""

    at: float
    zxid: int
    elector: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Wrote:
    """ZooKeeper holds what one that thinks it leads has written with its epoch."""

    at: float
    zxid: int
    elector: str
    epoch: int
    number: int


@dataclass(frozen=True, slots=True)
class Happened:
    """Anything else worth telling."""

    at: float
    what: str


# Transactions, seen from the wire and by applications


@dataclass(frozen=True, slots=True)
class Took:
    """This process was given the transactional id, and nobody before it has it."""

    at: float
    process: str
    transactional_id: str
    since: float = field(default=0.0, metadata=WIRE)
    """When it asked."""
    producer_id: int = field(default=-1, metadata=WIRE)
    producer_epoch: int = field(default=-1, metadata=WIRE)
    ends: Mapping[Place, int] = field(default_factory=dict, metadata=WIRE)
    """Where the logs ended when it learned of it, if that was said to fence others and the broker was there."""
    keeps: bool = field(default=False, metadata=WIRE)
    """Whether it keeps what another has prepared: that one's markers are still to come, and nothing else of it."""


@dataclass(frozen=True, slots=True)
class Deciding:
    """A transactional producer is about to commit, or to abort. A record that no commit names must never be seen."""

    at: float
    process: str
    transaction: int
    commit: bool = field(default=True, metadata=WIRE)
    batches: tuple[int, ...] = field(default=(), metadata=WIRE)
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict, metadata=WIRE)
    """What it consumed."""
    is_final: bool = field(default=False, metadata=WIRE)
    """Decided by another system, after everything was stored (two-phase commit): it must come about, whoever ends it."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of its transaction, as the application was told."""

    at: float
    process: str
    transaction: int
    outcome: Outcome


# Learnt by applications from a client


@dataclass(frozen=True, slots=True)
class Began:
    """A round: the events after it, up to the next one, are a history of their own."""

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
    """The answer a member of a group got to the commit of a position."""

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
    """The position a group had stored at the end: everything of its input below `offset` is done."""

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
    """A fault done to the system; if it `blocks`, nobody may expect an answer before `until`."""

    at: float
    until: float
    what: str
    blocks: bool = False


Event: TypeAlias = (
    Given
    | Settled
    | GivenUp
    | Read
    | StableSeen
    | Unsure
    | IdGiven
    | RecordsDeleted
    | Reopened
    | Owned
    | CommitAsked
    | CommitAnswered
    | CommittedSeen
    | Took
    | Deciding
    | Ended
    | Elected
    | Wrote
    | Happened
)
"""The events a simulated world writes down."""
ClientEvent: TypeAlias = (
    Began
    | Sent
    | Acked
    | Failed
    | Took
    | Deciding
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
"""The events a client of any cluster can know: `semel verify` keeps histories of them."""

"""What a coordinator says after it was asked, and what its host does with it.

Role.   The common words of the group and the transaction coordinator and of the shell that hosts them.
Flow.   A handler asks the host; the host calls an operation of the shard with a ticket and the time; the operation
        returns an `Outcome`. The host appends `rows` as one batch, hands each to `Shard.apply`, and, once they are
        as durable as their topic asks, gives every ticket its reply and runs the effects. No `await` comes between
        the operation, the append and the applying.
Rules.  * What must survive is in rows, and only `apply` takes a row over: live and in replay alike.
        * What need not survive (who waits for a rebalance, when a member was last heard) an operation may change by
          itself: if the append then fails, the host drops the shard and loads it again from the log.
        * A request that must wait gets no reply now; the operation keeps its ticket and a later outcome answers it.
        * Time comes in as an argument. `next_deadline_ms` tells when the shard wants to be asked again by itself.
"""

from dataclasses import dataclass, field
from typing import Generic, NamedTuple, NewType, Protocol, TypeVar

from semel.core.wire.message import Response, Row
from semel.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

Ticket = NewType("Ticket", object)
"""Stands for a request that waits for its answer. The host makes it; a shard only keeps it and gives it back."""

E = TypeVar("E")


class LogRow(NamedTuple):
    """A row of the coordinator's topic; without a value it says that its subject is gone (a tombstone)."""

    key: Row
    value: Row | None
    value_version: int = 0


class Origin(NamedTuple):
    """Where a row stands, and whose transaction it is part of, if any."""

    offset: int
    timestamp_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


@dataclass(slots=True)
class Outcome(Generic[E]):
    """Rows to write together, replies to give and effects to run once they are committed."""

    rows: list[LogRow] = field(default_factory=list)
    replies: list[tuple[Ticket, Response]] = field(default_factory=list)
    effects: list[E] = field(default_factory=list)
    producer_id: int = NO_PRODUCER_ID
    """Whose transaction the rows are part of, if any; they count from its marker on."""
    producer_epoch: int = NO_PRODUCER_EPOCH
    rows_only: bool = False
    """Whether the operation changed nothing by itself: if the log refuses the rows, the shard is as it was and need not
    be loaded again."""


class Shard(Protocol[E]):
    """What one partition of a coordinator's topic holds."""

    def apply(self, row: LogRow, origin: Origin) -> None:
        """Take a row over; cannot fail."""

    def apply_marker(self, producer_id: int, producer_epoch: int, *, commit: bool) -> None:
        """The transaction that wrote rows here has ended: they count now, or never."""

    def loaded(self, now_ms: int) -> Outcome[E]:
        """Every row has been applied: begin to count time and take up what was left unfinished."""

    def next_deadline_ms(self) -> int | None:
        """When to call `due`, or None if nothing is waiting for time to pass."""

    def due(self, now_ms: int) -> Outcome[E]:
        """Do what the passing of time asks for. May be called early or late."""

"""The outcome of a coordinator's operation, and how the host carries it out.

Role.   Types shared by the group coordinator, the transaction coordinator and the shell that hosts both.
Flow.   A handler asks the host; the host calls an operation of the shard with a ticket and the time; the operation
        returns an `Outcome`. The host appends `rows` as one batch, hands each to `Shard.apply`, and, once they are
        as durable as their topic asks, gives every ticket its reply and runs the effects. No `await` comes between
        the operation, the append and the applying.
Rules.  * Durable state is in rows, and only `apply` takes a row over: live and in replay alike.
        * An operation may change soft state itself (waiting joins, last heartbeats). If the append then fails, the host
          drops the shard and loads it again from the log.
        * A request that must wait gets no reply now; the operation keeps its ticket and a later outcome answers it.
        * Time comes in as an argument. `next_deadline_ms` says when to call `due`.
"""

from dataclasses import dataclass, field
from typing import Generic, NamedTuple, NewType, Protocol, TypeVar

from semel.core.wire.message import Response, Row
from semel.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

Ticket = NewType("Ticket", object)
"""Stands for a request that waits for its answer. The host makes it; a shard only keeps it and gives it back."""

E = TypeVar("E")


class LogRow(NamedTuple):
    """A row of the coordinator's topic; a row without a value is a tombstone."""

    key: Row
    value: Row | None
    value_version: int = 0


class Origin(NamedTuple):
    """Offset and timestamp of a row, and the producer of its transaction, if any."""

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
    """The producer of the transaction the rows belong to, if any; the rows take effect with its marker."""
    producer_epoch: int = NO_PRODUCER_EPOCH
    rows_only: bool = False
    """Whether the operation changed no soft state: if the append fails, the shard need not be loaded again."""


class Shard(Protocol[E]):
    """The state of one partition of a coordinator's topic."""

    def apply(self, row: LogRow, origin: Origin) -> None:
        """Take a row over; cannot fail."""

    def apply_marker(self, producer_id: int, producer_epoch: int, *, commit: bool) -> None:
        """The transaction that wrote rows here has ended: its rows take effect, or are dropped."""

    def loaded(self, now_ms: int) -> Outcome[E]:
        """Every row has been applied: start the timers and resume unfinished work."""

    def next_deadline_ms(self) -> int | None:
        """When to call `due`, or None if nothing is waiting for time to pass."""

    def due(self, now_ms: int) -> Outcome[E]:
        """Do what the passing of time asks for. May be called early or late."""

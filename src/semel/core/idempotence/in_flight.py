"""The producer's end of idempotence: up to five batches in flight per partition, stored once and in order.

Role.   Picks the next batch of a partition and its (producer id, epoch, sequence), and decides the effect of an answer,
        a lost connection or a timeout.
Flow.   The sender calls `enqueue`, asks `send` whenever a connection is free, and reports each outcome as an event to
        `handle`, which gives decisions: settle, fail, retry, a bumped epoch, a producer id to fetch, an abort.
Rules.  * A sequence is assigned when a batch leaves for the first time and kept for all its retries.
        * A retried batch goes back to its place by sequence. While a retry is pending, the partition has one batch in
          flight, the lowest; other partitions are not slowed.
        * The first batch of an epoch is in flight alone, and so is the first after a long rest: a broker accepts any
          first sequence from a producer it does not know, so a second batch could be stored before the first.
        * A batch gets another sequence or epoch only if no attempt can have stored it. A batch that may be stored is
          resent unchanged until its fate is known, or fails; it is never stored twice.
        * A missing sequence forces a new epoch, which the partition takes once all its batches are settled. Other
          partitions keep their epoch until they are idle.
        * A duplicate's answer is a success, with its first offset (or 46: without one).
Elsewhere. Events and decisions: `delivery`. The broker's end: `producer_window`. Batching, time-outs, back-off,
        requests: the client.

    a batch:  queued ──send──> sent ──answer──> settled | failed
                 ^              │ retriable, or lost
                 │              v
                 └──new epoch── waiting ──send──> sent
"""

from bisect import insort
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Generic

from semel.core.idempotence import sequence as sequences
from semel.core.idempotence.delivery import (
    NO_IDENTITY,
    NOT_STORED,
    Answered,
    Decision,
    EpochBumped,
    Event,
    Expired,
    Fail,
    Identity,
    Lost,
    NeedAbort,
    NeedProducerId,
    PartitionT,
    Retry,
    Send,
    Settle,
)
from semel.core.idempotence.producer_window import PRODUCER_EPOCH_MAX, WINDOW_BATCHES_MAX
from semel.errors import ConfigError, ErrorCode, InvariantError
from semel.types import NO_SEQUENCE, NO_TIMESTAMP, UNKNOWN_OFFSET

IN_FLIGHT_MAX: Final = WINDOW_BATCHES_MAX
REST_MS: Final = 600_000

_OUT_OF_SEQUENCE: Final = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})


class _Place(Enum):
    QUEUED = "queued"  # No sequence yet: never sent, or to be resent under a new epoch.
    SENT = "sent"
    WAITING = "waiting"  # To be resent with its sequence.


@dataclass(slots=True, eq=False)
class _Batch:
    batch_id: int
    records_count: int
    order: int  # Position in the partition's sending order; unlike a sequence it never wraps or restarts.
    place: _Place = _Place.QUEUED
    base_sequence: int = NO_SEQUENCE
    attempts: int = 0
    maybe_stored: bool = False
    expired: bool = (
        False  # The user was told; the batch stays until the broker's answer shows whether a gap remains.
    )

    @property
    def last_sequence(self) -> int:
        return sequences.increment(self.base_sequence, self.records_count - 1)


def _order(batch: _Batch) -> int:
    return batch.order


@dataclass(slots=True, eq=False)
class _Lane:
    """One partition."""

    identity: Identity = NO_IDENTITY
    queue: deque[_Batch] = field(default_factory=deque)
    unsettled: list[_Batch] = field(default_factory=list)  # Sent or waiting, by sequence; at most five.
    outcasts: list[_Batch] = field(default_factory=list)  # Certainly not stored; they wait for the new epoch.
    enqueued: int = 0
    next_sequence: int = 0
    last_acked_sequence: int = NO_SEQUENCE
    last_acked_ms: int = NO_TIMESTAMP
    gap: int | None = None  # Order of the first batch whose assigned sequence will never be stored.
    unresolved: bool = False  # A batch was given up that may or may not be stored.

    def has_gap_before(self, batch: _Batch) -> bool:
        return self.gap is not None and self.gap < batch.order

    def lose(self, batch: _Batch) -> None:
        """The batch was given up, and its sequence with it; it may or may not be stored."""
        if batch.maybe_stored:
            self.unresolved = True
        elif self.gap is None or batch.order < self.gap:
            self.gap = batch.order

    def batches(self) -> Iterator[_Batch]:
        yield from self.unsettled
        yield from self.outcasts
        yield from self.queue


class InFlight(Generic[PartitionT]):
    """One producer's batches in flight and queued, per partition."""

    __slots__ = (
        "_abort_needed",
        "_in_flight_max",
        "_lanes",
        "_rest_ms",
        "idempotent",
        "identity",
        "transactional",
    )

    def __init__(
        self,
        *,
        in_flight_max: int = IN_FLIGHT_MAX,
        idempotent: bool = True,
        transactional: bool = False,
        rest_ms: int = REST_MS,
    ) -> None:
        if in_flight_max < 1 or (idempotent and in_flight_max > IN_FLIGHT_MAX):
            raise ConfigError(
                f"max.in.flight.requests.per.connection={in_flight_max}: with enable.idempotence={idempotent} it is "
                f"at least 1{f' and at most {IN_FLIGHT_MAX}, or set enable.idempotence=false' if idempotent else ''}"
            )
        if transactional and not idempotent:
            raise ConfigError(
                "transactional.id is set and enable.idempotence=false: a transaction needs idempotence"
            )
        self.idempotent = idempotent
        self.transactional = transactional
        self.identity = NO_IDENTITY
        self._in_flight_max = in_flight_max
        self._rest_ms = rest_ms
        self._lanes: dict[PartitionT, _Lane] = {}
        self._abort_needed = False

    def use_identity(self, producer_id: int, producer_epoch: int) -> None:
        """Set the identity from InitProducerId (or EndTxn, under transactions v2); a partition adopts it when it is
        idle."""
        self.identity = Identity(producer_id, producer_epoch)
        self._abort_needed = False
        for lane in self._lanes.values():
            if lane.gap is not None and not lane.unsettled:
                self._take_up(lane)

    def enqueue(self, partition: PartitionT, batch_id: int, records_count: int) -> None:
        """Queue a finished batch behind the partition's earlier ones."""
        if records_count < 1:
            raise InvariantError(f"batch {batch_id} for {partition} has {records_count} records")
        lane = self._lanes.setdefault(partition, _Lane())
        lane.queue.append(_Batch(batch_id, records_count, lane.enqueued))
        lane.enqueued += 1

    def partitions(self) -> Iterator[PartitionT]:
        """Partitions with anything queued or unsettled."""
        return (
            partition for partition, lane in self._lanes.items() if next(lane.batches(), None) is not None
        )

    def send(self, partition: PartitionT, now_ms: int) -> Send[PartitionT] | None:
        """The batch to send now, marked as sent; None while the partition must wait."""
        lane = self._lanes.get(partition)
        if lane is None:
            return None
        batch = self._next(lane, now_ms) if self.idempotent else self._next_unordered(lane)
        if batch is None:
            return None
        batch.place = _Place.SENT
        batch.attempts += 1
        return Send(partition, batch.batch_id, lane.identity, batch.base_sequence, batch.attempts)

    def upcoming(self, partition: PartitionT) -> int | None:
        """The partition's next batch, even if it must still wait; None without one."""
        lane = self._lanes.get(partition)
        if lane is None:
            return None
        again = (batch.batch_id for batch in lane.unsettled if batch.place is _Place.WAITING)
        return next(again, lane.queue[0].batch_id if lane.queue else None)

    def has_room(self, partition: PartitionT, now_ms: int) -> bool:
        """Whether a batch enqueued now could leave at once; until then the open batch may keep growing."""
        lane = self._lanes.get(partition)
        if not self.idempotent:
            return lane is None or (not lane.queue and len(lane.unsettled) < self._in_flight_max)
        if self.identity == NO_IDENTITY or self._abort_needed:
            return False
        if lane is None:
            return True
        if lane.queue or lane.gap is not None or lane.unresolved:
            return False
        if any(batch.attempts > 1 or batch.place is _Place.WAITING for batch in lane.unsettled):
            return False
        probes = bool(lane.unsettled) and self._must_probe(lane, now_ms)
        return len(lane.unsettled) < (1 if probes else self._in_flight_max)

    def split(self, partition: PartitionT, batch_id: int, pieces: Sequence[tuple[int, int]]) -> None:
        """Split a batch refused as too large into pieces, (id, records) each, with its place and its sequences."""
        lane = self._lanes.get(partition)
        batch = next((one for one in lane.unsettled if one.batch_id == batch_id), None) if lane else None
        if lane is None or batch is None or batch.place is not _Place.SENT:
            raise InvariantError(f"batch {batch_id} for {partition}: only one that is sent can be split")
        if sum(count for _id, count in pieces) != batch.records_count:
            raise InvariantError(
                f"batch {batch_id} for {partition} has {batch.records_count} records, its pieces {pieces}"
            )
        at = lane.unsettled.index(batch)
        if not self.idempotent:
            lane.unsettled.remove(batch)
            for piece_id, count in reversed(pieces):
                lane.queue.appendleft(_Batch(piece_id, count, batch.order))
            return
        sequence = batch.base_sequence
        replacing = []
        for piece_id, count in pieces:
            piece = _Batch(piece_id, count, batch.order, _Place.WAITING, sequence)
            piece.maybe_stored = batch.maybe_stored
            replacing.append(piece)
            sequence = sequences.increment(sequence, count)
        lane.unsettled[at : at + 1] = replacing

    def _next(self, lane: _Lane, now_ms: int) -> _Batch | None:
        if any(batch.attempts > 1 or batch.place is _Place.WAITING for batch in lane.unsettled):
            first = lane.unsettled[0]
            return first if first.place is _Place.WAITING else None
        if not lane.queue or lane.gap is not None or lane.unresolved or self._abort_needed:
            return None
        if not lane.unsettled and lane.identity != self.identity:
            self._take_up(lane)
        if lane.identity == NO_IDENTITY:
            return None
        if len(lane.unsettled) >= (1 if self._must_probe(lane, now_ms) else self._in_flight_max):
            return None
        batch = lane.queue.popleft()
        batch.base_sequence = lane.next_sequence
        lane.next_sequence = sequences.increment(lane.next_sequence, batch.records_count)
        lane.unsettled.append(batch)
        return batch

    def _must_probe(self, lane: _Lane, now_ms: int) -> bool:
        """Whether the broker may not know the producer on this partition."""
        return lane.last_acked_sequence == NO_SEQUENCE or now_ms - lane.last_acked_ms > self._rest_ms

    def _next_unordered(self, lane: _Lane) -> _Batch | None:
        """Without idempotence the first batch in the queue leaves: a retry may be stored after later batches."""
        if not lane.queue or len(lane.unsettled) >= self._in_flight_max:
            return None
        lane.unsettled.append(lane.queue.popleft())
        return lane.unsettled[-1]

    def handle(self, event: Event[PartitionT], now_ms: int) -> list[Decision[PartitionT]]:
        """The decisions for the event's batch and its partition."""
        lane = self._lanes.get(event.partition)
        batch = (
            next((one for one in lane.batches() if one.batch_id == event.batch_id), None) if lane else None
        )
        if lane is None or batch is None:
            raise InvariantError(f"{event}: no such batch is unsettled")
        decisions: list[Decision[PartitionT]] = []
        match event:
            case Expired():
                self._on_expired(event.partition, lane, batch, decisions)
            case Answered() | Lost():
                if batch.place is not _Place.SENT:
                    raise InvariantError(f"{event}: the batch is {batch.place.value}, not sent")
                if isinstance(event, Lost):
                    self._on_error(event, lane, batch, ErrorCode.NETWORK_EXCEPTION, decisions)
                elif event.code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                    self._on_stored(event, lane, batch, now_ms, decisions)
                else:
                    self._on_error(event, lane, batch, event.code, decisions)
        if self.idempotent:
            self._after(lane, decisions)
        return decisions

    def abandon(self, code: ErrorCode) -> list[Decision[PartitionT]]:
        """Fail every batch that is not in flight, as for an abort."""
        decisions: list[Decision[PartitionT]] = []
        for partition, lane in self._lanes.items():
            for batch in [one for one in lane.batches() if one.place is not _Place.SENT]:
                self._fail(partition, lane, batch, code, decisions)
            if self.idempotent:
                self._after(lane, decisions)
        return decisions

    def _on_stored(
        self,
        event: Answered[PartitionT],
        lane: _Lane,
        batch: _Batch,
        now_ms: int,
        decisions: list[Decision[PartitionT]],
    ) -> None:
        lane.unsettled.remove(batch)
        if self.idempotent:
            last = batch.last_sequence
            if (
                lane.last_acked_sequence == NO_SEQUENCE
                or sequences.distance(lane.last_acked_sequence, last) > 0
            ):
                lane.last_acked_sequence = last
            lane.last_acked_ms = now_ms
        if not batch.expired:
            known = event.code is ErrorCode.NONE
            decisions.append(
                Settle(event.partition, batch.batch_id, event.base_offset if known else UNKNOWN_OFFSET)
            )

    def _on_error(
        self,
        event: Answered[PartitionT] | Lost[PartitionT],
        lane: _Lane,
        batch: _Batch,
        code: ErrorCode,
        decisions: list[Decision[PartitionT]],
    ) -> None:
        batch.maybe_stored = batch.maybe_stored or code not in NOT_STORED
        batch.place = _Place.WAITING
        if batch.expired:
            self._remove(lane, batch)
        elif not self.idempotent and code.retriable and event.retries_left:
            lane.unsettled.remove(batch)
            batch.place = _Place.QUEUED
            lane.queue.appendleft(batch)
            decisions.append(Retry(event.partition, batch.batch_id, code))
        elif code in _OUT_OF_SEQUENCE and self.idempotent:
            self._on_out_of_sequence(event.partition, lane, batch, code, decisions)
        elif code.retriable and event.retries_left:
            decisions.append(Retry(event.partition, batch.batch_id, code))
        else:
            self._fail(event.partition, lane, batch, code, decisions)

    def _on_out_of_sequence(
        self,
        partition: PartitionT,
        lane: _Lane,
        batch: _Batch,
        code: ErrorCode,
        decisions: list[Decision[PartitionT]],
    ) -> None:
        """45 (or 59 from old brokers): the broker expects another sequence."""
        acked = lane.last_acked_sequence
        if batch is not lane.unsettled[0]:
            decisions.append(Retry(partition, batch.batch_id, code))  # Earlier batches are unsettled.
        elif sequences.in_sequence(acked, batch.base_sequence):
            # All earlier batches are acknowledged: the broker has lost records, or no longer knows this batch.
            self._fail(partition, lane, batch, code, decisions)
        elif acked != NO_SEQUENCE and sequences.distance(batch.base_sequence, acked) >= 0:
            # Later batches are acknowledged: stored now, this one would be out of order.
            self._fail(partition, lane, batch, code, decisions)
        elif lane.has_gap_before(batch) or not batch.maybe_stored:
            # A failed batch before it left the gap, and this one is not stored: resend it under the next epoch.
            self._cast_out(lane, batch)
            decisions.append(Retry(partition, batch.batch_id, code))
        else:
            self._fail(partition, lane, batch, code, decisions)

    def _on_expired(
        self, partition: PartitionT, lane: _Lane, batch: _Batch, decisions: list[Decision[PartitionT]]
    ) -> None:
        if batch.expired:
            raise InvariantError(f"batch {batch.batch_id} for {partition} expired twice")
        if batch.place is not _Place.SENT:
            self._fail(partition, lane, batch, ErrorCode.REQUEST_TIMED_OUT, decisions)
            return
        batch.expired = True
        decisions.append(Fail(partition, batch.batch_id, ErrorCode.REQUEST_TIMED_OUT, maybe_stored=True))

    def _fail(
        self,
        partition: PartitionT,
        lane: _Lane,
        batch: _Batch,
        code: ErrorCode,
        decisions: list[Decision[PartitionT]],
    ) -> None:
        decisions.append(Fail(partition, batch.batch_id, code, batch.maybe_stored))
        self._remove(lane, batch)

    def _remove(self, lane: _Lane, batch: _Batch) -> None:
        """Take the batch out; an assigned sequence of the batch is now missing, or may be."""
        if batch.place is _Place.QUEUED:
            lane.queue.remove(batch)
        elif batch in lane.outcasts:
            lane.outcasts.remove(batch)
        else:
            lane.unsettled.remove(batch)
            lane.lose(batch)

    def _cast_out(self, lane: _Lane, batch: _Batch) -> None:
        """The batch is not stored and cannot be stored in this epoch: it waits for the next."""
        batch.maybe_stored = False
        lane.unsettled.remove(batch)
        lane.lose(batch)
        insort(lane.outcasts, batch, key=_order)

    def _after(self, lane: _Lane, decisions: list[Decision[PartitionT]]) -> None:
        """Resolve gaps in the partition's sequences, as far as they are known."""
        for batch in list(lane.unsettled):
            if batch.place is _Place.WAITING and not batch.maybe_stored and lane.has_gap_before(batch):
                self._cast_out(lane, batch)
        lane.unresolved = lane.unresolved or any(batch.expired for batch in lane.unsettled)
        if lane.unresolved and not lane.unsettled:
            # Nothing is in flight. If the last sequence was acknowledged, every earlier one is stored; otherwise there
            # is a gap.
            if lane.gap is None and not sequences.in_sequence(lane.last_acked_sequence, lane.next_sequence):
                lane.gap = -1  # Before every queued batch.
            lane.unresolved = False
        if lane.gap is None:
            return
        if self.transactional and not self._abort_needed:
            self._abort_needed = True
            codes = (one.code for one in decisions if isinstance(one, Fail))
            decisions.append(NeedAbort(next(codes, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)))
        if not lane.unsettled:
            self._renew(lane, decisions)

    def _renew(self, lane: _Lane, decisions: list[Decision[PartitionT]]) -> None:
        """A new epoch for the partition: the producer's current one if the partition lags behind, else the next."""
        if lane.identity != self.identity:
            if self.identity != NO_IDENTITY:
                self._take_up(lane)
        elif self.transactional:
            return  # Only the coordinator bumps the epoch of a transactional producer.
        elif self.identity.producer_epoch < PRODUCER_EPOCH_MAX:
            self.identity = Identity(self.identity.producer_id, self.identity.producer_epoch + 1)
            decisions.append(EpochBumped(self.identity))
            self._take_up(lane)
        else:
            self.identity = NO_IDENTITY
            decisions.append(NeedProducerId())

    def _take_up(self, lane: _Lane) -> None:
        """Start at sequence 0 under the current identity, with the outcasts first."""
        lane.identity = self.identity
        lane.next_sequence = 0
        lane.last_acked_sequence = NO_SEQUENCE
        lane.gap = None
        for batch in reversed(lane.outcasts):
            batch.place = _Place.QUEUED
            batch.base_sequence = NO_SEQUENCE
            batch.attempts = 0
            lane.queue.appendleft(batch)
        lane.outcasts.clear()

"""The broker's memory of one producer on one partition, by which a retry is recognised.

Role.   Given a batch header: append it, answer it as a duplicate, or refuse it.
Flow.   `producer_state` finds the window of the batch's producer, calls `judge` before the write and
        `record` after it. Recovery and followers call `record` alone, for every batch they read.
Rules.  * Judging changes nothing; recording cannot fail.
        * A batch already in the window gets the offsets it got the first time.
        * A lower epoch is fenced (47); a higher one starts again at sequence 0 (else 45).
        * An unknown producer may start at any sequence: its records may have been deleted. Under transactions v2 the
          epoch is bumped whenever state is lost, so it must start at 0.
        * A gap, an overlap and a batch older than the window are refused alike (45): nothing is stored.
        * Five batches are kept, because a client may have five requests in flight.
Elsewhere. The set of producers, expiry, transactions: `producer_state`. Bytes on disk: `snapshot`.

The batches are packed into one `bytes` object: a busy broker holds a hundred thousand windows, and five tuples of
four integers each would take a kilobyte apiece and a place in every garbage collection.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from semel.core.idempotence import sequence as sequences
from semel.core.records.batch import TRANSACTIONAL_BIT, BatchHeader
from semel.errors import ErrorCode, Refuse
from semel.types import NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP, UNKNOWN_OFFSET

WINDOW_BATCHES_MAX: Final = 5
NO_COORDINATOR_EPOCH: Final = -1
PRODUCER_EPOCH_MAX: Final = 32767

BATCH: Final = Struct(">iqiq")  # The fields of a `WindowBatch`.
_WINDOW_BYTES_MAX: Final = WINDOW_BATCHES_MAX * BATCH.size


@dataclass(frozen=True, slots=True)
class Append:
    """Write the batch."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The batch is already stored: answer with the offsets of the first copy, store nothing."""

    base_offset: int
    last_offset: int
    timestamp_ms: int


Verdict: TypeAlias = Append | Duplicate | Refuse

APPEND: Final = Append()


class WindowBatch(NamedTuple):
    """One remembered batch."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int

    @property
    def first_sequence(self) -> int:
        return sequences.decrement(self.last_sequence, self.offset_delta)

    @property
    def base_offset(self) -> int:
        return self.last_offset - self.offset_delta


@dataclass(frozen=True, slots=True)
class ProducerEntry:
    """A window as plain values: to show, to compare, to save and to load."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_timestamp_ms: int
    current_txn_first_offset: int | None
    window: bytes  # The retained batches, packed, oldest first.
    # When this broker last wrote for the producer; replicas and recovered brokers differ here.
    last_write_ms: int = field(default=NO_TIMESTAMP, compare=False)

    @property
    def batches(self) -> tuple[WindowBatch, ...]:
        """The retained batches, oldest first."""
        return unpack_batches(self.window)

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.window else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.window else UNKNOWN_OFFSET


def pack_batches(batches: Iterable[WindowBatch]) -> bytes:
    return b"".join(BATCH.pack(*batch) for batch in batches)


def unpack_batches(window: bytes) -> tuple[WindowBatch, ...]:
    return tuple(map(WindowBatch._make, BATCH.iter_unpack(window)))


class ProducerWindow:
    """One producer on one partition."""

    __slots__ = (
        "_batches",
        "_first_sequences",
        "coordinator_epoch",
        "current_txn_first_offset",
        "last_sequence",
        "last_timestamp_ms",
        "last_write_ms",
        "producer_epoch",
    )

    def __init__(self) -> None:
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.coordinator_epoch = NO_COORDINATOR_EPOCH
        self.last_sequence = NO_SEQUENCE
        self.last_timestamp_ms = NO_TIMESTAMP
        self.last_write_ms = NO_TIMESTAMP  # By the broker's clock; clients set timestamps freely.
        self.current_txn_first_offset = UNKNOWN_OFFSET
        self._first_sequences: tuple[int, ...] = ()
        self._batches = b""

    @property
    def has_open_transaction(self) -> bool:
        return self.current_txn_first_offset >= 0

    @property
    def batches(self) -> tuple[WindowBatch, ...]:
        """The retained batches, oldest first."""
        return unpack_batches(self._batches)

    def judge(
        self,
        header: BatchHeader,
        *,
        sequenced: bool = True,
        transactions_v2: bool = False,
        lowest_sequence: int = sequences.SEQUENCE_MAX,
    ) -> Verdict:
        """Append, duplicate or refuse.

        `sequenced` is False for batches a coordinator writes in a producer's name: they carry no sequence.
        `lowest_sequence` is the lowest sequence waiting for the coordinator to confirm the transaction: a higher one is
        refused.
        """
        epoch = header.producer_epoch
        base_sequence = header.base_sequence
        if sequenced and base_sequence in self._first_sequences and epoch == self.producer_epoch:
            duplicate = self._find(base_sequence, header.last_sequence)
            if duplicate is not None:
                return duplicate
        if epoch < self.producer_epoch:
            return Refuse(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {header.producer_id}: epoch {epoch} is older than the known epoch {self.producer_epoch}",
            )
        if sequenced and not (  # Fast path: the next batch of a known producer.
            base_sequence == self.last_sequence + 1
            and epoch == self.producer_epoch
            and base_sequence <= lowest_sequence
        ):
            reason = self._out_of_order(epoch, base_sequence, transactions_v2, lowest_sequence)
            if reason is not None:
                return Refuse(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, f"producer {header.producer_id}: {reason}"
                )
        if self.current_txn_first_offset >= 0 and not header.attributes & TRANSACTIONAL_BIT:
            return Refuse(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id}: a batch outside of transactions, while its transaction "
                f"from offset {self.current_txn_first_offset} is open",
            )
        return APPEND

    def _find(self, first_sequence: int, last_sequence: int) -> Duplicate | None:
        for batch in self.batches:
            if batch.last_sequence == last_sequence and batch.first_sequence == first_sequence:
                return Duplicate(batch.base_offset, batch.last_offset, batch.timestamp_ms)
        return None

    def _out_of_order(
        self, epoch: int, base_sequence: int, transactions_v2: bool, lowest_sequence: int
    ) -> str | None:
        """Why the sequence is not the next one; None if it is."""
        if transactions_v2 and base_sequence != 0 and not self._batches:
            return f"sequence {base_sequence} without state; under transactions v2 the first sequence is 0"
        if base_sequence > lowest_sequence:
            return f"sequence {base_sequence} before {lowest_sequence}, which waits for its transaction"
        if self.producer_epoch == NO_PRODUCER_EPOCH:
            return None
        if epoch != self.producer_epoch:
            if base_sequence == 0:
                return None
            return f"epoch {epoch} begins at sequence {base_sequence}, a new epoch (known: {self.producer_epoch}) at 0"
        if sequences.in_sequence(self.last_sequence, base_sequence):
            return None
        return f"sequence {base_sequence} does not follow {self.last_sequence} in epoch {epoch}"

    def record(self, header: BatchHeader, now_ms: int = NO_TIMESTAMP) -> None:
        """The batch is in the log at `header.base_offset`."""
        delta = header.last_offset_delta
        first_sequence = header.base_sequence
        if first_sequence >= 0:
            last_sequence = (first_sequence + delta) & sequences.SEQUENCE_MAX
        else:  # A coordinator's batch has no sequence; Kafka counts back from -1 all the same.
            last_sequence = header.last_sequence
            first_sequence = sequences.decrement(last_sequence, delta)
        packed = BATCH.pack(last_sequence, header.base_offset + delta, delta, header.max_timestamp)
        if header.producer_epoch != self.producer_epoch:
            self.producer_epoch = header.producer_epoch
            self._batches = packed
            self._first_sequences = (first_sequence,)
        else:
            self._batches = (self._batches + packed)[-_WINDOW_BYTES_MAX:]
            self._first_sequences = (*self._first_sequences, first_sequence)[-WINDOW_BATCHES_MAX:]
        self.last_sequence = last_sequence
        self.last_timestamp_ms = header.max_timestamp
        self.last_write_ms = now_ms
        if self.current_txn_first_offset < 0 and header.attributes & TRANSACTIONAL_BIT:
            self.current_txn_first_offset = header.base_offset

    def judge_marker(
        self, producer_id: int, *, producer_epoch: int, coordinator_epoch: int, transaction_version: int
    ) -> Append | Refuse:
        """Whether a coordinator may end this producer's transaction.

        Under transactions v2 the marker carries the bumped epoch, so an equal epoch belongs to the previous
        transaction. It is accepted only where it must be a resent marker: no transaction is open, or the epoch is at
        its maximum.
        """
        known = self.producer_epoch
        repeated = producer_epoch == known and (not self.has_open_transaction or known == PRODUCER_EPOCH_MAX)
        stale = (
            producer_epoch <= known and not repeated if transaction_version >= 2 else producer_epoch < known
        )
        if stale:
            must = "above" if transaction_version >= 2 else "at least"
            return Refuse(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id}: a marker of epoch {producer_epoch}, it must be {must} the known epoch "
                f"{known} (transaction version {transaction_version})",
            )
        if coordinator_epoch < self.coordinator_epoch:
            return Refuse(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"producer {producer_id}: a marker of coordinator epoch {coordinator_epoch}, "
                f"older than the known {self.coordinator_epoch}",
            )
        return APPEND

    def record_marker(
        self, *, producer_epoch: int, coordinator_epoch: int, timestamp_ms: int, now_ms: int = NO_TIMESTAMP
    ) -> None:
        """A marker is in the log: the transaction is over, and a new epoch starts without batches."""
        if producer_epoch != self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.last_sequence = NO_SEQUENCE
            self._first_sequences = ()
            self._batches = b""
        self.coordinator_epoch = coordinator_epoch
        self.current_txn_first_offset = UNKNOWN_OFFSET
        self.last_timestamp_ms = timestamp_ms
        self.last_write_ms = now_ms

    def entry(self, producer_id: int) -> ProducerEntry:
        """The window as plain values."""
        return ProducerEntry(
            producer_id,
            self.producer_epoch,
            self.coordinator_epoch,
            self.last_timestamp_ms,
            self.current_txn_first_offset if self.has_open_transaction else None,
            self._batches,
            self.last_write_ms,
        )

    @classmethod
    def of(cls, entry: ProducerEntry) -> "ProducerWindow":
        """The window of a saved entry."""
        window = cls()
        window.producer_epoch = entry.producer_epoch
        window.coordinator_epoch = entry.coordinator_epoch
        window.last_timestamp_ms = entry.last_timestamp_ms
        window.last_write_ms = entry.last_write_ms
        if entry.current_txn_first_offset is not None:
            window.current_txn_first_offset = entry.current_txn_first_offset
        batches = entry.batches
        window.last_sequence = batches[-1].last_sequence if batches else NO_SEQUENCE
        window._first_sequences = tuple(batch.first_sequence for batch in batches)
        window._batches = entry.window
        return window

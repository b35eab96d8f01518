"""A partition's producers and their open transactions: who may append, and how far readers may see.

Role.   Holds one `ProducerWindow` per producer and the transactions that are open or not yet replicated. They give the
        first unstable offset and the last stable offset.
Flow.   `log.partition_log` calls `judge` (or `judge_marker`) before a write, `record` (or `record_marker`) after it; a
        marker that ended a transaction gives a `CompletedTxn`: `last_stable_offset_after` is written to the transaction
        index, then `complete`. Recovery, truncation and followers: `clear`, `load` a snapshot, then record the log from
        there on. A new leader of the partition calls `doubt_all`.
Rules.  * Judging changes nothing. Recording cannot fail: the batch is already in the log.
        * Nothing is shared between partitions: each has its own object.
        * A producer is forgotten `producer.id.expiration.ms` after its last write, never while its transaction is
          open. Deleting records or moving the log start forgets nobody.
        * An open transaction in doubt takes no batch until its coordinator confirms it again. Under two-phase commit
          its producer may have been fenced since, and only the coordinator knows.
        * A completed transaction stays unstable until its marker is replicated (`on_high_watermark`).
        * `map_end_offset` is the end of the recorded log, and the name of the next snapshot.
        * No step iterates over all transactions: recovery meets millions of them in one go.
Elsewhere. One producer's rules: `producer_window`. Transactions waiting for replication: `unreplicated`. Snapshot
        bytes: `snapshot`. Counters and log lines: the shells.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from semel.core.idempotence.producer_window import (
    APPEND,
    Append,
    Duplicate,
    ProducerEntry,
    ProducerWindow,
    Verdict,
)
from semel.core.idempotence.sequence import NO_SEQUENCE, SEQUENCE_MAX, increment
from semel.core.idempotence.unreplicated import Unreplicated
from semel.core.idempotence.verification import Verifications
from semel.core.records.batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader
from semel.errors import ErrorCode, InvariantError, Refuse
from semel.types import NO_TIMESTAMP

PRODUCER_ID_EXPIRATION_MS: Final = 86_400_000
LATE_TRANSACTION_BUFFER_MS: Final = 300_000

_UNKNOWN: Final = ProducerWindow()  # Used to judge producers without a window; never recorded into.


class CompletedTxn(NamedTuple):
    """A transaction whose marker is in the log at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class ProducerState:
    """All producers of one partition."""

    __slots__ = (
        "_open",
        "_producers",
        "_unreplicated",
        "_verifications",
        "first_unstable_offset",
        "map_end_offset",
        "producer_id_expiration_ms",
        "verification_required",
    )

    def __init__(
        self,
        *,
        producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
        verification_required: bool = False,
    ) -> None:
        self.producer_id_expiration_ms = producer_id_expiration_ms
        self.verification_required = verification_required  # transaction.partition.verification.enable
        self.map_end_offset = 0
        # Maintained at every change, because every append and every fetch reads it.
        self.first_unstable_offset: int | None = None
        self._producers: dict[int, ProducerWindow] = {}
        self._open: OrderedDict[int, int] = OrderedDict()  # First offset -> producer id, in offset order.
        self._unreplicated = Unreplicated()
        self._verifications = Verifications()

    def __len__(self) -> int:
        return len(self._producers)

    def __contains__(self, producer_id: int) -> bool:
        return producer_id in self._producers

    # Data batches.

    def judge(
        self,
        header: BatchHeader,
        *,
        transactions_v2: bool = False,
        by_coordinator: bool = False,
        verification_token: int | None = None,
    ) -> Verdict:
        """Append, duplicate or refuse a data batch a client sent (or a coordinator writes in a producer's name).

        `transactions_v2`: the request bumps epochs (KIP-890), so a producer without state must start at 0.
        """
        producer_id = header.producer_id
        if producer_id < 0:
            return APPEND
        sequenced = not by_coordinator
        if sequenced and header.base_sequence < 0:
            return Refuse(
                ErrorCode.INVALID_RECORD,
                f"producer {producer_id}: base sequence {header.base_sequence}, with a producer id it is 0 or more",
            )
        window = self._producers.get(producer_id, _UNKNOWN)
        if not header.attributes & TRANSACTIONAL_BIT and not self._verifications.guards:
            return window.judge(header, sequenced=sequenced, transactions_v2=transactions_v2)
        return self._judge_guarded(header, window, sequenced, transactions_v2, verification_token)

    def _judge_guarded(
        self,
        header: BatchHeader,
        window: ProducerWindow,
        sequenced: bool,
        transactions_v2: bool,
        token: int | None,
    ) -> Verdict:
        """`judge` for a batch that may open a transaction, or whose producer is being confirmed."""
        lowest_sequence = SEQUENCE_MAX
        guard = self._verifications.guards.get(header.producer_id)
        if guard is not None:
            transactions_v2 = transactions_v2 or guard.supports_epoch_bump
            lowest_sequence = guard.lowest_sequence
        verdict = window.judge(
            header, sequenced=sequenced, transactions_v2=transactions_v2, lowest_sequence=lowest_sequence
        )
        fenced = isinstance(verdict, Refuse) and verdict.code is ErrorCode.INVALID_PRODUCER_EPOCH
        if (
            isinstance(verdict, Duplicate)
            or fenced
            or not self.verification_required
            or not header.is_transactional
        ):
            return verdict
        if self._goes_on(header.producer_id, window, header.producer_epoch) or self._verifications.holds(
            header.producer_id, token
        ):
            return verdict
        return Refuse(
            ErrorCode.INVALID_TXN_STATE,
            f"producer {header.producer_id}: the batch of epoch {header.producer_epoch} belongs to no open "
            "transaction, and the coordinator has not confirmed one since the last marker, fence or start of the leader",
        )

    def _goes_on(self, producer_id: int, window: ProducerWindow, producer_epoch: int) -> bool:
        """Whether a batch continues an open transaction that is not in doubt."""
        return (
            window.has_open_transaction
            and window.producer_epoch == producer_epoch
            and producer_id not in self._verifications.doubted
        )

    def record(self, header: BatchHeader, *, now_ms: int = NO_TIMESTAMP) -> None:
        """A data batch is in the log at `header.base_offset`; batches without a producer count too."""
        base_offset = header.base_offset
        attributes = header.attributes
        self.map_end_offset = base_offset + header.last_offset_delta + 1
        producer_id = header.producer_id
        if producer_id < 0:
            return
        if attributes & CONTROL_BIT:
            if header.records_count > 0:
                raise InvariantError(
                    f"the control batch at offset {base_offset} was recorded as data: use record_marker"
                )
            return  # The cleaner removed the marker; the empty batch has no effect.
        window = self._producers.get(producer_id)
        if window is None:
            window = self._producers[producer_id] = ProducerWindow()
        if attributes & TRANSACTIONAL_BIT:
            if window.current_txn_first_offset < 0:
                self._open[base_offset] = producer_id
                if self.first_unstable_offset is None:
                    self.first_unstable_offset = base_offset
            self._verifications.on_data(producer_id)
        window.record(header, now_ms)

    def start_verification(
        self,
        producer_id: int,
        *,
        producer_epoch: int,
        base_sequence: int,
        supports_epoch_bump: bool,
        now_ms: int,
    ) -> int | Refuse | None:
        """Called before asking the coordinator: the token for `judge`, or None if a transaction is open and not in
        doubt."""
        window = self._producers.get(producer_id, _UNKNOWN)
        if producer_epoch < window.producer_epoch:
            return Refuse(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id}: epoch {producer_epoch} is older than the known epoch {window.producer_epoch}",
            )
        if self._goes_on(producer_id, window, producer_epoch):
            return None
        if window.has_open_transaction and window.producer_epoch == producer_epoch:
            base_sequence = SEQUENCE_MAX  # In doubt: the window already knows the next sequence.
        return self._verifications.start(
            producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            supports_epoch_bump=supports_epoch_bump,
            now_ms=now_ms,
        )

    def is_guarded(self, producer_id: int, token: int) -> bool:
        """Whether the token of `start_verification` still counts: no batch and no marker of the producer came since."""
        return self._verifications.holds(producer_id, token)

    def doubt(self, producer_id: int) -> None:
        """Another client took the producer's transaction over: the coordinator must confirm its next batch."""
        window = self._producers.get(producer_id, _UNKNOWN)
        self._verifications.doubt(producer_id, is_open=window.has_open_transaction)

    def doubt_all(self) -> None:
        """For a new leader: open transactions were confirmed to the former leader, which may have learned of a fence
        since."""
        for producer_id in self._open.values():
            self.doubt(producer_id)

    # Markers.

    def judge_marker(
        self, *, producer_id: int, producer_epoch: int, coordinator_epoch: int, transaction_version: int
    ) -> Append | Refuse:
        """Whether to write the marker a coordinator sent."""
        return self._producers.get(producer_id, _UNKNOWN).judge_marker(
            producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction_version,
        )

    def record_marker(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        commit: bool,
        offset: int,
        timestamp_ms: int,
        now_ms: int = NO_TIMESTAMP,
    ) -> CompletedTxn | None:
        """A marker is in the log at `offset`; the transaction it ended, to be completed, or None if none was open.

        A marker creates the window of an unknown producer, so that its epoch fences from now on.
        """
        self.map_end_offset = offset + 1
        window = self._producers.get(producer_id)
        if window is None:
            window = self._producers[producer_id] = ProducerWindow()
        first_offset = window.current_txn_first_offset
        window.record_marker(
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp_ms=timestamp_ms,
            now_ms=now_ms,
        )
        self._verifications.on_marker(producer_id, producer_epoch)
        return CompletedTxn(producer_id, first_offset, offset, not commit) if first_offset >= 0 else None

    def complete(self, completed: CompletedTxn) -> None:
        """The transaction leaves the open ones and waits for its marker to be replicated."""
        if self._open.pop(completed.first_offset, None) is None:
            raise InvariantError(f"{completed} was completed, but no transaction is open from that offset")
        self._unreplicated.add(completed.first_offset, completed.last_offset)
        self._update_first_unstable()

    # Visible offsets.

    @property
    def first_undecided_offset(self) -> int | None:
        """Where the oldest open transaction begins."""
        return next(iter(self._open), None)

    def last_stable_offset(self, high_watermark: int, log_start_offset: int = 0) -> int:
        """The last stable offset: read_committed consumers see records below it."""
        first_unstable = self.first_unstable_offset
        if first_unstable is None or first_unstable >= high_watermark:
            return high_watermark
        return min(max(first_unstable, log_start_offset), high_watermark)

    def last_stable_offset_after(self, completed: CompletedTxn) -> int:
        """The last stable offset once `completed` is stable, for its entry in the transaction index."""
        for first_offset, producer_id in self._open.items():
            if producer_id != completed.producer_id:
                return first_offset
        return completed.last_offset + 1

    def on_high_watermark(self, high_watermark: int) -> None:
        """Markers below it are replicated: their transactions are stable."""
        if self._unreplicated.release(high_watermark):
            self._update_first_unstable()

    def on_log_start_offset(self, log_start_offset: int) -> None:
        """Records below it were deleted. Producers and open transactions are kept."""
        self.on_high_watermark(log_start_offset)
        self.map_end_offset = max(self.map_end_offset, log_start_offset)

    def _update_first_unstable(self) -> None:
        undecided, unreplicated = self.first_undecided_offset, self._unreplicated.first_offset
        if undecided is None or (unreplicated is not None and unreplicated < undecided):
            self.first_unstable_offset = unreplicated
        else:
            self.first_unstable_offset = undecided

    # Forgetting, loading, showing.

    def next_sequence(self, producer_id: int, producer_epoch: int) -> int:
        """The producer's next sequence; 0 for an unknown producer or epoch."""
        window = self._producers.get(producer_id, _UNKNOWN)
        if window.producer_epoch != producer_epoch or window.last_sequence == NO_SEQUENCE:
            return 0
        return increment(window.last_sequence, 1)

    @property
    def producers(self) -> Mapping[int, ProducerWindow]:
        """Every known producer's window, by producer id. Read only."""
        return MappingProxyType(self._producers)

    @property
    def open_transactions(self) -> Iterator[tuple[int, int]]:
        """(first offset, producer id) of each open transaction, oldest first."""
        return iter(self._open.items())

    @property
    def open_transactions_count(self) -> int:
        return len(self._open)

    def entries(self) -> list[ProducerEntry]:
        """Every producer as plain values, by producer id, so that equal states give equal snapshots."""
        return [self._producers[producer_id].entry(producer_id) for producer_id in sorted(self._producers)]

    def expire(self, now_ms: int) -> int:
        """Forget producers idle for `producer.id.expiration.ms`; how many."""
        before_ms = now_ms - self.producer_id_expiration_ms
        self._verifications.expire(before_ms)
        return self._forget_idle(before_ms)

    def _forget_idle(self, before_ms: int) -> int:
        idle = [
            producer_id
            for producer_id, window in self._producers.items()
            if window.last_timestamp_ms <= before_ms
            and window.last_write_ms <= before_ms
            and window.current_txn_first_offset < 0
        ]
        for producer_id in idle:
            del self._producers[producer_id]
        return len(idle)

    def has_late_transaction(self, now_ms: int, *, transaction_timeout_max_ms: int) -> bool:
        """Whether the oldest open transaction has outlived the longest allowed timeout and therefore hangs."""
        producer_id = next(iter(self._open.values()), None)
        window = None if producer_id is None else self._producers.get(producer_id)
        if window is None or window.last_timestamp_ms <= 0:
            return False
        return now_ms - window.last_timestamp_ms > transaction_timeout_max_ms + LATE_TRANSACTION_BUFFER_MS

    def clear(self, map_end_offset: int = 0) -> None:
        """Forget everything, before loading or when the log restarts at that offset."""
        self._producers.clear()
        self._open.clear()
        self._unreplicated.clear()
        self._verifications.doubted.clear()
        self.first_unstable_offset = None
        self.map_end_offset = map_end_offset

    def take_over(self, other: "ProducerState") -> None:
        """Become what another object has recorded; the other one is not used any more. Settings stay."""
        self.clear(other.map_end_offset)
        self._producers.update(other._producers)  # The dict stays the same one: there are live views of it.
        self._open = other._open
        self._unreplicated = other._unreplicated
        self._update_first_unstable()

    def load(
        self, entries: Iterable[ProducerEntry], *, map_end_offset: int, now_ms: int | None = None
    ) -> None:
        """Replace everything by a snapshot taken at `map_end_offset`; with `now_ms`, leave out expired producers."""
        self.clear(map_end_offset)
        for entry in entries:
            self._producers[entry.producer_id] = ProducerWindow.of(entry)
        if now_ms is not None:
            self._forget_idle(now_ms - self.producer_id_expiration_ms)
        opened = sorted(
            (window.current_txn_first_offset, producer_id)
            for producer_id, window in self._producers.items()
            if window.has_open_transaction
        )
        self._open.update(opened)
        self._update_first_unstable()

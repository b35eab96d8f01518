"""The coordinator's state of one transactional id, and its moves.

Role.   `Transaction` is an immutable value: each move returns a new one.
Flow.   The coordinator's decisions call them; `rows` writes the result to `__transaction_state` and reads it back.
Rules.  * A move that `states.MOVES` does not list raises `InvariantError`.
        * An epoch never goes down for one producer id. After epoch 32766 the next owner gets a new producer id and
          epoch 0; 32767 is reserved for the markers that fence the last owner.
        * Transactions v2 bump the epoch with every end, so that a late batch or EndTxn cannot be taken for the next
          transaction's. The bump is part of the row that decides the outcome.
        * A prepared transaction of two-phase commit that a new client takes over has two identities: the one it was
          written under (its markers need it) and the new client's (`next_*`), which fences earlier clients.
Elsewhere. The epoch before the last bump, by which a retried InitProducerId is recognised, is not in Kafka's rows:
`coordinator.shard` keeps it.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from semel.core.transactions.states import MOVES, TransactionState
from semel.errors import InvariantError
from semel.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, TopicPartition

EPOCH_LAST: Final = 32766
"""The highest epoch a client is given."""
EPOCH_MAX: Final = 32767
NO_TIMEOUT_MS: Final = 2**31 - 1
"""The timeout of a transaction that never times out: two-phase commit."""
TRANSACTIONS_V1: Final = 0
"""The number in Kafka's rows for clients before transactions v2."""
TRANSACTIONS_V2: Final = 2

NO_PARTITIONS: Final[Mapping[TopicPartition, None]] = {}


class Transaction(NamedTuple):
    """One transactional id."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    # A dict, never mutated, keeps the order of joining.
    partitions: Mapping[TopicPartition, None] = NO_PARTITIONS
    start_ms: int = NO_TIMESTAMP
    last_update_ms: int = NO_TIMESTAMP
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    next_producer_epoch: int = NO_PRODUCER_EPOCH
    client_version: int = TRANSACTIONS_V1

    # Ownership.

    @property
    def is_kept(self) -> bool:
        """Whether a client has taken over the prepared transaction of another (two-phase commit)."""
        return self.next_producer_epoch != NO_PRODUCER_EPOCH

    @property
    def client_producer_id(self) -> int:
        """The producer id its client must send."""
        return self.next_producer_id if self.is_kept else self.producer_id

    @property
    def client_producer_epoch(self) -> int:
        """The epoch its client must send."""
        return self.next_producer_epoch if self.is_kept else self.producer_epoch

    @property
    def is_exhausted(self) -> bool:
        """Whether its client has the last epoch of the producer id."""
        return self.client_producer_epoch >= EPOCH_LAST

    @property
    def is_two_phase(self) -> bool:
        return self.timeout_ms == NO_TIMEOUT_MS

    @property
    def bumps_epochs(self) -> bool:
        """Whether it ends under transactions v2, which bumps the epoch."""
        return self.client_version >= TRANSACTIONS_V2

    @property
    def marker_version(self) -> int:
        """The transaction version of WriteTxnMarkers, by which leaders check its markers."""
        return self.client_version

    # Moves. Each returns the new transaction.

    def _moved(self, state: TransactionState, now_ms: int, **changes: Any) -> "Transaction":
        if state not in MOVES[self.state]:
            raise InvariantError(f"{self.transactional_id}: no move from {self.state.label} to {state.label}")
        return self._replace(
            state=state, last_update_ms=now_ms, previous_producer_id=self.producer_id, **changes
        )

    def owned_anew(
        self, *, producer_id: int, producer_epoch: int, timeout_ms: int, now_ms: int
    ) -> "Transaction":
        """After an InitProducerId without an open transaction."""
        return self._moved(
            TransactionState.EMPTY,
            now_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            timeout_ms=timeout_ms,
            partitions=NO_PARTITIONS,
            start_ms=NO_TIMESTAMP,
        )

    def kept(
        self, *, client_producer_id: int, client_producer_epoch: int, timeout_ms: int, now_ms: int
    ) -> "Transaction":
        """A new client takes the open transaction over unchanged."""
        return self._moved(
            TransactionState.ONGOING,
            now_ms,
            next_producer_id=client_producer_id,
            next_producer_epoch=client_producer_epoch,
            timeout_ms=timeout_ms,
        )

    def with_partitions(
        self, added: Iterable[TopicPartition], *, client_version: int, now_ms: int
    ) -> "Transaction":
        """Partitions join; the first ones begin the transaction."""
        begun = self.state is TransactionState.ONGOING
        return self._moved(
            TransactionState.ONGOING,
            now_ms,
            partitions={**(self.partitions if begun else NO_PARTITIONS), **dict.fromkeys(added)},
            start_ms=self.start_ms if begun else now_ms,
            client_version=client_version,
        )

    def prepared(
        self, *, commit: bool, client_version: int, now_ms: int, next_producer_id: int = NO_PRODUCER_ID
    ) -> "Transaction":
        """The outcome is decided. `next_producer_id` is set if the client's epochs are exhausted."""
        state = TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT
        begun = self.state is TransactionState.ONGOING
        changes: dict[str, Any] = {
            "start_ms": self.start_ms if begun else now_ms,
            "client_version": client_version,
        }
        if client_version >= TRANSACTIONS_V2:
            changes["producer_epoch"] = min(self.producer_epoch + 1, EPOCH_MAX)
            if next_producer_id != NO_PRODUCER_ID:
                changes["next_producer_id"] = next_producer_id
                changes["next_producer_epoch"] = 0 if self.is_kept else NO_PRODUCER_EPOCH
            elif self.is_kept:
                changes["next_producer_epoch"] = self.next_producer_epoch + 1
        return self._moved(state, now_ms, **changes)

    def completed(self, now_ms: int) -> "Transaction":
        """Every marker is written."""
        commit = self.state is TransactionState.PREPARE_COMMIT
        producer_id, producer_epoch = self.identity_after
        return self._moved(
            TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT,
            now_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            next_producer_id=NO_PRODUCER_ID,
            next_producer_epoch=NO_PRODUCER_EPOCH,
            partitions=NO_PARTITIONS,
        )

    @property
    def identity_after(self) -> tuple[int, int]:
        """The client's producer id and epoch once a prepared transaction is complete."""
        if self.is_kept:
            return self.next_producer_id, self.next_producer_epoch
        if self.bumps_epochs and self.next_producer_id != NO_PRODUCER_ID:
            return self.next_producer_id, 0
        return self.producer_id, self.producer_epoch

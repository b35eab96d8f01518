"""Adding partitions to a transaction, and verifying that they were added.

Role.   AddPartitionsToTxn and AddOffsetsToTxn of v1's clients, the implicit adding of transactions v2 (Produce 12+,
        TxnOffsetCommit 5+), and the verification before a v1 client's first write to a partition.
Flow.   `shard.add_partitions` and `shard.verify_partitions` call these.
Rules.  * While markers are being written no partition is added: CONCURRENT_TRANSACTIONS, before any other check.
        * Adding a partition again writes no row.
        * Verifying changes nothing. A partition outside the transaction gives TRANSACTION_ABORTABLE.
        * A transaction that was taken over (two-phase commit) is closed: its keeper may only end it. Earlier clients
          are fenced, also on partitions already added.
"""

from collections.abc import Sequence
from typing import Final

from semel.core.transactions.coordinator import two_phase
from semel.core.transactions.coordinator.decision import Decision
from semel.core.transactions.states import TransactionState
from semel.core.transactions.transaction import Transaction
from semel.errors import ErrorCode
from semel.types import TopicPartition

_CONCURRENT: Final = Decision(ErrorCode.CONCURRENT_TRANSACTIONS)
_UNKNOWN: Final = Decision(ErrorCode.INVALID_PRODUCER_ID_MAPPING)


def add(
    transaction: Transaction | None,
    partitions: Sequence[TopicPartition],
    *,
    producer_id: int,
    producer_epoch: int,
    client_version: int,
    now_ms: int,
) -> Decision:
    """Add partitions to the producer's transaction, which begins with the first."""
    if transaction is None:
        return _UNKNOWN
    if transaction.state.is_prepared:
        return _CONCURRENT
    refused = _refused(transaction, producer_id, producer_epoch)
    if refused is not ErrorCode.NONE:
        return Decision(refused)
    if transaction.state is TransactionState.ONGOING and all(
        partition in transaction.partitions for partition in partitions
    ):
        return Decision()
    return Decision(
        moved=transaction.with_partitions(partitions, client_version=client_version, now_ms=now_ms)
    )


def verify(
    transaction: Transaction | None,
    partitions: Sequence[TopicPartition],
    *,
    producer_id: int,
    producer_epoch: int,
) -> list[ErrorCode]:
    """For each partition, whether it is in the producer's transaction."""
    if transaction is None:
        return [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * len(partitions)
    refused = _refused(transaction, producer_id, producer_epoch)
    if transaction.state.is_prepared and refused in (ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE):
        refused = ErrorCode.CONCURRENT_TRANSACTIONS
    if refused is not ErrorCode.NONE:
        return [refused] * len(partitions)
    return [
        ErrorCode.NONE if partition in transaction.partitions else ErrorCode.TRANSACTION_ABORTABLE
        for partition in partitions
    ]


def _refused(transaction: Transaction, producer_id: int, producer_epoch: int) -> ErrorCode:
    """Why this producer may not add partitions; NONE if it may."""
    if two_phase.is_keeper(transaction, producer_id, producer_epoch):
        return ErrorCode.INVALID_TXN_STATE
    if two_phase.is_predecessor(transaction, producer_id, producer_epoch):
        return ErrorCode.PRODUCER_FENCED
    if producer_id != transaction.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if producer_epoch != transaction.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.NONE

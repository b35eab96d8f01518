"""The end of a transaction: decided by its producer, or by the broker in its place.

Role.   EndTxn under both protocols, and the abort by which the broker fences a producer, after a timeout or an
        InitProducerId of another client.
Flow.   `shard.end_txn` calls `end`; `init_producer_id` and `expiry` call `abort_by_broker`.
Rules.  * v1: the epoch stays, and a repeated EndTxn gets the same answer again. A commit after an abort is refused, and
          the other way round.
        * v2: each end bumps the epoch, so the epoch tells a retry from the next end. A retry names the epoch before the
          bump, or the last epoch of the previous producer id.
        * v2: a commit after the broker's own abort is answered PRODUCER_FENCED, not INVALID_TXN_STATE: the transaction
          timed out.
        * v2: an empty abort succeeds and bumps the epoch: an unsure producer gets a clean start.
        * While markers are being written the answer is CONCURRENT_TRANSACTIONS. In v2 this comes before the epoch
          check, because a retry has an old epoch; in v1 after it, because a retry has the same epoch.
        * The broker's own abort always follows v2, whatever the client's version: its epoch fences, and no client gets
          it.
"""

from typing import Final

from semel.core.transactions.coordinator.decision import NO_PRODUCER_IDS_LEFT, Decision, ProducerIdSource
from semel.core.transactions.states import TransactionState
from semel.core.transactions.transaction import (
    EPOCH_LAST,
    TRANSACTIONS_V1,
    TRANSACTIONS_V2,
    Transaction,
)
from semel.errors import ErrorCode
from semel.types import NO_PRODUCER_ID

_CONCURRENT: Final = Decision(ErrorCode.CONCURRENT_TRANSACTIONS)
_FENCED: Final = Decision(ErrorCode.PRODUCER_FENCED)
_UNKNOWN: Final = Decision(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
_INVALID: Final = Decision(ErrorCode.INVALID_TXN_STATE)
_RESULTS: Final = {True: TransactionState.COMPLETE_COMMIT, False: TransactionState.COMPLETE_ABORT}


def end(
    transaction: Transaction | None,
    *,
    producer_id: int,
    producer_epoch: int,
    commit: bool,
    client_version: int,
    producer_ids: ProducerIdSource,
    now_ms: int,
) -> Decision:
    """Commit or abort, as the producer asks."""
    if transaction is None:
        return _UNKNOWN
    if client_version < TRANSACTIONS_V2:
        return _end_v1(transaction, producer_id, producer_epoch, commit, now_ms)
    return _end_v2(transaction, producer_id, producer_epoch, commit, producer_ids, now_ms)


def _end_v1(
    transaction: Transaction, producer_id: int, producer_epoch: int, commit: bool, now_ms: int
) -> Decision:
    if producer_id != transaction.client_producer_id:
        return _UNKNOWN
    if producer_epoch != transaction.client_producer_epoch:
        return _FENCED
    match transaction.state:
        case TransactionState.PREPARE_COMMIT | TransactionState.PREPARE_ABORT:
            return _CONCURRENT
        case TransactionState.ONGOING:
            return Decision(
                moved=transaction.prepared(commit=commit, client_version=TRANSACTIONS_V1, now_ms=now_ms)
            )
        case _:
            return Decision() if transaction.state is _RESULTS[commit] else _INVALID


def _end_v2(
    transaction: Transaction,
    producer_id: int,
    producer_epoch: int,
    commit: bool,
    producer_ids: ProducerIdSource,
    now_ms: int,
) -> Decision:
    state = transaction.state
    if state.is_prepared:
        return _CONCURRENT
    # Only an end of v2 bumps the epoch. After an end of v1 the previous epoch is a fenced producer's: Kafka takes its
    # EndTxn for a retry and answers with its successor's identity.
    at_rest = transaction.bumps_epochs and state in (
        TransactionState.COMPLETE_COMMIT,
        TransactionState.COMPLETE_ABORT,
    )
    rotated = (
        at_rest
        and producer_id == transaction.previous_producer_id
        and producer_epoch == EPOCH_LAST
        and transaction.producer_epoch == 0
    )
    if producer_id != transaction.client_producer_id and not rotated:
        return _UNKNOWN
    again = rotated or (at_rest and transaction.producer_epoch == producer_epoch + 1)
    if not again and producer_epoch != transaction.client_producer_epoch:
        return _FENCED
    if again:
        if state is _RESULTS[commit]:
            return Decision()
        return _FENCED if commit else _INVALID  # The commit is a retry, but the broker has aborted.
    if commit and state is not TransactionState.ONGOING:
        return _INVALID
    return _prepared_v2(transaction, commit, producer_ids, now_ms)


def abort_by_broker(transaction: Transaction, producer_ids: ProducerIdSource, now_ms: int) -> Decision:
    """Abort the ongoing transaction, with an epoch that fences its producer."""
    return _prepared_v2(transaction, False, producer_ids, now_ms)


def _prepared_v2(
    transaction: Transaction, commit: bool, producer_ids: ProducerIdSource, now_ms: int
) -> Decision:
    next_producer_id = NO_PRODUCER_ID
    if transaction.is_exhausted:
        fresh = producer_ids.take()
        if fresh is None:
            return NO_PRODUCER_IDS_LEFT
        next_producer_id = fresh
    return Decision(
        moved=transaction.prepared(
            commit=commit,
            client_version=TRANSACTIONS_V2,
            now_ms=now_ms,
            next_producer_id=next_producer_id,
        ),
        last_epoch=transaction.client_producer_epoch,
    )

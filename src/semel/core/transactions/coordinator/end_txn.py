"""The end of a transaction: decided by its producer, or by the broker in its place.

Role.   EndTxn under both protocols, and the abort with which the broker fences a producer (its time is up, or another
        one introduced itself).
Flow.   `shard.end_txn` calls `end`; `init_producer_id` and `expiry` call `abort_by_broker`.
Rules.  * v1: the epoch stays, and an end that is asked for twice is answered twice. Only the same end: commit and abort
          exclude each other.
        * v2: each end bumps the epoch, so the epoch says whether this is the next end or the last one again. A retry
          names the epoch before the bump, or the last epoch of the producer id before the present one.
        * v2: a commit that finds the broker's own abort is fenced, not told of a wrong state: its time was up.
        * v2: an abort of nothing is a success and bumps too: a producer that is unsure leaves no doubt behind.
        * While markers are on their way the answer is CONCURRENT_TRANSACTIONS: in v2 before epochs are compared, for a
          retry has an old one; in v1 after, for there it never has.
        * The broker's own abort is one of v2 whatever the client speaks: its epoch fences, and is given to nobody.
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
    # Only an end of v2 bumped the epoch. After one of v1 the epoch before is that of a fenced producer: Kafka takes its end
    # for a retry and hands it the identity of its successor.
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
        return (
            _FENCED if commit else _INVALID
        )  # What is to be committed again, the broker has aborted meanwhile.
    if commit and state is not TransactionState.ONGOING:
        return _INVALID
    return _prepared_v2(transaction, commit, producer_ids, now_ms)


def abort_by_broker(transaction: Transaction, producer_ids: ProducerIdSource, now_ms: int) -> Decision:
    """Abort what is ongoing, with an epoch that fences its producer."""
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

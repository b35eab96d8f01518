"""InitProducerId with a transactional id: the caller becomes its owner.

Role.   A producer sends InitProducerId at its start, or with its former identity after an error. It gets a new epoch,
        and every producer with an older one is fenced.
Flow.   `shard.init_producer_id` calls `decide`.
Rules.  * Of several concurrent producers exactly one ends up with the highest epoch: each decision bumps it.
        * The former owner's open transaction is aborted first, under an epoch no client gets. The answer is
          CONCURRENT_TRANSACTIONS until its markers are written, so no older record is still pending.
        * A producer that names (id, epoch) is accepted only if the pair is current, or repeats a request whose answer
          was lost: the epoch before the last bump, or the last epoch of the previous producer id.
        * An exhausted epoch leads to a new producer id.
Elsewhere. Two-phase commit's `keep_prepared_txn`: `two_phase`.
"""

from typing import Final, NamedTuple

from semel.core.transactions.coordinator import two_phase
from semel.core.transactions.coordinator.decision import (
    NO_PRODUCER_IDS_LEFT,
    Decision,
    ProducerIdSource,
    TransactionSettings,
)
from semel.core.transactions.coordinator.end_txn import abort_by_broker
from semel.core.transactions.states import TransactionState
from semel.core.transactions.transaction import EPOCH_LAST, Transaction
from semel.core.wire.messages.init_producer_id import InitProducerIdRequest
from semel.errors import ErrorCode
from semel.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

_CONCURRENT: Final = Decision(ErrorCode.CONCURRENT_TRANSACTIONS)
_FENCED: Final = Decision(ErrorCode.PRODUCER_FENCED)


class Identity(NamedTuple):
    """The former identity a returning producer names."""

    producer_id: int
    producer_epoch: int


def unfit(request: InitProducerIdRequest, settings: TransactionSettings) -> ErrorCode:
    """Why the request is invalid in any state; NONE if it is valid."""
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return ErrorCode.INVALID_REQUEST
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    refused = two_phase.unfit(request, settings)
    if refused is not ErrorCode.NONE:
        return refused
    if not request.enable_2pc and not 0 < request.transaction_timeout_ms <= settings.timeout_max_ms:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.NONE


def decide(
    transaction: Transaction | None,
    request: InitProducerIdRequest,
    *,
    last_epoch: int,
    producer_ids: ProducerIdSource,
    now_ms: int,
) -> Decision:
    """The next owner, or a refusal. `last_epoch` is the one the last decision recorded."""
    timeout_ms = two_phase.timeout_ms(request)
    expected = None
    if request.producer_id != NO_PRODUCER_ID:
        expected = Identity(request.producer_id, request.producer_epoch)
    if transaction is None:
        return _introduce(request.transactional_id or "", timeout_ms, producer_ids, now_ms)
    if transaction.state.is_prepared:
        return _CONCURRENT
    if expected is not None and not _is_known(transaction, expected):
        return _FENCED
    if transaction.state is TransactionState.ONGOING:
        if expected is not None and two_phase.is_closed_to(transaction, *expected):
            return _FENCED
        if request.keep_prepared_txn:
            return two_phase.keep(transaction, timeout_ms, producer_ids, now_ms)
        fenced = abort_by_broker(transaction, producer_ids, now_ms)
        return fenced if fenced.moved is None else fenced._replace(code=ErrorCode.CONCURRENT_TRANSACTIONS)
    return _own(transaction, expected, last_epoch, timeout_ms, producer_ids, now_ms)


def _is_known(transaction: Transaction, expected: Identity) -> bool:
    if expected.producer_id == transaction.client_producer_id:
        return True  # `_own` compares the epoch.
    return expected.producer_id == transaction.previous_producer_id and expected.producer_epoch >= EPOCH_LAST


def _introduce(
    transactional_id: str, timeout_ms: int, producer_ids: ProducerIdSource, now_ms: int
) -> Decision:
    producer_id = producer_ids.take()
    if producer_id is None:
        return NO_PRODUCER_IDS_LEFT
    nobody = Transaction(transactional_id, producer_id, NO_PRODUCER_EPOCH, timeout_ms)
    return Decision(
        moved=nobody.owned_anew(
            producer_id=producer_id, producer_epoch=0, timeout_ms=timeout_ms, now_ms=now_ms
        ),
        last_epoch=NO_PRODUCER_EPOCH,
    )


def _own(
    transaction: Transaction,
    expected: Identity | None,
    last_epoch: int,
    timeout_ms: int,
    producer_ids: ProducerIdSource,
    now_ms: int,
) -> Decision:
    """With no open transaction: the next epoch, the same one for a retry, or a new producer id."""
    producer_id, epoch = transaction.producer_id, transaction.producer_epoch
    remembered = NO_PRODUCER_EPOCH
    if expected is None or expected.producer_epoch == epoch:
        remembered = NO_PRODUCER_EPOCH if expected is None else epoch
        if transaction.is_exhausted:
            fresh = producer_ids.take()
            if fresh is None:
                return NO_PRODUCER_IDS_LEFT
            producer_id, epoch = fresh, 0
        else:
            epoch += 1
    elif expected.producer_epoch == last_epoch:
        remembered = (
            last_epoch  # A retry: only the owner knows that epoch, and a new owner would have cleared it.
        )
    else:
        return _FENCED
    moved = transaction.owned_anew(
        producer_id=producer_id, producer_epoch=epoch, timeout_ms=timeout_ms, now_ms=now_ms
    )
    return Decision(moved=moved, last_epoch=remembered)

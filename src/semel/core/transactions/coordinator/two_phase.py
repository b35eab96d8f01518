"""Two-phase commit (KIP-939): another system decides the end of a transaction.

Role.   With `enable_2pc` a transaction never times out. With `keep_prepared_txn` a returning client takes over its open
        transaction instead of having it aborted, and then commits or aborts it.
Flow.   Parts of `init_producer_id` and `partitions`.
Rules.  * Off unless `transaction.two.phase.commit.enable` is on.
        * The kept transaction stays under the identity it was written with, which the answer names; the client gets a
          new one. Earlier clients are fenced: they can neither end the transaction, nor abort it by InitProducerId, nor
          write to it, also on partitions already added. The answer waits until the leaders know (`FencePredecessor`).
        * A request that keeps a transaction names no (id, epoch).
        * A two-phase transaction never times out, whichever client keeps it: the other system may have committed
          already.
        * Without an open transaction, keeping is an ordinary InitProducerId, and the answer names no transaction.
"""

from semel.core.transactions.coordinator.decision import (
    NO_PRODUCER_IDS_LEFT,
    Decision,
    ProducerIdSource,
    TransactionSettings,
)
from semel.core.transactions.transaction import NO_TIMEOUT_MS, Transaction
from semel.core.wire.messages.init_producer_id import InitProducerIdRequest
from semel.errors import ErrorCode
from semel.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID


def unfit(request: InitProducerIdRequest, settings: TransactionSettings) -> ErrorCode:
    """Why the request is not allowed or contradicts itself; NONE if it is valid."""
    if request.enable_2pc and not settings.two_phase_commit:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if request.keep_prepared_txn and not settings.two_phase_commit:
        return ErrorCode.UNSUPPORTED_VERSION
    if request.keep_prepared_txn and request.producer_id != NO_PRODUCER_ID:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def timeout_ms(request: InitProducerIdRequest) -> int:
    """The timeout of the client's transactions."""
    return NO_TIMEOUT_MS if request.enable_2pc else request.transaction_timeout_ms


def keep(transaction: Transaction, timeout_ms: int, producer_ids: ProducerIdSource, now_ms: int) -> Decision:
    """Hand an ongoing transaction to a new client."""
    producer_id, epoch = transaction.client_producer_id, transaction.client_producer_epoch + 1
    if transaction.is_exhausted:
        fresh = producer_ids.take()
        if fresh is None:
            return NO_PRODUCER_IDS_LEFT
        producer_id, epoch = fresh, 0
    return Decision(
        moved=transaction.kept(
            client_producer_id=producer_id,
            client_producer_epoch=epoch,
            timeout_ms=NO_TIMEOUT_MS if transaction.is_two_phase else timeout_ms,
            now_ms=now_ms,
        ),
        last_epoch=NO_PRODUCER_EPOCH,
    )


def is_closed_to(transaction: Transaction, producer_id: int, producer_epoch: int) -> bool:
    """Whether a producer with this identity is barred from aborting the ongoing transaction by InitProducerId.

    Outside of two-phase commit any epoch of the producer id may, as in Kafka: an aborted transaction can be redone. A
    prepared one may be committed in the other system already.
    """
    client = transaction.client_producer_id, transaction.client_producer_epoch
    return (transaction.is_two_phase or transaction.is_kept) and (producer_id, producer_epoch) != client


def is_predecessor(transaction: Transaction, producer_id: int, producer_epoch: int) -> bool:
    """Whether another client keeps the transaction this producer wrote or kept before."""
    return (
        transaction.is_kept
        and producer_id in (transaction.producer_id, transaction.client_producer_id)
        and not is_keeper(transaction, producer_id, producer_epoch)
    )


def is_keeper(transaction: Transaction, producer_id: int, producer_epoch: int) -> bool:
    """Whether this is the client that keeps the transaction: it may end it, not add to it."""
    return transaction.is_kept and (producer_id, producer_epoch) == (
        transaction.client_producer_id,
        transaction.client_producer_epoch,
    )

"""Answers about a producer's identity, its sequences and its transactions.

Role.   What tells a producer that a newer one took over, that something before a batch is missing, or that a transaction must
        be aborted. What each means to a running producer is decided in `client/producer/transaction_errors` and `answers`.
"""

from semel.errors import ErrorCode
from semel.exceptions.tree import ApiException, ApplicationRecoverableException, RetriableException


class OutOfOrderSequenceException(ApiException):
    """A batch whose sequence does not follow the last one: something before it is missing."""

    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    abortable = True


class UnknownProducerIdException(OutOfOrderSequenceException):
    """The broker has forgotten this producer."""

    code = ErrorCode.UNKNOWN_PRODUCER_ID


class DuplicateSequenceException(ApiException):
    """A batch that is in the log already."""

    code = ErrorCode.DUPLICATE_SEQUENCE_NUMBER


class InvalidProducerEpochException(ApplicationRecoverableException):
    """A batch of an older epoch of its producer."""

    code = ErrorCode.INVALID_PRODUCER_EPOCH
    abortable = True
    fatal = False


class InvalidPidMappingException(ApplicationRecoverableException):
    """The transactional id belongs to another producer id, or to none any more."""

    code = ErrorCode.INVALID_PRODUCER_ID_MAPPING


class ProducerFencedException(ApplicationRecoverableException):
    """A newer producer with the same `transactional.id` took over: close this one."""

    code = ErrorCode.PRODUCER_FENCED


class InvalidTxnStateException(ApiException):
    """A step the transaction's state does not allow."""

    code = ErrorCode.INVALID_TXN_STATE
    fatal = True


class InvalidTxnTimeoutException(ApiException):
    """`transaction.timeout.ms` above the broker's `transaction.max.timeout.ms`."""

    code = ErrorCode.INVALID_TRANSACTION_TIMEOUT
    fatal = True


class ConcurrentTransactionsException(RetriableException):
    """The last transaction is still being ended."""

    code = ErrorCode.CONCURRENT_TRANSACTIONS


class TransactionAbortableException(ApiException):
    """The transaction cannot be committed: abort it and go on."""

    code = ErrorCode.TRANSACTION_ABORTABLE
    abortable = True


class TransactionCoordinatorFencedException(ApiException):
    """A coordinator that has been replaced."""

    code = ErrorCode.TRANSACTION_COORDINATOR_FENCED


class TransactionalIdNotFoundException(ApiException):
    """No producer with this transactional id, or not any more."""

    code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND

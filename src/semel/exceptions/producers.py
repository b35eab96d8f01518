"""Errors about a producer's identity, its sequences and its transactions.

Role.   Raised when a newer producer has fenced this one, earlier records are missing, or a transaction must be aborted.
        `client/producer/transaction_errors` and `answers` decide the effect on a running producer.
"""

from semel.errors import ErrorCode
from semel.exceptions.tree import ApiException, ApplicationRecoverableException, RetriableException


class OutOfOrderSequenceException(ApiException):
    """The batch's sequence does not follow the last one: earlier records are missing."""

    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    abortable = True


class UnknownProducerIdException(OutOfOrderSequenceException):
    """The broker has forgotten this producer."""

    code = ErrorCode.UNKNOWN_PRODUCER_ID


class DuplicateSequenceException(ApiException):
    """The batch is in the log already."""

    code = ErrorCode.DUPLICATE_SEQUENCE_NUMBER


class InvalidProducerEpochException(ApplicationRecoverableException):
    """The batch has an older epoch of its producer."""

    code = ErrorCode.INVALID_PRODUCER_EPOCH
    abortable = True
    fatal = False


class InvalidPidMappingException(ApplicationRecoverableException):
    """The transactional id has another producer id now, or none."""

    code = ErrorCode.INVALID_PRODUCER_ID_MAPPING


class ProducerFencedException(ApplicationRecoverableException):
    """A newer producer with the same `transactional.id` took over: close this one."""

    code = ErrorCode.PRODUCER_FENCED


class InvalidTxnStateException(ApiException):
    """The transaction's state does not allow this step."""

    code = ErrorCode.INVALID_TXN_STATE
    fatal = True


class InvalidTxnTimeoutException(ApiException):
    """`transaction.timeout.ms` above the broker's `transaction.max.timeout.ms`."""

    code = ErrorCode.INVALID_TRANSACTION_TIMEOUT
    fatal = True


class ConcurrentTransactionsException(RetriableException):
    """The previous transaction is still being completed."""

    code = ErrorCode.CONCURRENT_TRANSACTIONS


class TransactionAbortableException(ApiException):
    """The transaction cannot be committed: abort it and continue."""

    code = ErrorCode.TRANSACTION_ABORTABLE
    abortable = True


class TransactionCoordinatorFencedException(ApiException):
    """The transaction coordinator has been replaced."""

    code = ErrorCode.TRANSACTION_COORDINATOR_FENCED


class TransactionalIdNotFoundException(ApiException):
    """The transactional id is unknown or has expired."""

    code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND

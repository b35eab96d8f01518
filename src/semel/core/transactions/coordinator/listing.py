"""Transactions shown to people: ListTransactions and DescribeTransactions.

Role.   Converts a transaction to the entries of the two responses.
Rules.  * Unknown state names are reported, and match no transaction.
        * A duration filter compares with the start of the last transaction; an id without one matches any duration.
        * A pattern must match the whole id. It is an RE2 expression, as in Kafka, matched in linear time.
"""

from collections.abc import Callable

from semel.core.coordination import regexes
from semel.core.transactions.states import BY_LABEL
from semel.core.transactions.transaction import Transaction
from semel.core.wire.messages.describe_transactions import TopicData
from semel.core.wire.messages.describe_transactions import TransactionState as DescribedTransaction
from semel.core.wire.messages.list_transactions import (
    ListTransactionsRequest,
)
from semel.core.wire.messages.list_transactions import TransactionState as ListedTransaction
from semel.errors import ErrorCode


def unknown_states(request: ListTransactionsRequest) -> list[str]:
    """Names in the filter that are unknown states."""
    return [name for name in request.state_filters if name not in BY_LABEL]


def filter_of(request: ListTransactionsRequest, now_ms: int) -> Callable[[Transaction], bool] | ErrorCode:
    """A test whether a transaction matches the request; an error code for an invalid request."""
    producer_ids = frozenset(request.producer_id_filters)
    states = frozenset(BY_LABEL[name] for name in request.state_filters if name in BY_LABEL)
    by_state = bool(request.state_filters)
    matches_id = None
    if request.transactional_id_pattern:
        matches_id = regexes.whole_match(request.transactional_id_pattern)
        if matches_id is None:
            return ErrorCode.INVALID_REGULAR_EXPRESSION

    def matches(transaction: Transaction) -> bool:
        if producer_ids and transaction.producer_id not in producer_ids:
            return False
        if by_state and transaction.state not in states:
            return False
        if request.duration_filter >= 0 and now_ms - transaction.start_ms <= request.duration_filter:
            return False
        return matches_id is None or matches_id(transaction.transactional_id)

    return matches


def listed(transaction: Transaction) -> ListedTransaction:
    return ListedTransaction(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        transaction_state=transaction.state.label,
    )


def described(transactional_id: str, transaction: Transaction | None) -> DescribedTransaction:
    if not transactional_id:
        return DescribedTransaction(error_code=ErrorCode.INVALID_REQUEST)
    if transaction is None:
        return DescribedTransaction(
            error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id=transactional_id
        )
    by_topic: dict[str, list[int]] = {}
    for topic, partition in transaction.partitions:
        by_topic.setdefault(topic, []).append(partition)
    return DescribedTransaction(
        transactional_id=transactional_id,
        transaction_state=transaction.state.label,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[TopicData(topic=topic, partitions=indexes) for topic, indexes in by_topic.items()],
    )

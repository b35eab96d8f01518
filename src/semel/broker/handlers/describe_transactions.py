"""DescribeTransactions (65), version 0: state, owner, age and partitions of transactional ids.

Each id is answered by itself; one the coordinator does not know is TRANSACTIONAL_ID_NOT_FOUND.
"""

from collections.abc import Awaitable

from semel.broker.context import BrokerContext, RequestContext
from semel.broker.coordinators.tickets import merged
from semel.core.coordination.outcome import Outcome
from semel.core.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from semel.errors import ErrorCode


def handle(
    broker: BrokerContext, request: DescribeTransactionsRequest, context: RequestContext
) -> DescribeTransactionsResponse | Awaitable[DescribeTransactionsResponse]:
    """Every id that was named."""
    return merged([_describe(broker, one) for one in request.transactional_ids], _merge)


def _describe(
    broker: BrokerContext, transactional_id: str
) -> DescribeTransactionsResponse | Awaitable[DescribeTransactionsResponse]:
    if not transactional_id:
        return _refused(transactional_id, ErrorCode.INVALID_REQUEST)
    return broker.transactions.ask(
        transactional_id,
        lambda shard, ticket, _now_ms: Outcome(
            replies=[
                (ticket, DescribeTransactionsResponse(transaction_states=[shard.describe(transactional_id)]))
            ]
        ),
        DescribeTransactionsResponse,
        lambda code: _refused(transactional_id, code),
    )


def _refused(transactional_id: str, code: ErrorCode) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[TransactionState(error_code=code, transactional_id=transactional_id)]
    )


def _merge(answers: list[DescribeTransactionsResponse]) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[state for answer in answers for state in answer.transaction_states]
    )

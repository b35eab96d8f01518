"""DescribeTransactions (65), version 0: state, owner, age and partitions of transactional ids.

Each id is answered by itself; one the coordinator does not know is TRANSACTIONAL_ID_NOT_FOUND.
"""

from collections.abc import Awaitable

from semel.broker.context import RequestContext
from semel.broker.coordinators.tickets import merged
from semel.broker.parts import Coordinators
from semel.core.coordination.outcome import Outcome
from semel.core.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from semel.errors import ErrorCode
from semel.net.reply import Exclusive


def handle(
    broker: Coordinators, request: DescribeTransactionsRequest, context: RequestContext
) -> (
    DescribeTransactionsResponse
    | Awaitable[DescribeTransactionsResponse]
    | Exclusive[DescribeTransactionsResponse]
):
    """Every id that was named."""
    return merged(
        (_describe(broker, one) for one in dict.fromkeys(request.transactional_ids)), _merge, broker.runtime
    )


def _describe(
    broker: Coordinators, transactional_id: str
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

"""ListTransactions (66), versions 0-2: the transactional ids coordinated here.

    1+   only those whose transaction is open for longer than `duration_filter`
    2+   only ids that match a regular expression

A state nobody knows is named in the answer and matches nothing.
"""

from semel.broker.context import RequestContext
from semel.broker.parts import Coordinators
from semel.broker.turns import Steps, Turn, in_turns
from semel.core.transactions.coordinator import listing
from semel.core.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from semel.errors import ErrorCode
from semel.net.reply import Exclusive


def handle(
    broker: Coordinators, request: ListTransactionsRequest, context: RequestContext
) -> ListTransactionsResponse | Exclusive[ListTransactionsResponse]:
    """All shards together, or a code while one is being loaded."""
    return in_turns(_list(broker, request), broker.runtime, context.connection.peer)


def _list(broker: Coordinators, request: ListTransactionsRequest) -> Steps[ListTransactionsResponse]:
    host = broker.transactions.host
    matches = listing.filter_of(request, host.now_ms())
    if isinstance(matches, ErrorCode):
        return ListTransactionsResponse(error_code=matches)
    turn = Turn(broker.runtime.clock)
    states: list[TransactionState] = []
    for found in host.looks(lambda shard: [listing.listed(one) for one in shard if matches(one)]):
        if isinstance(found, ErrorCode):
            return ListTransactionsResponse(error_code=found)
        states += found
        if turn.is_over:
            yield None
            turn.begin()
    return ListTransactionsResponse(
        unknown_state_filters=listing.unknown_states(request),
        transaction_states=states,
    )

"""EndTxn (26), versions 0-5: commit or abort.

    2+   a producer that is no longer the owner hears PRODUCER_FENCED, before INVALID_PRODUCER_EPOCH
    5+   transactions v2: the epoch is bumped, and the answer carries the producer's next identity

The answer is given once the decision is durable; markers follow. Where every partition takes its marker at once, the
transaction is complete before anybody's next request is looked at.
"""

from collections.abc import Awaitable

from semel.broker.context import RequestContext
from semel.broker.parts import Coordinators
from semel.core.wire.messages.end_txn import EndTxnRequest, EndTxnResponse


def handle(
    broker: Coordinators, request: EndTxnRequest, context: RequestContext
) -> EndTxnResponse | Awaitable[EndTxnResponse]:
    """Let the coordinator decide."""
    return broker.transactions.ask(
        request.transactional_id,
        lambda shard, ticket, now_ms: shard.end_txn(request, ticket, now_ms, version=context.version),
        EndTxnResponse,
        lambda code: EndTxnResponse(error_code=code),
    )

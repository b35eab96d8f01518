"""AddOffsetsToTxn (25), versions 0-4: a group's offsets join a transaction.

    2+   a producer that is no longer the owner hears PRODUCER_FENCED, before INVALID_PRODUCER_EPOCH

The partition of __consumer_offsets that holds the group's offsets joins the transaction: it gets a marker like any other. Clients
of transactions v2 do without: TxnOffsetCommit 5 does it for them.
"""

from collections.abc import Awaitable

from semel.broker.context import RequestContext
from semel.broker.parts import Coordinators
from semel.core.groups.rows import OFFSETS_TOPIC
from semel.core.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from semel.errors import ErrorCode
from semel.types import TopicPartition


def handle(
    broker: Coordinators, request: AddOffsetsToTxnRequest, context: RequestContext
) -> AddOffsetsToTxnResponse | Awaitable[AddOffsetsToTxnResponse]:
    """Let the coordinator decide, once the topic of offsets is there."""
    ready = broker.groups.host.ensure_topic()
    if isinstance(ready, ErrorCode):
        return _add(broker, request, context.version, ready)
    return _later(broker, request, context.version, ready)


async def _later(
    broker: Coordinators, request: AddOffsetsToTxnRequest, version: int, ready: Awaitable[ErrorCode]
) -> AddOffsetsToTxnResponse:
    answer = _add(broker, request, version, await ready)
    return await answer if isinstance(answer, Awaitable) else answer


def _add(
    broker: Coordinators, request: AddOffsetsToTxnRequest, version: int, ready: ErrorCode
) -> AddOffsetsToTxnResponse | Awaitable[AddOffsetsToTxnResponse]:
    if ready is not ErrorCode.NONE:
        return AddOffsetsToTxnResponse(error_code=ready)
    partition = TopicPartition(OFFSETS_TOPIC, broker.groups.host.partition_of(request.group_id))
    return broker.transactions.ask(
        request.transactional_id,
        lambda shard, ticket, now_ms: shard.add_offsets(request, partition, ticket, now_ms, version=version),
        AddOffsetsToTxnResponse,
        lambda code: AddOffsetsToTxnResponse(error_code=code),
    )

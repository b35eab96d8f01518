"""ListTransactions: every broker's transactional ids, because every broker coordinates some."""

import asyncio
from collections.abc import Sequence

from semel.client.cluster import Cluster
from semel.client.values.administration import TransactionListing
from semel.core.wire.messages.list_transactions import ListTransactionsRequest
from semel.errors import refused


async def list_transactions(
    cluster: Cluster,
    *,
    states: Sequence[str] = (),
    producer_ids: Sequence[int] = (),
    older_than_ms: int = -1,
    pattern: str | None = None,
) -> list[TransactionListing]:
    """The transactional ids of all brokers, by name, as far as they match."""

    async def ask_one(node_id: int) -> list[TransactionListing]:
        request = ListTransactionsRequest(
            state_filters=list(states),
            producer_id_filters=list(producer_ids),
            duration_filter=older_than_ms,
            transactional_id_pattern=pattern,
        )
        answer = await cluster.send(request, node_id=node_id)
        if answer.error_code:
            raise refused(answer.error_code, "to list its transactions", by=cluster.where)
        return [
            TransactionListing(one.transactional_id, one.producer_id, one.transaction_state, node_id)
            for one in answer.transaction_states
        ]

    async def ask() -> list[TransactionListing]:
        await cluster.metadata([])
        answers = await asyncio.gather(*(ask_one(node_id) for node_id in cluster.nodes))
        return sorted(one for answer in answers for one in answer)

    return await cluster.patiently(ask)

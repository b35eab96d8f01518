"""EndTxn: commit or abort the transaction of a producer, under its own identity."""

from semel.client.cluster import Cluster
from semel.core.idempotence.delivery import Identity
from semel.core.transactions.producer import END_TXN_V1_MAX
from semel.core.wire.messages.end_txn import EndTxnRequest
from semel.errors import ErrorCode, error_code


async def end_txn(
    cluster: Cluster,
    transactional_id: str,
    identity: Identity,
    *,
    commit: bool,
    node_id: int,
    keeps_epoch: bool,
) -> ErrorCode:
    """The coordinator's answer; one attempt. With `keeps_epoch` by the first protocol, which moves no epoch."""
    request = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        committed=commit,
    )
    answer = await cluster.send(request, node_id=node_id, version_max=END_TXN_V1_MAX if keeps_epoch else None)
    return error_code(answer.error_code)

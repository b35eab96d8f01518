"""InitProducerId: a producer id and epoch, for a producer or in the place of one."""

from typing import Final

from semel.client.calls.find_coordinator import CoordinatorKind, at_coordinator
from semel.client.cluster import Cluster
from semel.core.idempotence.delivery import NO_IDENTITY, Identity
from semel.core.wire.messages.init_producer_id import InitProducerIdRequest
from semel.errors import ErrorCode, error_code, refused

_FENCE_TIMEOUT_MS: Final = 60_000


async def init_producer_id(
    cluster: Cluster,
    transactional_id: str | None,
    *,
    timeout_ms: int,
    node_id: int | None = None,
    identity: Identity = NO_IDENTITY,
) -> tuple[ErrorCode, Identity]:
    """The answer's code, and the identity that goes with NONE; one attempt.

    `timeout_ms` is the transaction's. With an `identity` the request fails if somebody has gone on from it (KIP-360).
    """
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
    )
    answer = await cluster.send(request, node_id=node_id)
    return error_code(answer.error_code), Identity(answer.producer_id, answer.producer_epoch)


async def fence(
    cluster: Cluster,
    transactional_id: str,
    *,
    timeout_ms: int = _FENCE_TIMEOUT_MS,
    identity: Identity = NO_IDENTITY,
) -> Identity:
    """Take the transactional id over: its transaction is aborted, its producer fenced. Whom it belongs to now."""

    async def order(coordinator: int) -> Identity:
        code, taken = await init_producer_id(
            cluster, transactional_id, timeout_ms=timeout_ms, node_id=coordinator, identity=identity
        )
        if code:
            raise refused(code, f"to fence {transactional_id}", by=cluster.where)
        return taken

    return await at_coordinator(cluster, CoordinatorKind.TRANSACTION, transactional_id, order)

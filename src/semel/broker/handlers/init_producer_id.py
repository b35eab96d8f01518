"""InitProducerId (22), versions 0-6: an identity for a producer.

    3+   a producer that lost track names its id and epoch: without a transactional id it gets a new id, epoch 0; with
         one the epoch is bumped, if it is still the owner
    4+   a producer that is no longer the owner hears PRODUCER_FENCED, before INVALID_PRODUCER_EPOCH
    6    two-phase commit; advertised where `transaction.two.phase.commit.enable` is on

With a transactional id the transaction coordinator decides. The former owner's open transaction is aborted first;
the answer is CONCURRENT_TRANSACTIONS until that is done.

A new id is wanted and none is at hand: a broker alone sets a block aside and answers then; a member answers
COORDINATOR_LOAD_IN_PROGRESS until its controller has given it a block.
"""

import logging
from collections.abc import Awaitable

from semel.broker.context import RequestContext
from semel.broker.parts import Coordinators
from semel.core.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from semel.errors import ErrorCode, LogError

_logger = logging.getLogger(__name__)


def handle(
    broker: Coordinators, request: InitProducerIdRequest, context: RequestContext
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    """Give an id nobody had before, or the next epoch of one: at once where ids are at hand."""
    if (request.producer_id >= 0) != (request.producer_epoch >= 0):
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        given = broker.producer_ids.take()
        if given is None:
            return _next_id(broker)
        return InitProducerIdResponse(producer_id=given, producer_epoch=0)
    if not request.transactional_id:
        return _refused(ErrorCode.INVALID_REQUEST)
    if not broker.producer_ids.is_at_hand:
        return _own_later(broker, request, context)
    answer = _own(broker, request, context)
    if isinstance(answer, Awaitable):
        return _told_later(broker, request, answer)
    _tell(broker, request, answer)
    return answer


async def _next_id(broker: Coordinators) -> InitProducerIdResponse:
    try:
        given = await broker.producer_ids.next()
    except LogError:
        return _refused(ErrorCode.KAFKA_STORAGE_ERROR)
    if given is None:
        return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return InitProducerIdResponse(producer_id=given, producer_epoch=0)


async def _own_later(
    broker: Coordinators, request: InitProducerIdRequest, context: RequestContext
) -> InitProducerIdResponse:
    try:
        await broker.producer_ids.ensure()
    except LogError:
        return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    answer = _own(broker, request, context)
    response = await answer if isinstance(answer, Awaitable) else answer
    _tell(broker, request, response)
    return response


async def _told_later(
    broker: Coordinators, request: InitProducerIdRequest, answer: Awaitable[InitProducerIdResponse]
) -> InitProducerIdResponse:
    response = await answer
    _tell(broker, request, response)
    return response


def _own(
    broker: Coordinators, request: InitProducerIdRequest, context: RequestContext
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    return broker.transactions.ask(
        request.transactional_id or "",
        lambda shard, ticket, now_ms: shard.init_producer_id(
            request, ticket, now_ms, version=context.version
        ),
        InitProducerIdResponse,
        _refused,
    )


def _tell(broker: Coordinators, request: InitProducerIdRequest, response: InitProducerIdResponse) -> None:
    if not response.error_code and _logger.isEnabledFor(logging.DEBUG):
        _logger.debug(
            "[TransactionCoordinator id=%d] Initialized transactionalId %s with producerId %d and producer epoch %d "
            "on partition __transaction_state-%d",
            broker.node_id,
            request.transactional_id,
            response.producer_id,
            response.producer_epoch,
            broker.transactions.host.partition_of(request.transactional_id or ""),
            extra={
                "transactional_id": request.transactional_id,
                "producer_id": response.producer_id,
                "producer_epoch": response.producer_epoch,
            },
        )


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)

"""InitProducerId (22), versions 0-5: an identity for an idempotent producer.

    3+   a producer that lost track names its id and epoch: without a transactional id it gets a new id, epoch 0

Transactional ids need a transaction coordinator, which this broker does not have yet: it says so.
"""

from semel.broker.context import BrokerContext, RequestContext
from semel.core.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from semel.errors import ErrorCode, LogError


async def handle(
    broker: BrokerContext, request: InitProducerIdRequest, context: RequestContext
) -> InitProducerIdResponse:
    """Give an id nobody had before."""
    if request.transactional_id is not None:
        empty = request.transactional_id == ""
        return _refused(ErrorCode.INVALID_REQUEST if empty else ErrorCode.NOT_COORDINATOR)
    if (request.producer_id >= 0) != (request.producer_epoch >= 0):
        return _refused(ErrorCode.INVALID_REQUEST)
    try:
        return InitProducerIdResponse(producer_id=await broker.producer_ids.next(), producer_epoch=0)
    except LogError:
        return _refused(ErrorCode.KAFKA_STORAGE_ERROR)


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)

"""UpdateMetadata (6), versions 0-8: the controller tells which brokers are alive, and how partitions are.

    0-4  partitions one by one; 5+ by topic
    7+   topics with ids. Topics without one are refused: clients and replicas ask by id

Members of a cluster under ZooKeeper serve it. It starts and stops no replica: these are orders of their own.
"""

from semel.broker.context import RequestContext
from semel.broker.membership import telling
from semel.broker.membership.orders import Sender
from semel.broker.parts import Membership
from semel.core.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from semel.errors import ErrorCode


async def handle(
    broker: Membership, request: UpdateMetadataRequest, context: RequestContext
) -> UpdateMetadataResponse:
    """Take over what is told."""
    if telling.topics_without_id(request):
        broker.warn_of_missing_ids("UpdateMetadata", context.version)
        return UpdateMetadataResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    sender = Sender(request.controller_id, request.controller_epoch, request.broker_epoch)
    await broker.orders.until_registered()
    code = broker.orders.fence(sender)
    if not code:
        await broker.store.tell(telling.changes(request))
    return UpdateMetadataResponse(error_code=code)

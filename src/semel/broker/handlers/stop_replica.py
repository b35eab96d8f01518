"""StopReplica (5), versions 0-4: the controller orders replicas to stop, and logs to be deleted.

    0    partitions one by one; 1-2 by topic; until then one word says for all whether logs are deleted
    3+   each partition has a leader epoch, and says by itself whether its log is deleted

Members of a cluster under ZooKeeper serve it.
"""

from semel.broker.context import RequestContext
from semel.broker.membership.orders import Sender, StopOrder
from semel.broker.parts import Membership
from semel.core.cluster.fencing import NOT_GIVEN
from semel.core.wire.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)
from semel.errors import ErrorCode
from semel.types import TopicPartition

_BY_TOPIC_SINCE = 1
_EPOCHS_SINCE = 3


async def handle(
    broker: Membership, request: StopReplicaRequest, context: RequestContext
) -> StopReplicaResponse:
    """Obey, and answer for each partition."""
    sender = Sender(request.controller_id, request.controller_epoch, request.broker_epoch)
    codes = await broker.orders.stop(sender, _orders(request, context.version))
    if isinstance(codes, ErrorCode):
        return StopReplicaResponse(error_code=codes)
    return StopReplicaResponse(
        partition_errors=[
            StopReplicaPartitionError(topic_name=one.topic, partition_index=one.partition, error_code=code)
            for one, code in codes.items()
        ]
    )


def _orders(request: StopReplicaRequest, version: int) -> list[StopOrder]:
    if version >= _EPOCHS_SINCE:
        return [
            StopOrder(
                TopicPartition(topic.topic_name, one.partition_index), one.leader_epoch, one.delete_partition
            )
            for topic in request.topic_states
            for one in topic.partition_states
        ]
    named = (
        [TopicPartition(one.topic_name, one.partition_index) for one in request.ungrouped_partitions]
        if version < _BY_TOPIC_SINCE
        else [
            TopicPartition(topic.name, index) for topic in request.topics for index in topic.partition_indexes
        ]
    )
    return [StopOrder(one, NOT_GIVEN, request.delete_partitions) for one in named]

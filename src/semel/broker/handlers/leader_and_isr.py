"""LeaderAndIsr (4), versions 0-7: the controller orders which partitions this broker leads, and which it follows.

    0-1  partitions one by one; 2+ by topic
    5+   topics with ids. Topics without one are refused: replicas are told apart by it, and fetched by it
    7    a request of a KRaft controller says so: it is no order of this cluster's

Members of a cluster under ZooKeeper serve it. The endpoints of living leaders in the request are not used: UpdateMetadata tells them.
"""

import uuid
from collections.abc import Iterable

from semel.broker.context import RequestContext
from semel.broker.membership.orders import Sender, TopicOrders
from semel.broker.parts import Membership
from semel.core.metadata.partition_state import PartitionState
from semel.core.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from semel.core.wire.primitives import ZERO_UUID
from semel.errors import ErrorCode
from semel.types import TopicPartition

_BY_TOPIC_SINCE = 2
_IDS_SINCE = 5


async def handle(
    broker: Membership, request: LeaderAndIsrRequest, context: RequestContext
) -> LeaderAndIsrResponse:
    """Obey, and answer for each partition."""
    if context.version < _IDS_SINCE or any(one.topic_id == ZERO_UUID for one in request.topic_states):
        broker.warn_of_missing_ids("LeaderAndIsr", context.version)
        return _refused(request, context.version, ErrorCode.UNSUPPORTED_VERSION)
    sender = Sender(request.controller_id, request.controller_epoch, request.broker_epoch)
    topics = [
        TopicOrders(one.topic_name, uuid.UUID(bytes=one.topic_id), _states(one.partition_states))
        for one in request.topic_states
    ]
    codes = await broker.orders.change_roles(sender, topics)
    if isinstance(codes, ErrorCode):
        return LeaderAndIsrResponse(error_code=codes)
    return LeaderAndIsrResponse(
        topics=[
            LeaderAndIsrTopicError(
                topic_id=topic.topic_id.bytes,
                partition_errors=[
                    LeaderAndIsrPartitionError(
                        partition_index=index, error_code=codes[TopicPartition(topic.name, index)]
                    )
                    for index in topic.states
                ],
            )
            for topic in topics
        ]
    )


def _states(ordered: Iterable[LeaderAndIsrPartitionState]) -> dict[int, PartitionState]:
    return {
        one.partition_index: PartitionState(
            tuple(one.replicas), tuple(one.isr), one.leader, one.leader_epoch, one.partition_epoch
        )
        for one in ordered
    }


def _refused(request: LeaderAndIsrRequest, version: int, code: ErrorCode) -> LeaderAndIsrResponse:
    """The same code for every partition, in the shape of the version."""
    if version >= _IDS_SINCE:
        return LeaderAndIsrResponse(error_code=code)
    named = (
        [(one.topic_name, one) for one in request.ungrouped_partition_states]
        if version < _BY_TOPIC_SINCE
        else [(topic.topic_name, one) for topic in request.topic_states for one in topic.partition_states]
    )
    return LeaderAndIsrResponse(
        error_code=code,
        partition_errors=[
            LeaderAndIsrPartitionError(topic_name=name, partition_index=one.partition_index, error_code=code)
            for name, one in named
        ],
    )

"""WriteTxnMarkers (27), versions 1-2: end transactions on the partitions led here.

    2+   the marker says which protocol its transaction followed: v2's must carry a higher epoch than its records

Coordinators send it, and people who end a transaction that hangs. Every partition is answered by itself. The partitions of
__consumer_offsets are ended by the group coordinator, so that pending offsets count or vanish.
"""

from collections.abc import Awaitable
from typing import Final

from semel.broker.context import BrokerContext, RequestContext
from semel.core.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from semel.errors import ErrorCode
from semel.types import TopicPartition

_AS_LEADER: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)


def handle(
    broker: BrokerContext, request: WriteTxnMarkersRequest, context: RequestContext
) -> WriteTxnMarkersResponse | Awaitable[WriteTxnMarkersResponse]:
    """Write every marker now; answer when all are as durable as their topics ask."""
    pending: list[tuple[WritableTxnMarkerPartitionResult, Awaitable[ErrorCode]]] = []
    response = WriteTxnMarkersResponse(
        markers=[_write(broker, marker, pending) for marker in request.markers]
    )
    return _later(response, pending) if pending else response


def _write(
    broker: BrokerContext,
    marker: WritableTxnMarker,
    pending: list[tuple[WritableTxnMarkerPartitionResult, Awaitable[ErrorCode]]],
) -> WritableTxnMarkerResult:
    topics = []
    for topic in marker.topics:
        results = []
        for index in topic.partition_indexes:
            code = broker.transactions.markers.write(
                TopicPartition(topic.name, index),
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                coordinator_epoch=marker.coordinator_epoch,
                commit=marker.transaction_result,
                transaction_version=marker.transaction_version,
            )
            result = WritableTxnMarkerPartitionResult(partition_index=index)
            if isinstance(code, ErrorCode):
                result.error_code = _as_leader(code)
            else:
                pending.append((result, code))
            results.append(result)
        topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=results))
    return WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics)


async def _later(
    response: WriteTxnMarkersResponse,
    pending: list[tuple[WritableTxnMarkerPartitionResult, Awaitable[ErrorCode]]],
) -> WriteTxnMarkersResponse:
    for result, code in pending:
        result.error_code = _as_leader(await code)
    return response


def _as_leader(code: ErrorCode) -> ErrorCode:
    """A coordinator that cannot be asked is a leader that is not there."""
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if code in _AS_LEADER else code

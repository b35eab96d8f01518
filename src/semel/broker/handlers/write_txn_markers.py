"""WriteTxnMarkers (27), versions 1-2: end transactions on the partitions led here.

    2+   the marker says which protocol its transaction followed: v2's must carry a higher epoch than its records

Coordinators send it, and people who end a transaction that hangs. Every partition is answered by itself. The partitions of
__consumer_offsets are ended by the group coordinator, so that pending offsets count or vanish. Others have their turns between
partitions.

The answer waits until every marker is on all replicas in sync, as after acks=all. In a cluster it does not wait for longer than the
coordinator does: then it is REQUEST_TIMED_OUT, and the marker stays.
"""

import asyncio
from collections.abc import Awaitable
from typing import Final, TypeAlias

from semel.broker.context import RequestContext
from semel.broker.markers.here import Marker
from semel.broker.parts import Coordinators
from semel.broker.turns import Steps, Turn, in_turns
from semel.core.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from semel.errors import ErrorCode
from semel.net.reply import Exclusive
from semel.types import TopicPartition

_Pending: TypeAlias = tuple[WritableTxnMarkerPartitionResult, Awaitable[ErrorCode]]
_AS_LEADER: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)


def handle(
    broker: Coordinators, request: WriteTxnMarkersRequest, context: RequestContext
) -> WriteTxnMarkersResponse | Awaitable[WriteTxnMarkersResponse] | Exclusive[WriteTxnMarkersResponse]:
    """Write every marker now; answer when all are as durable as their topics ask."""
    pending: list[_Pending] = []
    written = in_turns(_write_all(broker, request, pending), broker.runtime, context.connection.peer)
    if isinstance(written, Exclusive):
        return Exclusive(_written(broker, written.answer, pending))
    return _later(broker, written, pending) if pending else written


def _write_all(
    broker: Coordinators, request: WriteTxnMarkersRequest, pending: list[_Pending]
) -> Steps[WriteTxnMarkersResponse]:
    turn, response = Turn(broker.runtime.clock), WriteTxnMarkersResponse()
    for marker in request.markers:
        topics: list[WritableTxnMarkerTopicResult] = []
        response.markers.append(WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics))
        for topic in marker.topics:
            results: list[WritableTxnMarkerPartitionResult] = []
            topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=results))
            for index in topic.partition_indexes:
                if turn.is_over:
                    yield None
                    turn.begin()
                results.append(_write(broker, marker, TopicPartition(topic.name, index), pending))
    return response


def _write(
    broker: Coordinators, marker: WritableTxnMarker, topic_partition: TopicPartition, pending: list[_Pending]
) -> WritableTxnMarkerPartitionResult:
    code = broker.transactions.markers.here.write(
        topic_partition,
        Marker(
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            commit=marker.transaction_result,
            transaction_version=marker.transaction_version,
        ),
    )
    result = WritableTxnMarkerPartitionResult(partition_index=topic_partition.partition)
    if isinstance(code, ErrorCode):
        result.error_code = _as_leader(code)
    else:
        pending.append((result, code))
    return result


async def _written(
    broker: Coordinators, response: Awaitable[WriteTxnMarkersResponse], pending: list[_Pending]
) -> WriteTxnMarkersResponse:
    return await _later(broker, await response, pending)


async def _later(
    broker: Coordinators, response: WriteTxnMarkersResponse, pending: list[_Pending]
) -> WriteTxnMarkersResponse:
    until = broker.transactions.markers.here.deadline()
    for result, code in pending:
        try:
            async with asyncio.timeout_at(until):
                result.error_code = _as_leader(await code)
        except TimeoutError:
            result.error_code = ErrorCode.REQUEST_TIMED_OUT
    return response


def _as_leader(code: ErrorCode) -> ErrorCode:
    """A coordinator that cannot be asked is a leader that is not there."""
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if code in _AS_LEADER else code
